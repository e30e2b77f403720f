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

from collections.abc import Sequence
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

    def ask(self, leaves: Sequence[Leaf]) -> list[tuple[TeacherForced, Greedy | None]]:
        """What the model says to each leaf; None where nothing needed decoding.

        Raises what the model raises; the cache is cut back also then.
        """
        self._cache.anchor(self._origin)
        try:
            forced = self._score(leaves)
            return list(zip(forced, self._decode(forced, leaves), strict=True))
        finally:
            self._cache.anchor(None)
            self._cache.crop_to(self._origin)

    def _score(self, leaves: Sequence[Leaf]) -> list[TeacherForced]:
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
        forced, done = [], 0
        for leaf in leaves:
            count = len(leaf.prompt.value_ids) + 1
            forced.append(self._judge.teacher_forced(logits[done : done + count], leaf.prompt))
            done += count
        return forced

    def _decode(
        self, forced: Sequence[TeacherForced], leaves: Sequence[Leaf]
    ) -> list[Greedy | None]:
        """What greedy decoding prints behind branches that are no hit, a token of each per pass."""
        import torch

        said = [None if self._judge.is_hit(each) else self._judge.greedy(each) for each in forced]
        place = [0] * len(said)
        end = 0
        for owner, (leaf, each) in enumerate(zip(leaves, forced, strict=True)):
            end += len(leaf.ids) + len(each.prompt.value_ids)
            place[owner] = self._origin + len(leaf.ids) + each.right
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

    `sharing` is the mode asked for where that can be, otherwise NONE with the `reason`. `bytes`
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
    return Sharable(wanted, "", size)


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


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of logits in standard deviations."""
    one, other = one.float(), other.float()
    return float((one - other).abs().max() / other.std())
