"""Typed access to a GGUF file's metadata, and which layers it gives a window.

Keys carry the architecture's name as a prefix (`llama.rope.freq_base`); here they are named
without it ("rope.freq_base").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NoReturn

from ropewalk.dialects.gguf.archs import ARCHITECTURES, ArchFacts, WindowPattern
from ropewalk.dialects.gguf.header import GgufHeader, GgufValue, read_floats
from ropewalk.dialects.values import MAX_LENGTH, Notes, Section
from ropewalk.errors import GgufError, RopewalkError
from ropewalk.rope.spec import Source, Window
from ropewalk.short import short

_AGAIN = "download the file again, or convert the model anew"


@short
@dataclass(frozen=True, slots=True)
class GgufSource(Source):
    """A GGUF file: its header."""

    header: GgufHeader = field(kw_only=True)


def rows_of(header: GgufHeader) -> int | None:
    """Rows of the table of token vectors, None in a file without one."""
    table = header.tensors.get("token_embd.weight")
    return None if table is None else int(table.shape[-1])


@short
@dataclass(frozen=True, slots=True)
class Keys(Section):
    """The metadata of one file under its architecture's prefix (`path`), its tensors' list in
    `header`, and what was noticed so far.
    """

    header: GgufHeader = field(kw_only=True)
    notes: Notes = field(default_factory=Notes, kw_only=True)

    error: ClassVar[type[RopewalkError]] = GgufError
    typed: ClassVar[bool] = True
    usual_remedy: ClassVar[str] = _AGAIN

    @classmethod
    def of(cls, header: GgufHeader) -> Keys:
        """Raises GgufError for a file that names no architecture."""
        arch = header.metadata.get("general.architecture")
        if not isinstance(arch, str) or not arch:
            _refuse_without_architecture(header, arch)
        values = {
            key.removeprefix(f"{arch}."): value
            for key, value in header.metadata.items()
            if key.startswith(f"{arch}.")
        }
        return cls(values, str(header.path), arch, header=header)

    @property
    def arch(self) -> str:
        """The architecture."""
        return self.path

    def remark(self, code: str, text: str, remedy: str = "", *, warn: bool = False) -> None:
        """Note something once."""
        (self.notes.warn if warn else self.notes.note)(code, text, remedy)

    def count(self, key: str, most: int = MAX_LENGTH, *, least: int = 1) -> int | None:
        """As everywhere; of an array, which comes up where layers differ, the largest."""
        value = self.values.get(key)
        if isinstance(value, tuple) and value:
            return max(self.counts(key, least=0) or ())
        return Section.count(self, key, most, least=least)

    def required_count(self, key: str) -> int:
        """As `count`, for a key that every model's file has."""
        value = self.count(key)
        if value is None:
            raise GgufError(
                f"{self.where}: {self.name(key)} is missing, and every language model's "
                "file states it: this may be a projector or an adapter; choose the model's file"
            )
        return value

    def by_layer(self, key: str, layers: int) -> tuple[int, ...] | None:
        """A whole number for each layer, where the file has an array; None for a scalar."""
        value = self.values.get(key)
        if value is None or isinstance(value, int | float | str):
            return None
        if not isinstance(value, tuple) or len(value) < layers:
            raise self.wrong(key, f"an array of {layers} whole numbers")
        return self.counts(key, least=0)

    def layer_tensor(self, stem: str, layer: int | None) -> str | None:
        """The name of a schedule tensor for a layer: its own, or the one for all layers."""
        tensors = self.header.tensors
        for name in (f"blk.{layer}.{stem}.weight", f"{stem}.weight"):
            if name in tensors:
                return name
        return None

    def divisors(self, name: str) -> tuple[float, ...]:
        """A schedule tensor's values; each must be a number above 0."""
        values = read_floats(self.header, name)
        bad = next((v for v in values if not (math.isfinite(v) and v > 0)), None)
        if bad is not None:
            raise GgufError(
                f"{self.where}: tensor {name!r} holds {bad}; divisors of frequencies are "
                f"numbers above 0: {_AGAIN}"
            )
        return values


def _refuse_without_architecture(header: GgufHeader, value: GgufValue | None) -> NoReturn:
    """Say what is missing; later parts of a split model have no metadata of the model."""
    number, count = header.metadata.get("split.no"), header.metadata.get("split.count")
    if isinstance(number, int) and isinstance(count, int) and number > 0:
        raise GgufError(
            f"{header.path} is part {number + 1} of {count} of a split model, and the "
            "settings are in the first part: open that file instead"
        )
    said = "is missing" if value is None else f"is {value!r}"
    raise GgufError(
        f"{header.path}: general.architecture {said}; the name of an architecture "
        "(such as 'llama') was expected: this may be no language model; choose another file"
    )


_SIZE = "attention.sliding_window"
_PATTERN = "attention.sliding_window_pattern"


class WindowReader:
    """The window keys of one file; `layers` is its number of layers, 0 when not stated."""

    def __init__(self, keys: Keys, facts: ArchFacts, layers: int) -> None:
        self.keys, self.facts, self.layers = keys, facts, layers

    def of(self, layer: int | None) -> Window | None:
        """The window of one layer, None where it sees everything."""
        return None if self.window is None or self.is_full(layer) else self.window

    @cached_property
    def window(self) -> Window | None:
        """The window of the layers that have one."""
        pattern, stated = self.facts.windows, self.keys.count(_SIZE, least=0)
        if stated == 0:
            return None
        size = stated or (pattern.default_size if pattern else None)
        if size is None:
            return None
        if pattern is None and not self.keys.has(_PATTERN):
            self.keys.remark(
                "window-unplaced",
                f"{self.keys.name(_SIZE)} is {size}, and nothing says which layers it is for; "
                f"llama.cpp does not use it for {self.keys.arch}",
                warn=self.keys.arch not in ARCHITECTURES,
            )
            return None
        if self.keys.arch == "phi3":
            self.keys.remark(
                "window-ignored",
                f"{self.keys.name(_SIZE)} is {size} for all layers, and llama.cpp runs this "
                "architecture without a window",
            )
        return Window(size, pattern.kind if pattern else "sliding")

    @cached_property
    def full_layers(self) -> tuple[bool, ...] | WindowPattern:
        """Which layers see everything: a value a layer, or a rule."""
        value = self.keys.values.get(_PATTERN)
        facts = self.facts.windows
        if value is None:
            return facts or WindowPattern(1)
        if isinstance(value, tuple) and len(value) >= self.layers:
            # True, or 1, marks a layer with a window.
            return tuple(not v for v in value)
        period = self.keys.count(_PATTERN, least=0)
        return WindowPattern(period or 0, facts.full_first if facts else False)

    def is_full(self, layer: int | None) -> bool:
        """Whether a layer sees everything; so does one that nothing is known of."""
        rule = self.full_layers
        if layer is None:
            return not (isinstance(rule, WindowPattern) and rule.period == 0)
        return rule.is_full(layer) if isinstance(rule, WindowPattern) else rule[layer]
