"""Whether the prompts of a run can share a text on a model: tried, and not guessed.

Whether prompts can share a text: does the schedule stay the same at every planned length? Does
every layer keep something that can be taken back to an earlier token? And does the model, tried on
a short text, give behind a shared beginning what it gives to the whole? Only the last one is proof,
and it is asked of every model; the others say why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, RopewalkError
from ropewalk.models.rotary_tables import schedule_at
from ropewalk.proof.cells import Sharing
from ropewalk.proof.subjects.branches import Branches, can_stand_side_by_side
from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

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
    try:
        apart = _gap_tried(model)
    except (RopewalkError, RuntimeError, TypeError, ValueError, LookupError) as error:
        return f"{name} takes no gap ({error})"
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
