"""Which layers of a GGUF model see only a window, from its keys and its architecture."""

from __future__ import annotations

from functools import cached_property

from ropewalk.dialects.gguf.archs import ARCHITECTURES, ArchFacts, WindowPattern
from ropewalk.dialects.gguf.keys import Keys
from ropewalk.rope.spec import Window

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
        pattern, stated = self.facts.windows, self.keys.count(_SIZE, zero=True)
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
        value = self.keys.get(_PATTERN)
        facts = self.facts.windows
        if value is None:
            return facts or WindowPattern(1)
        if isinstance(value, tuple) and len(value) >= self.layers:
            # True, or 1, marks a layer with a window.
            return tuple(not v for v in value)
        period = self.keys.count(_PATTERN, zero=True)
        return WindowPattern(period or 0, facts.full_first if facts else False)

    def is_full(self, layer: int | None) -> bool:
        """Whether a layer sees everything; so does one that nothing is known of."""
        rule = self.full_layers
        if layer is None:
            return not (isinstance(rule, WindowPattern) and rule.period == 0)
        return rule.is_full(layer) if isinstance(rule, WindowPattern) else rule[layer]
