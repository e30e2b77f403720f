"""One transformers model as something that turns token ids into logits, in pieces that fit.

A text goes through in one call. It is cut into chunks only when the memory at hand would not
hold the activations of the whole, and again smaller when a device says it is out of memory.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ropewalk.models.load import entry
from ropewalk.proof.subjects.memory import free_memory, give_back

if TYPE_CHECKING:
    import torch

SMALLEST_CHUNK = 256
"""Tokens a call; below this a prompt that still does not fit is an OVERFLOW."""


class ModelCalls:
    """Forward passes of `model`. `chunk` bounds the tokens of one, None: as many as fit."""

    def __init__(self, model: Any, chunk: int | None = None) -> None:
        self.model = model
        self._chunk = chunk
        # transformers 5.24 renamed past_key_values; both names are in use among 5.x.
        self._named = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in self._named else "past_key_values"

    @property
    def device(self) -> torch.device:
        """Where token ids go in."""
        device: torch.device = entry(self.model)
        return device

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids at which the model's own generation stops: chat models have several."""
        generation = getattr(self.model, "generation_config", None)
        end = getattr(generation, "eos_token_id", None)
        if end is None:
            return frozenset()
        return frozenset({int(end)} if isinstance(end, int) else map(int, end))

    def takes(self, argument: str) -> bool:
        """Whether the model's forward names an argument."""
        return argument in self._named

    def call(
        self, ids: torch.Tensor, cache: Any, keep: int | torch.Tensor, **more: Any
    ) -> tuple[torch.Tensor, Any]:
        """One pass: ids (1, length) behind `cache` to logits (kept, vocabulary), and the cache.

        `keep` is how many of the last tokens get logits, or the indices (kept,) of those that do.
        """
        past = {self._cache_name: cache}
        out = self.model(ids, use_cache=True, logits_to_keep=keep, **past, **more)
        logits = out.logits[0]
        if isinstance(keep, int):
            return logits[-keep:], getattr(out, self._cache_name)
        if len(logits) != len(keep):
            # A model that takes no indices gives every token's.
            logits = logits[keep.to(logits.device)]
        return logits, getattr(out, self._cache_name)

    def chunk(self, length: int) -> int:
        """As many tokens a call as half the free memory holds for a text of `length` tokens.

        At least SMALLEST_CHUNK; the whole text when that fits.
        """
        if self._chunk is not None:
            return self._chunk
        config = self.model.config.get_text_config()
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        # Gemma 3n gives one for each layer; one layer's activations are alive at a time.
        widest = max(inner) if isinstance(inner, (list, tuple)) else inner
        width = 3 * int(widest) + 10 * int(config.hidden_size)
        free = free_memory(self.device)
        if free is None:
            return length
        itemsize = int(self.model.dtype.itemsize)
        whole = free // 2 // (width * itemsize)
        if whole >= length:
            return length
        # A chunk behind others needs a mask over the whole text, once as it is and once as numbers.
        part = free // 2 // (width * itemsize + length * (1 + itemsize))
        return max(SMALLEST_CHUNK, int(part))

    def halve(self, chunk: int, length: int) -> int | None:
        """What to try where `chunk` did not fit `length` tokens, from now on; None: nothing less.

        To be called where nothing holds on to what the failed pass had computed.
        """
        if chunk <= SMALLEST_CHUNK:
            return None
        self._chunk = max(SMALLEST_CHUNK, min(chunk, length) // 2)
        give_back()
        return self._chunk
