"""Comparisons small enough to train within a test."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.comparison.language import Language
from ropewalk.comparison.presets import Settings, Variant
from ropewalk.listener import Listener


def small(*variants: str, **changes: Any) -> Settings:
    """A few steps of a decoder of 32 channels, trained to 16 tokens."""
    chosen: Any = [Variant(each.removesuffix("+every"), each.endswith("+every"))  # type: ignore[arg-type]
                   for each in variants]  # fmt: skip
    told: dict[str, Any] = {
        "steps": 3, "language": Language(words=8, names=4, values=4), "hidden": 32, "layers": 1,
        "trained_length": 16, "rows": 4, "streams": 2, "prompts": 8, "seeds": (0,),
    }  # fmt: skip
    return Settings(variants=tuple(chosen), **{**told, **changes})


class Heard:
    """What was going on."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.listener = Listener(say=self.phases.append, share=self.share)

    def share(self, done: int, total: int) -> None:
        assert 1 <= done <= total


@pytest.fixture
def heard() -> Heard:
    return Heard()
