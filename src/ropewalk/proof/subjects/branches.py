"""Several questions behind one text, in one pass and without copying the text's cache.

The branches stand one behind the other in the cache. A mask lets each see the text and itself,
and positions say that each begins where the text ends, so that every branch is computed as if it
were the only one. Attention reads the text's keys once for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.proof.subjects.judge import Judge, Saying, Told

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.subjects.cache import InPlaceCache
    from ropewalk.proof.tree import Leaf

_NOBODY = -1
"""The branch of a token that no branch sees any more."""


class Branches:
    """Branches behind the `cache` as it stands; leaves it as it was.

    Needs a model that takes positions and a mask of its own (`can_stand_side_by_side`), and room
    in the cache for every branch with its value and what is decoded (`room`).
    """

    def __init__(self, calls: ModelCalls, judge: Judge, cache: InPlaceCache) -> None:
        self._calls = calls
        self._judge = judge
        self._cache = cache
        self._origin = cache.length
        # Of the tokens behind the text: whose each is, and at which position it stands.
        self._owners: list[int] = []
        self._places: list[int] = []

    def ask(self, leaves: Sequence[Leaf]) -> list[tuple[Told, Saying | None]]:
        """What the model says to each leaf; None where nothing needed decoding.

        Raises what the model raises; the cache is cut back also then.
        """
        self._cache.anchor(self._origin)
        try:
            told = self._score(leaves)
            return list(zip(told, self._decode(told, leaves), strict=True))
        finally:
            self._cache.anchor(None)
            self._cache.crop_to(self._origin)

    def _score(self, leaves: Sequence[Leaf]) -> list[Told]:
        """Prompts and values of all leaves in one pass."""
        import torch

        ids: list[int] = []
        owners: list[int] = []
        places: list[int] = []
        wanted: list[int] = []
        for owner, leaf in enumerate(leaves):
            branch = (*leaf.ids, *leaf.prompt.value_ids)
            wanted.extend(range(len(ids) + len(leaf.ids) - 1, len(ids) + len(branch)))
            ids.extend(branch)
            owners.extend([owner] * len(branch))
            places.extend(range(self._origin, self._origin + len(branch)))
        indices = torch.tensor(wanted, device=self._calls.device)
        logits = self._pass(ids, owners, places, indices)
        told, done = [], 0
        for leaf in leaves:
            count = len(leaf.prompt.value_ids) + 1
            told.append(self._judge.hear(logits[done : done + count], leaf.prompt))
            done += count
        return told

    def _decode(self, told: Sequence[Told], leaves: Sequence[Leaf]) -> list[Saying | None]:
        """What the unsettled branches go on to print, a token of each a pass."""
        import torch

        said = [None if self._judge.settled(each) else self._judge.saying(each) for each in told]
        place = [0] * len(said)
        end = 0
        for owner, (leaf, each) in enumerate(zip(leaves, told, strict=True)):
            end += len(leaf.ids) + len(each.prompt.value_ids)
            place[owner] = self._origin + len(leaf.ids) + each.right
            for slot in range(end - each.surplus, end):
                # The value's tokens that the model would not have said.
                self._owners[slot] = _NOBODY
        while going := {i: each for i, each in enumerate(said) if each and not each.over}:
            ids = [saying.printed[-1] for saying in going.values()]
            indices = torch.arange(len(ids), device=self._calls.device)
            logits = self._pass(ids, list(going), [place[i] for i in going], indices)
            for i, best in zip(going, logits.argmax(-1).tolist(), strict=True):
                going[i].printed.append(int(best))
                place[i] += 1
        return said

    def _pass(
        self, ids: list[int], owners: list[int], places: list[int], keep: torch.Tensor
    ) -> torch.Tensor:
        """Logits (kept, vocabulary) of tokens laid behind what is there."""
        import torch

        self._owners.extend(owners)
        self._places.extend(places)
        device = self._calls.device
        logits, _ = self._calls.call(
            torch.tensor([ids], device=device),
            self._cache,
            keep,
            attention_mask=self._masks(len(ids)),
            position_ids=torch.tensor([places], device=device),
        )
        return logits

    def _masks(self, queries: int) -> Any:
        """What the last `queries` tokens see: one mask, or one for each type of layer."""
        config = self._calls.model.config.get_text_config()
        types = getattr(config, "layer_types", None)
        if types is None or len(set(types)) == 1:
            return self._mask(queries, self._cache.windows()[0])
        by_kind = self._cache.windows_by(types)
        return {kind: self._mask(queries, window) for kind, window in by_kind.items()}

    def _mask(self, queries: int, window: int | None) -> torch.Tensor:
        """(1, 1, queries, keys): whether a query sees a key, as the model's attention takes it."""
        import torch

        device = self._calls.device
        first = 0 if window is None else max(0, self._origin - window + 1)
        text = torch.arange(first, self._origin, device=device)
        places = torch.tensor(self._places, device=device)
        owners = torch.tensor(self._owners, device=device)
        at = places[-queries:, None]
        own = (owners[None] == owners[-queries:, None]) & (places[None] <= at)
        seen = torch.cat([torch.ones_like(text, dtype=torch.bool).expand(queries, -1), own], 1)
        if window is not None:
            seen &= torch.cat([text, places])[None] > at - window
        if self._calls.model.config.get_text_config()._attn_implementation != "eager":
            return seen[None, None]
        dtype = self._calls.model.dtype
        hidden = torch.zeros(seen.shape, dtype=dtype, device=device)
        return hidden.masked_fill(~seen, torch.finfo(dtype).min)[None, None]


def room(leaf: Leaf) -> int:
    """Tokens that one branch takes in the cache: question, value, and what may be decoded."""
    value = len(leaf.prompt.value_ids)
    return len(leaf.ids) + value + max(leaf.prompt.budget, value + 1)


def can_stand_side_by_side(calls: ModelCalls, cache: InPlaceCache) -> bool:
    """Whether a model's forward takes positions and a mask for every query.

    Models that make a bias from lengths (ALiBi) name no positions. Attention in chunks, and
    anything else whose masks only transformers knows, is asked branch by branch.
    """
    config = calls.model.config.get_text_config()
    known = {"full_attention", "sliding_attention"}
    types = set(getattr(config, "layer_types", None) or ())
    told_apart = len(types) > 1 or len(set(cache.windows())) == 1
    return (
        types <= known
        and told_apart
        and calls.takes("position_ids")
        and calls.takes("attention_mask")
        and getattr(config, "attention_chunk_size", None) is None
        and getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
    )
