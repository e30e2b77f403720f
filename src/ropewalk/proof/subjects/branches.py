"""Several questions behind one text, in one pass, and whether a model can share a text at all.

The branches stand one behind the other in the cache, which is not copied. A mask lets each see the
text and itself, and positions say that each begins where the text ends, so that every branch is
computed as if it were the only one. Attention reads the text's keys once for all of them.

Whether prompts can share a text: does the schedule stay the same at every planned length? Does
every layer keep something that can be taken back to an earlier token? And does the model, tried on
a short text, give behind a shared beginning what it gives to the whole? Only the last one is proof,
and it is asked of every model; the others say why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError
from ropewalk.models.rotary_tables import schedule_at
from ropewalk.proof.cells import Sharing
from ropewalk.proof.subjects.calls import Greedy, Judge, ModelCalls, TeacherForced
from ropewalk.rope.spec import PositionSpec
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


_BEYOND_WINDOW = 24
"""Tokens that the tried text goes on behind the window of a sliding layer."""
_LONGEST_TRIED = 640
_BRANCH = 4
_APART = {"float32": 1e-3, "bfloat16": 0.1, "float16": 0.03}
"""How far logits may be apart, in their standard deviations: another order of sums."""


@short
@dataclass(frozen=True, slots=True)
class Sharable:
    """What the prompts of a run may share.

    `sharing` is the mode asked for where that can be. Otherwise it is PREFIX where branches were
    asked for and shared beginnings can be, or NONE, with the `reason`. `bytes`
    is what one token takes in the key-value cache, None where that was not seen.
    """

    sharing: Sharing
    reason: str = ""
    bytes: int | None = None


def sharable(model: Any, spec: PositionSpec, lengths: Sequence[int], wanted: Sharing) -> Sharable:
    """What prompts of `lengths` tokens may share on a live transformers model.

    The model must already rotate by `spec`. With NONE wanted nothing is tried.
    """
    if wanted is Sharing.NONE:
        return Sharable(wanted)
    moving = moving_schedule(spec, lengths)
    if moving is not None:
        return Sharable(Sharing.NONE, moving)
    try:
        apart, size = _tried(model)
    except ModelFileError as error:
        return Sharable(Sharing.NONE, str(error))
    limit = _APART.get(str(model.dtype).removeprefix("torch."), 1e-3)
    if not apart <= limit:
        return Sharable(
            Sharing.NONE,
            f"behind a shared text the model's scores are {apart:.2g} standard deviations from "
            "those of whole prompts",
        )
    if wanted is Sharing.BRANCHES and (why := _no_branches(model, limit)):
        return Sharable(Sharing.PREFIX, why, size)
    return Sharable(wanted, "", size)


def _no_branches(model: Any, limit: float) -> str:
    """Why needles cannot be read in gaps on this model, "" where they can: that is tried."""
    from ropewalk.proof.subjects.cache import InPlaceCache

    name = type(model).__name__
    calls = ModelCalls(model)
    if not can_stand_side_by_side(calls, InPlaceCache.for_model(model, 0)):
        return f"{name} does not take positions and a mask of its own"
    apart = _gap_tried(model)
    if not apart <= limit:
        return (
            f"with a gap {name}'s scores are {apart:.2g} standard deviations from those of one "
            "pass with the same mask"
        )
    return ""


def moving_schedule(spec: PositionSpec, lengths: Sequence[int]) -> str | None:
    """Why prompts of nearly a length cannot share a text, where the schedule is the reason.

    A schedule that changes with every token leaves nothing to share: the keys of a text would
    have to be rotated anew for every prompt. One with a switch (LongRoPE) does, on either side.
    """
    for length in lengths:
        if schedule_at(spec, length) != schedule_at(spec, length - 1):
            names = sorted(
                {
                    rotary.scaling.name
                    for _, rotary in spec.rotary_groups()
                    if rotary.scaling.depends_on_length
                }
            )
            return (
                f"the schedule ({', '.join(names)}) changes with the length of the prompt, so that "
                f"at {length:,} tokens no two prompts rotate the same keys alike"
            )
    return None


def _tried(model: Any) -> tuple[float, int]:
    """How far branches behind a shared text are from whole prompts; bytes a token in the cache.

    Raises ModelFileError for a model without a state that can be taken back.
    """
    import torch

    from ropewalk.proof.subjects.cache import InPlaceCache

    calls = ModelCalls(model)
    try:
        cache = InPlaceCache.for_model(model, 0)
    except (AttributeError, KeyError, TypeError) as error:
        raise ModelFileError(
            f"{type(model).__name__} keeps a state of its own that cannot be seen here"
        ) from error
    reach = max((window or 0 for window in cache.windows()), default=0)
    text = min(reach + _BEYOND_WINDOW, _LONGEST_TRIED)
    cache.reserve(text + 2 * _BRANCH)
    vocabulary = int(model.config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary, (1, text + 2 * _BRANCH), generator=generator).to(calls.device)
    shared, first, second = ids.split([text, _BRANCH, _BRANCH], dim=1)
    apart = 0.0
    with torch.inference_mode():
        calls.call(shared, cache, 1)
        if cache.length != text:
            raise ModelFileError(
                f"{type(model).__name__} keeps what it has read where this cache is not asked"
            )
        for branch in (first, second):
            behind, _ = calls.call(branch, cache, _BRANCH)
            cache.crop_to(text)
            whole, _ = calls.call(torch.cat([shared, branch], 1), None, _BRANCH)
            apart = max(apart, _distance(behind, whole))
    return apart, cache.nbytes() // cache.capacity


def _gap_tried(model: Any) -> float:
    """How far an answer behind a needle in a gap is from that of one pass under its mask.

    The text is longer than a window, so that a sliding layer loses some of it and not the rest.
    """
    import torch

    from ropewalk.proof.subjects.cache import InPlaceCache

    calls = ModelCalls(model)
    cache = InPlaceCache.for_model(model, 0)
    reach = max((window or 0 for window in cache.windows()), default=0)
    text = min(reach + _BEYOND_WINDOW, _LONGEST_TRIED)
    vocabulary = int(model.config.get_text_config().vocab_size)
    generator = torch.Generator().manual_seed(1)
    count = text + 2 * _BRANCH
    ids = torch.randint(vocabulary, (count,), generator=generator).tolist()
    shared, needle, asked = ids[:text], ids[text : text + _BRANCH], ids[text + _BRANCH :]
    cut = text - _BEYOND_WINDOW // 2
    places = [*range(cut), *range(cut + _BRANCH, text + _BRANCH)]
    with torch.inference_mode():
        cache.reserve(count)
        Branches(calls, cache, []).read(shared[:cut], 0)
        (read,) = Branches(calls, cache, places[:cut]).needles([(needle, cut)])
        Branches(calls, cache, places[:cut]).read(shared[cut:], cut + _BRANCH)
        behind = Branches(calls, cache, places).behind(read, asked, text + _BRANCH)
        cache.crop_to(0)
        whole = Branches(calls, cache, []).at_once(shared, cut, needle, asked)
    return _distance(behind, whole)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of logits in standard deviations."""
    one, other = one.float(), other.float()
    return float((one - other).abs().max() / other.std())
