"""Which tensor of a checkpoint is which table. Names decide; where they do not, nobody guesses.

Names are those of transformers' models, of the original releases of Llama and Mistral, of
model2vec's files, and of GGUF.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.errors import UsageError
from ropewalk.short import short
from ropewalk.tables.facts import Facts
from ropewalk.tables.formats.base import Checkpoint, two_axes

Role = Literal["input", "output", "positions"]
"""Input rows by token id, the output head's rows by token id, learned rows by position."""

ROLES: tuple[Role, ...] = ("input", "output", "positions")

_NAMES: dict[Role, re.Pattern[str]] = {
    "input": re.compile(
        r"(?:.*\.)?(?:embed_tokens|wte|word_embeddings|embed_in|tok_embeddings|token_embedding"
        r"|shared|word_embedding|tokens_embed)\.weight"
        r"|(?:backbone\.|model\.|embeddings\.)?(?:embedding|embeddings|tok_embeddings)\.weight"
        r"|embeddings|token_embd\.weight"
    ),
    "output": re.compile(
        r"(?:.*\.)?(?:lm_head|embed_out|output_projection)(?:\.decoder)?\.weight"
        r"|output\.weight|(?:.*\.)?cls\.predictions\.decoder\.weight"
    ),
    "positions": re.compile(
        r"(?:.*\.)?(?:position_embeddings?|wpe|embed_positions|positions_embed|pos_embed)"
        r"(?:\.weight)?|position_embd\.weight"
    ),
}

_PACKED_HEAD = re.compile(
    r"(?:.*\.)?(?:lm_head|embed_out|output_projection)(?:\.decoder)?"
    r"\.(?:qweight|weight_packed|weight_q|packed_weight|weight\.(?:absmax|quant_map|nested_absmax))"
)
"""The numbers of a head that GPTQ, AWQ, compressed-tensors, or bitsandbytes has packed."""

_IN_A_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|blk|h)\.\d+\.")
"""A table of one layer, as multi-token prediction has them, is not the model's."""


@short
@dataclass(frozen=True, slots=True)
class Candidate:
    """A tensor that may be the table asked for."""

    name: str
    rows: int
    width: int

    def __str__(self) -> str:
        return f"{self.name} ({self.rows} x {self.width})"


def named(names: Sequence[str], role: Role) -> list[str]:
    """The tensors whose name says that they have this role; those of single layers left out."""
    pattern = _NAMES[role]
    return [n for n in names if pattern.fullmatch(n) and not _IN_A_LAYER.search(n)]


def packed_head(names: Sequence[str]) -> str | None:
    """A tensor of an output head whose numbers are packed; None for none."""
    return next((n for n in sorted(names) if _PACKED_HEAD.fullmatch(n)), None)


def candidates(checkpoint: Checkpoint, role: Role, facts: Facts | None = None) -> list[Candidate]:
    """What may be the table: by name, or, where no name says so, by shape.

    By shape is the width of the model, and for tokens at least as many rows as its vocabulary;
    all matrices without a configuration. Opens all shards then, headers only.
    """
    by_name = named(checkpoint.names(), role)
    found = list(_sized(checkpoint, by_name))
    if found or role == "positions":
        return found
    width = None if facts is None else facts.width
    rows = 0 if facts is None else facts.vocab_size or 0
    return [
        c
        for c in _sized(checkpoint, checkpoint.names())
        if (width is None or c.width == width) and c.rows >= max(rows, 2)
    ]


def choose(checkpoint: Checkpoint, role: Role, facts: Facts | None = None) -> str | None:
    """The name of the one tensor that has this role by its name; None where there is none.

    Raises UsageError that lists the candidates where there are several.
    """
    by_name = named(checkpoint.names(), role)
    if len(by_name) < 2:
        return by_name[0] if by_name else None
    listed = ", ".join(map(str, candidates(checkpoint, role, facts)))
    raise UsageError(
        f"{checkpoint.path} has {len(by_name)} tensors that may be the {role} table: {listed}; "
        "choose one with tensor=NAME"
    )


def _sized(checkpoint: Checkpoint, names: Sequence[str]) -> list[Candidate]:
    """Those of `names` that are matrices, with their sizes."""
    found = []
    for name in names:
        shape = checkpoint.shape(name)
        if len(shape) < 2:
            continue
        try:
            found.append(Candidate(name, *two_axes(name, shape)))
        except UsageError:
            continue
    return found
