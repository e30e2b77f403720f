"""Several questions behind one text, in one pass, and needles in the gaps of one.

The branches stand one behind the other in the cache, which is not copied. A mask lets each see the
text and itself, and positions say that each begins where the text ends, so that every branch is
computed as if it were the only one. Attention reads the text's keys once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.proof.subjects.calls import Greedy, Judge, ModelCalls, TeacherForced
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.reading import Leaf
    from ropewalk.proof.subjects.cache import InPlaceCache

_NOBODY, _TEXT = -1, -2
"""The branch of a token that no branch sees any more, and of one that every branch sees."""


@short
@dataclass(frozen=True, slots=True)
class Read:
    """A needle that was read in its gap: its position ids, and each layer's keys and values."""

    places: tuple[int, ...]
    states: Sequence[tuple[torch.Tensor, torch.Tensor]]


class Branches:
    """Branches behind the `cache` as it stands; leaves it as it was.

    `places` are the position ids of the tokens in the cache, None where they count from 0 without
    a gap. Needs a model that takes positions and a mask of its own (`can_stand_side_by_side`), and
    room in the cache for every branch with its value and what is decoded (`room`).
    """

    def __init__(
        self,
        calls: ModelCalls,
        cache: InPlaceCache,
        places: Sequence[int] | None = None,
    ) -> None:
        import torch

        self._calls = calls
        self._cache = cache
        self._origin = cache.length
        known = range(self._origin) if places is None else places
        self._text = torch.tensor(list(known), dtype=torch.long, device=calls.device)
        # Of the tokens behind the text: whose each is, and at which position it stands.
        self._owners: list[int] = []
        self._places: list[int] = []

    def read(self, ids: Sequence[int], first: int) -> None:
        """Append ids to the text itself, at positions from `first` on; it stays."""
        import torch

        count = len(ids)
        with _cut_back(self._cache, self._origin, failed=True):
            places = list(range(first, first + count))
            nothing = torch.tensor([0], device=self._calls.device)
            self._pass(list(ids), [_TEXT] * count, places, nothing)

    def needles(self, needles: Sequence[tuple[Sequence[int], int]]) -> list[Read]:
        """Read needles (ids, first position) behind the text, each as if it were the only one."""
        import torch

        ids = [token for each, _ in needles for token in each]
        owners = [owner for owner, (each, _) in enumerate(needles) for _ in each]
        places = [first + i for each, first in needles for i in range(len(each))]
        self._cache.anchor(self._origin)
        with _cut_back(self._cache, self._origin):
            self._pass(ids, owners, places, torch.tensor([0], device=self._calls.device))
            states = self._cache.last(len(ids))
        found, done = [], 0
        for each, first in needles:
            part = slice(done, done + len(each))
            own = [(k[:, :, part].clone(), v[:, :, part].clone()) for k, v in states]
            found.append(Read(tuple(range(first, first + len(each))), own))
            done += len(each)
        return found

    def ask(
        self, leaves: Sequence[Leaf], judge: Judge
    ) -> list[tuple[TeacherForced, Greedy | None]]:
        """What the model says to each leaf; None where nothing needed decoding.

        Raises what the model raises; the cache is cut back also then.
        """
        self._cache.anchor(self._origin)
        with _cut_back(self._cache, self._origin):
            for owner, leaf in enumerate(leaves):
                if leaf.needle is not None:
                    self._put_back(owner, leaf.needle)
            forced = self._score(leaves, judge)
            return list(zip(forced, self._decode(forced, leaves, judge), strict=True))

    def _put_back(self, owner: int, needle: Read) -> None:
        """Lay what was read in a gap behind the text, for one branch."""
        self._cache.append(needle.states)
        self._owners.extend([owner] * len(needle.places))
        self._places.extend(needle.places)

    def behind(self, needle: Read, ids: Sequence[int], first: int) -> torch.Tensor:
        """Logits (tokens, vocabulary) of ids behind the text and a needle, from `first` on."""
        import torch

        count = len(ids)
        self._cache.anchor(self._origin)
        with _cut_back(self._cache, self._origin):
            self._put_back(0, needle)
            places = list(range(first, first + count))
            keep = torch.arange(count, device=self._calls.device)
            return self._pass(list(ids), [0] * count, places, keep)

    def at_once(
        self, text: Sequence[int], cut: int, needle: Sequence[int], ids: Sequence[int]
    ) -> torch.Tensor:
        """The same of one pass over all, from an empty cache: what `behind` has to give.

        The needle stands before the token `cut` of the text, which does not see it.
        """
        import torch

        size, count = len(needle), len(ids)
        owners = [_TEXT] * len(text) + [0] * (size + count)
        behind = range(cut + size, len(text) + size)
        asked = range(len(text) + size, len(text) + size + count)
        places = [*range(cut), *behind, *range(cut, cut + size), *asked]
        whole = [*text, *needle, *ids]
        keep = torch.arange(len(whole) - count, len(whole), device=self._calls.device)
        with _cut_back(self._cache, self._origin):
            return self._pass(whole, owners, places, keep)

    def _begins(self, leaf: Leaf) -> int:
        return self._origin if leaf.begins is None else leaf.begins

    def _score(self, leaves: Sequence[Leaf], judge: Judge) -> list[TeacherForced]:
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
            places.extend(range(self._begins(leaf), self._begins(leaf) + len(branch)))
        indices = torch.tensor(wanted, device=self._calls.device)
        logits = self._pass(ids, owners, places, indices)
        forced, done = [], 0
        for leaf in leaves:
            count = len(leaf.prompt.value_ids) + 1
            forced.append(judge.teacher_forced(logits[done : done + count], leaf.prompt))
            done += count
        return forced

    def _decode(
        self, forced: Sequence[TeacherForced], leaves: Sequence[Leaf], judge: Judge
    ) -> list[Greedy | None]:
        """What greedy decoding prints behind branches that are no hit, a token of each per pass."""
        import torch

        said = [None if judge.is_hit(each) else judge.greedy(each) for each in forced]
        place = [0] * len(said)
        end = sum(len(leaf.needle.places) for leaf in leaves if leaf.needle is not None)
        for owner, (leaf, each) in enumerate(zip(leaves, forced, strict=True)):
            end += len(leaf.ids) + len(each.prompt.value_ids)
            place[owner] = self._begins(leaf) + len(leaf.ids) + each.right
            for slot in range(end - each.surplus, end):
                # The value's tokens that the model would not have said.
                self._owners[slot] = _NOBODY
        while going := {i: each for i, each in enumerate(said) if each and not each.over}:
            ids = [greedy.printed[-1] for greedy in going.values()]
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
        text = self._text[first:]
        places = torch.tensor(self._places, device=device)
        owners = torch.tensor(self._owners, device=device)
        at = places[-queries:, None]
        mine = (owners[None] == owners[-queries:, None]) | (owners[None] == _TEXT)
        own = mine & (places[None] <= at)
        seen = torch.cat([torch.ones_like(text, dtype=torch.bool).expand(queries, -1), own], 1)
        if window is not None:
            seen &= torch.cat([text, places])[None] > at - window
        if self._calls.model.config.get_text_config()._attn_implementation != "eager":
            return seen[None, None]
        dtype = self._calls.model.dtype
        hidden = torch.zeros(seen.shape, dtype=dtype, device=device)
        return hidden.masked_fill(~seen, torch.finfo(dtype).min)[None, None]


@contextmanager
def _cut_back(cache: InPlaceCache, length: int, *, failed: bool = False) -> Iterator[None]:
    """Cut the cache back to a length afterwards; with `failed`, only where something was raised."""
    try:
        yield
    except BaseException:
        cache.crop_to(length)
        raise
    else:
        if not failed:
            cache.crop_to(length)
    finally:
        cache.anchor(None)


def room(leaf: Leaf) -> int:
    """Tokens that one branch takes in the cache: needle, question, value, and what is decoded."""
    value = len(leaf.prompt.value_ids)
    needle = 0 if leaf.needle is None else len(leaf.needle.places)
    return needle + len(leaf.ids) + value + max(leaf.prompt.budget, value + 1)


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
