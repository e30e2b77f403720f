"""Encodings of a model whose layers differ, picked by layer type."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from ropewalk.errors import UsageError
from ropewalk.positions.base import PositionEncoding


class ByLayerType(nn.Module):
    """One encoding for each layer type: Gemma 3's two bases, SmolLM3's layers without position.

    `by_type["full_attention"]` is that type's encoding. Encodings with parameters are parameters
    of this module. Raises UsageError for no types at all, and for one that is not here.
    """

    def __init__(self, encodings: Mapping[str, PositionEncoding]) -> None:
        super().__init__()
        if not encodings:
            raise UsageError("no layer type has an encoding; give at least one")
        self.types = tuple(encodings)
        # A list, because the keys of a ModuleDict may not hold dots.
        self.encodings = nn.ModuleList(encodings.values())

    def __getitem__(self, layer_type: str) -> PositionEncoding:
        if layer_type not in self.types:
            raise UsageError(
                f"no encoding for layers of type {layer_type!r}; there are {', '.join(self.types)}"
            )
        encoding = self.encodings[self.types.index(layer_type)]
        if not isinstance(encoding, PositionEncoding):
            raise UsageError(f"{layer_type!r} holds {type(encoding).__name__}, no encoding")
        return encoding
