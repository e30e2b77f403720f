"""Cached keys turned from one schedule, or one set of positions, to another.

A cache that holds rotated keys is right for one schedule only. When a schedule that depends on
length moves on, or tokens before the cached ones are dropped, keys are turned by the difference
of the two angles, in one rotation and one rounding. A cache of un-rotated keys, turned at every
step by `rotate(q, k, position_ids, k_position_ids)`, never needs this.
"""

from __future__ import annotations

from torch import Tensor

from ropewalk.errors import ScheduleError
from ropewalk.positions.exact import wide
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.turning import Tables, turn, turn_some


def rerotate(
    k: Tensor,
    was: Rotary,
    now: Rotary,
    position_ids: Tensor,
    now_position_ids: Tensor | None = None,
) -> Tensor:
    """Keys turned by `was` at `position_ids` become keys turned by `now`.

    `k`: (batch, kv_heads, length, head_dim), as `was` returned them. `now_position_ids` are the
    new positions where they change (a shift of the context), else the same ones. For a schedule
    that depends on length: `rerotate(k, rope.at_length(4096), rope.at_length(8192), ids)`.

    Raises ScheduleError when the two encodings turn different channels or heads, PositionError
    for ids or shapes that do not fit.
    """
    _same_channels(was, now)
    new_ids = position_ids if now_position_ids is None else now_position_ids
    was.check_ids(position_ids, k, "position_ids")
    now.check_ids(new_ids, k, "now_position_ids")
    by = now.angles(new_ids, what="now_position_ids") - was.angles(position_ids)
    ratio = now.attention_factor / was.attention_factor
    dtype = wide(k.dtype)
    tables = Tables(*((w * ratio).to(dtype).to(k.device) for w in (by.cos(), by.sin())))
    layout, placement = now.rotary.layout, now.rotary.placement
    if now.rotated is None:
        return turn(k, tables, layout, placement)
    return turn_some(k, tables, layout, now.rotated.key, placement)


def _same_channels(was: Rotary, now: Rotary) -> None:
    """Refuse two encodings of which one cannot follow from the other by a rotation."""
    for name in ("head_dim", "rotary_dim", "layout", "placement"):
        before, after = getattr(was.rotary, name), getattr(now.rotary, name)
        if before != after:
            raise ScheduleError(
                f"keys were turned with {name} {before} and are to be turned with {after}; a "
                "rotation cannot change that: compute the keys anew"
            )
    if was.rotated != now.rotated:
        raise ScheduleError("keys cannot be moved between encodings that turn different heads")
    if was.attention_factor == 0.0:
        raise ScheduleError("keys turned with an attention factor of 0 hold nothing to turn back")
