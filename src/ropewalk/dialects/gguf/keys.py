"""Typed access to a GGUF file's metadata: each value is checked where it is read."""

from __future__ import annotations

import math
from typing import NoReturn

from ropewalk.dialects.gguf.header import GgufHeader, GgufValue, SkippedArray, read_floats
from ropewalk.errors import GgufError
from ropewalk.rope.spec import Remark

MOST_TOKENS = 1 << 40
"""No length, width or count of a real model is larger."""


class Keys:
    """The metadata of one file under its architecture's prefix, and the remarks so far.

    Every method takes the key's name without the prefix ("rope.freq_base") and returns None
    where the file does not have it. A value of the wrong kind, or not a possible number, is a
    `GgufError` with key and value.
    """

    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        self.remarks: list[Remark] = []
        arch = header.metadata.get("general.architecture")
        if not isinstance(arch, str) or not arch:
            self._refuse_without_architecture(arch)
        self.arch = arch

    def _refuse_without_architecture(self, value: GgufValue | None) -> NoReturn:
        """Say what is missing; later parts of a split model have no metadata of the model."""
        metadata = self.header.metadata
        number, count = metadata.get("split.no"), metadata.get("split.count")
        if isinstance(number, int) and isinstance(count, int) and number > 0:
            raise GgufError(
                f"{self.header.path} is part {number + 1} of {count} of a split model, and the "
                "settings are in the first part: open that file instead"
            )
        said = "is missing" if value is None else f"is {value!r}"
        raise GgufError(
            f"{self.header.path}: general.architecture {said}; the name of an architecture "
            "(such as 'llama') was expected: this may be no language model; choose another file"
        )

    def remark(self, code: str, text: str, remedy: str = "", *, warn: bool = False) -> None:
        """Note something once."""
        remark = Remark(code, text, remedy, "warning" if warn else "note")
        if remark not in self.remarks:
            self.remarks.append(remark)

    def name(self, suffix: str) -> str:
        """The key with its prefix, as the file spells it."""
        return f"{self.arch}.{suffix}"

    def has(self, suffix: str) -> bool:
        """Whether the file has the key."""
        return self.name(suffix) in self.header.metadata

    def get(self, suffix: str) -> GgufValue | None:
        """The raw value."""
        return self.header.metadata.get(self.name(suffix))

    def fail(self, suffix: str, value: object, expected: str) -> NoReturn:
        """Raise the error for a value that cannot be."""
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        raise GgufError(
            f"{self.header.path}: {self.name(suffix)} is {shown}; {expected} was expected: "
            "download the file again, or convert the model anew"
        )

    def number(self, suffix: str, *, zero: bool = False, negative: bool = False) -> float | None:
        """A finite number above 0; `zero` and `negative` allow those too."""
        value = self.get(suffix)
        if value is None:
            return None
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value):  # type: ignore[arg-type]
            self.fail(suffix, value, "a number")
        number = float(value)  # type: ignore[arg-type]
        if (number < 0 and not negative) or (number == 0 and not (zero or negative)):
            self.fail(suffix, value, "a number that is not negative" if zero else "one above 0")
        return number

    def count(self, suffix: str, *, zero: bool = False, most: int = MOST_TOKENS) -> int | None:
        """A whole number from 1 (`zero`: from 0) to `most`; of an array, the largest.

        Arrays come up where layers differ; the largest value is what sets sizes.
        """
        value = self.get(suffix)
        if value is None:
            return None
        if isinstance(value, tuple) and value:
            value = max(self._whole(suffix, item, 0, most) for item in value)
        return self._whole(suffix, value, 0 if zero else 1, most)

    def required_count(self, suffix: str) -> int:
        """As `count`, for a key that every model's file has."""
        value = self.count(suffix)
        if value is None:
            raise GgufError(
                f"{self.header.path}: {self.name(suffix)} is missing, and every language model's "
                "file states it: this may be a projector or an adapter; choose the model's file"
            )
        return value

    def counts(self, suffix: str, layers: int) -> tuple[int, ...] | None:
        """A number for each layer, where the file has an array of them; None for a scalar."""
        value = self.get(suffix)
        if isinstance(value, SkippedArray):
            self.fail(suffix, value, f"an array of {layers} whole numbers")
        if not isinstance(value, tuple):
            return None
        if len(value) < layers:
            self.fail(suffix, value, f"an array of {layers} whole numbers")
        return tuple(self._whole(suffix, item, 0, MOST_TOKENS) for item in value)

    def flag(self, suffix: str) -> bool | None:
        """True or False."""
        value = self.get(suffix)
        if value is not None and not isinstance(value, bool):
            self.fail(suffix, value, "true or false")
        return value

    def word(self, suffix: str) -> str | None:
        """A text."""
        value = self.get(suffix)
        if value is not None and not isinstance(value, str):
            self.fail(suffix, value, "a text")
        return value

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
                f"{self.header.path}: tensor {name!r} holds {bad}; divisors of frequencies are "
                "numbers above 0: download the file again"
            )
        return values

    def _whole(self, suffix: str, value: object, least: int, most: int) -> int:
        """`value` as a whole number within bounds."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.fail(suffix, value, f"a whole number from {least} to {most}")
        return value
