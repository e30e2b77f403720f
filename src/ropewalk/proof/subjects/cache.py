"""A key-value cache that branches without copying: transformers' cache, kept in one place.

transformers' dynamic layers concatenate, so that every further token copies all that is kept, and
a branch off a long text costs as much memory as the text. A layer here owns a buffer of a given
capacity, writes into it in place and hands out views; going back is setting a counter. A layer
with a sliding window keeps every token too, and shows only those that the window can reach, so
that it can go back as far as any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import (
    Cache,
    CacheLayerMixin,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
)

from ropewalk.errors import LengthError, ModelFileError


class InPlaceLayer(CacheLayerMixin):
    """Keys and values of one layer of attention over everything before.

    `capacity` is the number of tokens it has room for. The buffers are made at the first token,
    of its shape (batch, key-value heads, capacity, head dimension), its dtype, on its device:
    a model spread over devices has each layer's cache where the layer is.
    """

    is_croppable = True
    is_sliding = False
    keys: Any
    values: Any
    """The buffers; None before the first token."""

    def __init__(self, capacity: int) -> None:
        CacheLayerMixin.__init__(self)
        self.capacity = capacity
        self.length = 0
        """Tokens kept: the counter that crops."""

    def lazy_initialization(
        self, key_states: torch.Tensor, value_states: torch.Tensor | None = None
    ) -> None:
        """Make the buffers, for states (batch, heads, tokens, head dimension)."""
        values = key_states if value_states is None else value_states
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = _buffer(key_states, self.capacity)
        self.values = _buffer(values, self.capacity)
        self.is_initialized = True

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states behind what is kept; return views of all that may be attended to.

        Raises LengthError when there is no room: `reserve` gives more, nothing else does.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.capacity:
            raise LengthError(
                f"a cache with room for {self.capacity:,} tokens cannot hold {end:,}: reserve more"
            )
        begin, keys, values = self._begin(), self.keys, self.values
        keys[:, :, self.length : end] = key_states
        values[:, :, self.length : end] = value_states
        self.length = end
        return keys[:, :, begin:end], values[:, :, begin:end]

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Number of keys that `update` will return for so many queries, and the first one's place.

        The first releases of transformers 5 give the queries' places rather than their number.
        """
        queries = query_length if isinstance(query_length, int) else len(query_length)
        begin = self._begin()
        return self.length + queries - begin, begin

    def get_seq_length(self) -> int:
        """Tokens kept."""
        return self.length

    def get_max_length(self) -> int:
        """Tokens there is room for."""
        return self.capacity

    def get_max_cache_shape(self) -> int:
        """What the first releases of transformers 5 call `get_max_length`."""
        return self.capacity

    def last(self, tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the keys and values of the last `tokens` tokens."""
        begin = self.length - tokens
        keys, values = (each[:, :, begin : self.length] for each in (self.keys, self.values))
        return keys.clone(), values.clone()

    def append(self, states: tuple[torch.Tensor, torch.Tensor]) -> None:
        """Write keys and values behind what is kept: rotated by where they stand, not by place.

        Raises LengthError when there is no room.
        """
        self.update(*states)

    def crop(self, tokens_to_remove: int) -> None:
        """Forget as many of the last tokens as the number is negative; nothing is moved.

        Raises ValueError for a positive number, and for more tokens than there are.
        """
        if not -self.length <= tokens_to_remove <= 0:
            raise ValueError(
                f"cannot crop {tokens_to_remove} tokens of {self.length}: give a number from "
                f"-{self.length} to 0"
            )
        self.length += tokens_to_remove

    def reset(self) -> None:
        """Forget every token; the buffers stay."""
        self.length = 0

    def reserve(self, capacity: int) -> None:
        """Room for `capacity` tokens in all: the one thing that copies. Never shrinks."""
        if capacity <= self.capacity:
            return
        self.capacity = capacity
        if self.is_initialized:
            self.keys = _grown(self.keys, capacity, self.length)
            self.values = _grown(self.values, capacity, self.length)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Put the rows of the batch in another order."""
        if self.is_initialized:
            self.keys = self.keys.index_select(0, beam_idx.to(self.keys.device))
            self.values = self.values.index_select(0, beam_idx.to(self.values.device))

    def nbytes(self) -> int:
        """Bytes of both buffers; 0 before the first token."""
        return int(self.keys.nbytes + self.values.nbytes) if self.is_initialized else 0

    def _begin(self) -> int:
        """The first token that the next queries may attend to."""
        return 0


class InPlaceWindowLayer(InPlaceLayer):
    """A layer whose queries reach `sliding_window` tokens, themselves included.

    Keeps all tokens and shows those that the next queries can reach. `anchor`, where it is set,
    counts the tokens of a text from which several branches were laid out one behind the other:
    a branch's window then begins as if it stood directly behind the text.
    """

    is_sliding = True

    def __init__(self, capacity: int, sliding_window: int) -> None:
        super().__init__(capacity)
        self.sliding_window = sliding_window
        self.anchor: int | None = None

    def _begin(self) -> int:
        behind = self.length if self.anchor is None else self.anchor
        return max(0, behind - self.sliding_window + 1)


class InPlaceCache(Cache):
    """A cache of in-place layers for one model; grows only by `reserve`.

    `InPlaceCache.for_model(model, capacity)` makes one with the layers that the model needs.
    Layers that keep nothing of their own (they use another layer's) stay transformers' own.
    """

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers=layers)
        self._own = [layer for layer in layers if isinstance(layer, InPlaceLayer)]

    @classmethod
    def for_model(cls, model: Any, capacity: int) -> InPlaceCache:
        """An empty cache for a transformers model, with room for `capacity` tokens.

        Raises ModelFileError for a model with layers that cannot go back: recurrent states, and
        whatever else transformers keeps in a layer of another type.
        """
        return cls(
            [_in_place(layer, capacity) for layer in DynamicCache(config=model.config).layers]
        )

    @property
    def length(self) -> int:
        """Tokens kept by every layer."""
        return min(layer.length for layer in self._own)

    @property
    def capacity(self) -> int:
        """Tokens there is room for."""
        return min(layer.capacity for layer in self._own)

    def crop_to(self, length: int) -> None:
        """Keep the first `length` tokens of every layer.

        Also right after a forward pass that broke off half way, when some layers hold more than
        others. Raises ValueError when a layer holds fewer.
        """
        for layer in self._own:
            layer.crop(length - layer.length)

    def last(self, tokens: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Copies of every layer's keys and values of the last `tokens` tokens."""
        return [layer.last(tokens) for layer in self._own]

    def append(self, states: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """Put back what `last` gave, behind what is kept. Raises LengthError without room."""
        for layer, each in zip(self._own, states, strict=True):
            layer.append(each)

    def reserve(self, capacity: int) -> None:
        """Room for `capacity` tokens in every layer, one after the other. Never shrinks."""
        for layer in self._own:
            layer.reserve(capacity)

    def anchor(self, length: int | None) -> None:
        """Say from where windows are measured: see `InPlaceWindowLayer`; None: as usual."""
        for layer in self._own:
            if isinstance(layer, InPlaceWindowLayer):
                layer.anchor = length

    def windows(self) -> list[int | None]:
        """The sliding window of every layer that keeps tokens, None where it sees everything."""
        return [getattr(layer, "sliding_window", None) for layer in self._own]

    def windows_by(self, kinds: Sequence[str]) -> dict[str, int | None]:
        """The sliding window of each kind of layer, where `kinds` names every layer's."""
        return {
            kind: getattr(layer, "sliding_window", None)
            for kind, layer in zip(kinds, self.layers, strict=False)
            if isinstance(layer, InPlaceLayer)
        }

    def nbytes(self) -> int:
        """Bytes that all buffers take."""
        return sum(layer.nbytes() for layer in self._own)


def _in_place(layer: Any, capacity: int) -> Any:
    """Our layer in the place of one of transformers' own."""
    if type(layer) is DynamicLayer:
        return InPlaceLayer(capacity)
    if type(layer) is DynamicSlidingWindowLayer:
        return InPlaceWindowLayer(capacity, int(layer.sliding_window))
    if type(layer).__name__ == "DummyLayer":
        return layer
    raise ModelFileError(
        f"the model keeps a {type(layer).__name__}, and such a state cannot be taken back to an "
        "earlier token"
    )


def _buffer(states: torch.Tensor, capacity: int) -> torch.Tensor:
    batch, heads, _, width = states.shape
    return torch.empty((batch, heads, capacity, width), dtype=states.dtype, device=states.device)


def _grown(old: torch.Tensor, capacity: int, kept: int) -> torch.Tensor:
    new = _buffer(old, capacity)
    new[:, :, :kept] = old[:, :, :kept]
    return new
