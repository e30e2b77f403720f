"""Which tensor of a checkpoint is which table, and whether its two token tables are one.

Names decide; where they do not, nobody guesses. Names are those of transformers' models, of the
original releases of Llama and Mistral, of model2vec's files, and of GGUF. Whether the head is the
input table (`Tie`) is said by the flag, the file, and the family. `TableFacts` is what a model's
configuration says of its tables: sizes, whether the head is tied, the family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ropewalk.dialects.gguf.header import GgufHeader
from ropewalk.dialects.hf import load_json
from ropewalk.dialects.hf.families import learned_offset
from ropewalk.dialects.hf.family import TEXT_PARTS
from ropewalk.dialects.hf.ties import UNKNOWN, Tying, tying
from ropewalk.dialects.values import Section
from ropewalk.errors import ModelFileError, UsageError
from ropewalk.short import short
from ropewalk.tables.formats.shards import Checkpoint, two_axes

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

_BIAS = re.compile(
    r"(?:.*\.)?(?:lm_head|embed_out|output_projection)(?:\.decoder)?\.bias"
    r"|(?:.*\.)?cls\.predictions(?:\.decoder)?\.bias|output\.bias"
)

_IN_A_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|blk|h)\.\d+\.")
"""A table of one layer, as multi-token prediction has them, is not the model's."""


@short
@dataclass(frozen=True, slots=True)
class PossibleTable:
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


def output_biases(checkpoint: Checkpoint, rows: int) -> list[str]:
    """The tensors that hold an output bias, one number for each of `rows` rows."""
    named_so = (name for name in checkpoint.names() if _BIAS.fullmatch(name))
    return [name for name in named_so if checkpoint.shape(name) == (rows,)]


def candidates(
    checkpoint: Checkpoint, role: Role, facts: TableFacts | None = None
) -> list[PossibleTable]:
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


def choose(checkpoint: Checkpoint, role: Role, facts: TableFacts | None = None) -> str | None:
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


def _sized(checkpoint: Checkpoint, names: Sequence[str]) -> list[PossibleTable]:
    """Those of `names` that are matrices, with their sizes."""
    found = []
    for name in names:
        shape = checkpoint.shape(name)
        if len(shape) < 2:
            continue
        try:
            found.append(PossibleTable(name, *two_axes(name, shape)))
        except UsageError:
            continue
    return found


@short
@dataclass(frozen=True, slots=True)
class Tie:
    """`said` is what configuration and family say (of a GGUF nothing); `head` the name of the head
    that the file stores, None for none; `alone`: it stores no input table beside it.
    """

    said: Tying = UNKNOWN
    head: str | None = None
    gguf: bool = False
    alone: bool = False

    @property
    def missing(self) -> bool:
        """Whether the model has a head of its own and the file does not hold it."""
        return self.said.tied is False and self.head is None and not self.gguf

    @property
    def tied(self) -> bool | None:
        """Whether the head is the input table; None where that is not known.

        The flag decides; without one a stored head is a head of its own, unless the family is
        tied without the flag; and with neither the family's default decides. llama.cpp goes by
        the file. Raises ModelFileError where the head is missing: then there is none.
        """
        if self.missing:
            raise ModelFileError(f"{self.sentence}; an engine would leave them at random values")
        if self.gguf:
            return self.head is None
        if self.said.tied is None and self.head is not None:
            return False
        return self.said.tied

    @property
    def sentence(self) -> str:
        """What is the case, in words; one for each combination of flag, family and file."""
        if self.gguf:
            rule = "(llama.cpp goes by the file)"
            if self.head is not None:
                return f"untied: the head is {self.head} {rule}"
            return (
                "tied: no head is stored, so a head, if the model has one, is the input table "
                f"{rule}"
            )
        if self.said.tied is None:
            return self._unknown()
        if self.head is None:
            if self.said.tied:
                return f"tied: the head is not stored, and {self._reason(tied=True)}"
            return (
                f"untied: no head is stored, and {self._reason(tied=False)}: the head's weights "
                "are missing from this checkpoint"
            )
        if self.said.tied and self.alone:
            return f"tied: {self.head} is both tables, and {self._reason(tied=True)}"
        if self.said.tied:
            return (
                f"tied: {self._reason(tied=True)}, and yet the file stores a head of its own "
                f"({self.head}): engines that obey that read the input table instead"
            )
        return f"untied: the head is {self.head}, and {self._reason(tied=False)}"

    def _reason(self, *, tied: bool) -> str:
        word = "tied" if tied else "untied"
        if self.said.flag is not None:
            return f"the configuration says {word} (tie_word_embeddings)"
        if self.said.fixed:
            return f"{self.said.family} models are {word} whatever the configuration says"
        return (
            f"the configuration does not say; {self.said.family} models are {word} by default "
            "(tie_word_embeddings)"
        )

    def _unknown(self) -> str:
        if self.head is not None:
            return f"untied: the head is {self.head} (the configuration does not say)"
        family = self.said.family
        because = (
            "no configuration names the model"
            if family is None
            else f"the configuration does not say, and what {family} models do is not known here"
        )
        return f"not known whether tied: no head is stored, and {because}"


@short
@dataclass(frozen=True, slots=True)
class TableFacts:
    """What is known, each None where the configuration does not say.

    `where` is the file, `family` the model_type of transformers or the architecture of a GGUF,
    `tying` whether its two tables are one (a GGUF does not say), `values` the language model's own
    keys. `gguf`: the engine is llama.cpp, which has rules of its own.
    """

    where: str
    family: str | None
    vocab_size: int | None
    width: int | None
    tying: Tying
    values: Section
    gguf: bool = False

    @property
    def position_offset(self) -> int:
        """Rows at the start of a learned position table that serve no position."""
        return learned_offset(self.family)


def facts_of_config(path: Path) -> TableFacts:
    """From a config.json. Raises ConfigError for one that cannot be read, or holds other kinds."""
    whole = Section(load_json(path), str(path))
    inner = whole
    for _ in range(2):
        part = next((key for key in TEXT_PARTS if inner.has(key)), None)
        inner = inner if part is None else inner.section(part) or inner
    return TableFacts(
        where=str(path),
        family=inner.text("model_type") or whole.text("model_type"),
        vocab_size=inner.count("vocab_size", 2**31),
        width=next(
            (n for k in ("hidden_size", "n_embd", "d_model") if (n := inner.count(k))), None
        ),
        tying=tying(whole),
        values=inner,
    )


def facts_of_gguf(header: GgufHeader) -> TableFacts:
    """From a GGUF header; keys of the architecture without its name before them."""
    arch = header.metadata.get("general.architecture")
    family = arch if isinstance(arch, str) else None
    before = f"{family}."
    own: Mapping[str, object] = {
        key.removeprefix(before): value
        for key, value in header.metadata.items()
        if key.startswith(before)
    }
    values = Section(own, str(header.path))
    return TableFacts(
        where=str(header.path),
        family=family,
        vocab_size=values.count("vocab_size", 2**31),
        width=values.count("embedding_length"),
        tying=UNKNOWN,
        values=values,
        gguf=True,
    )
