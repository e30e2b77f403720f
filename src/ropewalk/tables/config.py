"""What a model's configuration says of its tables: sizes, whether the head is tied, the family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ropewalk.dialects.gguf.header import GgufHeader
from ropewalk.dialects.hf import load_json
from ropewalk.dialects.hf.families import learned_offset
from ropewalk.dialects.hf.family import TEXT_PARTS
from ropewalk.dialects.hf.ties import UNKNOWN, Tying, tying
from ropewalk.dialects.values import Section
from ropewalk.short import short


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
