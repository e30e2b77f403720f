"""Queries and keys of a rotary model before and after they are turned, and what a score sees.

Before: the model itself, run with every token at position 0, where nothing turns. After: the
model at the tokens' own positions. Once more 100 positions further on: each score is the same,
because it depends on the gap alone. In all three a followed block receives the same input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ropewalk import positions
from ropewalk.explain.steps import TraceStep, rounding, step
from ropewalk.explain.watch import Parts, Seen, watch
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec
from ropewalk.short import short

SHIFT = 100


@short
@dataclass(frozen=True, slots=True)
class RotatedScore:
    """q . k of head 0, the last token's query and the first token's key, before any scale.

    `model` is the model's own, `ours` from its unturned q and k by our rotation, both at query
    position `query` and key position `key`. `against` is the model's score at the tokens' own
    positions; `difference` is the larger of the two differences.
    """

    query: int
    key: int
    model: float
    ours: float
    against: float
    allowed: float

    @property
    def difference(self) -> float:
        """How far the score is from ours, and from that of the same gap elsewhere."""
        return max(abs(self.model - self.ours), abs(self.model - self.against))

    @property
    def agrees(self) -> bool:
        """Whether rounding explains the difference."""
        return self.difference <= self.allowed


@short
@dataclass(frozen=True, slots=True)
class Rotation:
    """The first block of one rotary schedule. `steps` are those of head 0; empty with `reason`
    where the model does not show its q and k.
    """

    group: str
    block: int
    rope_theta: float
    rotated: int
    head_dim: int
    layout: str
    scaling: str
    steps: tuple[TraceStep, ...] = ()
    scores: tuple[RotatedScore, ...] = ()
    reason: str = ""


def follow_rotation(
    model: Any, parts: Parts, spec: PositionSpec, ids: Tensor, seen: Seen, pieces: tuple[str, ...]
) -> Iterator[Rotation]:
    """One `Rotation` for each rotary schedule of `spec`, of the first block that has it."""
    groups: dict[RotarySpec, LayerGroup] = {}
    for group, rotary in spec.rotary_groups():
        groups.setdefault(rotary, group)
    if not groups:
        return
    firsts = {group.layers[0] if group.layers else 0 for group in groups.values()}
    inputs = {block: seen.inputs[block] for block in firsts}
    own = torch.arange(len(ids))[None]
    still, moved, further = (
        watch(model, parts, ids[None], at, inputs)
        for at in (torch.zeros_like(own), own, own + SHIFT)
    )
    for rotary, group in groups.items():
        yield _rotation(group, rotary, pieces, still, moved, further)


def _rotation(
    group: LayerGroup,
    rotary: RotarySpec,
    pieces: tuple[str, ...],
    still: Seen,
    moved: Seen,
    further: Seen,
) -> Rotation:
    block = group.layers[0] if group.layers else 0
    facts: dict[str, Any] = {
        "group": group.name,
        "block": block,
        "rope_theta": rotary.rope_theta,
        "rotated": rotary.rotary_dim,
        "head_dim": rotary.head_dim,
        "layout": rotary.layout,
        "scaling": rotary.scaling.name,
    }
    query = still.queries.get(block)
    if query is None:
        return Rotation(**facts, reason="this model's attention does not show its q and k")
    if query.shape[-1] != rotary.head_dim:
        reason = f"its q has {query.shape[-1]} channels a head, of which it turns a part of its own"
        return Rotation(**facts, reason=reason)
    encoding = positions.Rotary(rotary, length=len(pieces))
    steps, scores = _followed(encoding, block, pieces, (still, moved, further))
    return Rotation(**facts, steps=steps, scores=scores)


def _followed(
    encoding: positions.Rotary, block: int, pieces: tuple[str, ...], passes: tuple[Seen, ...]
) -> tuple[tuple[TraceStep, ...], tuple[RotatedScore, ...]]:
    still, moved, further = passes
    # At position 0 nothing turns, and the amplitude of cos and sin is all there is.
    factor = _factors(encoding)
    q, k = (x / factor.to(x.dtype) for x in (still.queries[block], still.keys[block]))
    at = torch.arange(len(pieces))
    own_q, own_k = encoding.rotate(q, k, at)
    far_q, far_k = encoding.rotate(q, k, at + SHIFT)
    last = float(len(pieces) - 1)
    allowed = rounding(q.dtype, last)
    before, after = "of head 0, seen with every token at position 0", "turned by its position"
    model_q, model_k = moved.queries[block][0, 0], moved.keys[block][0, 0]
    steps = (
        step("q before", before, q[0, 0], pieces),
        step("q after", after, own_q[0, 0], pieces, model=model_q, allowed=allowed),
        step("k before", before, k[0, 0], pieces),
        step("k after", after, own_k[0, 0], pieces, model=model_k, allowed=allowed),
    )
    against = _score(moved.queries[block], moved.keys[block])
    length = float(own_q[0, 0, -1].double().norm() * own_k[0, 0, 0].double().norm())
    scores = tuple(
        RotatedScore(
            query=len(pieces) - 1 + start,
            key=start,
            model=_score(seen.queries[block], seen.keys[block]),
            ours=_score(*ours),
            against=against,
            allowed=rounding(q.dtype, 2.0 * (last + start)) * length,
        )
        for start, seen, ours in ((0, moved, (own_q, own_k)), (SHIFT, further, (far_q, far_k)))
    )
    return steps, scores


def _factors(encoding: positions.Rotary) -> Tensor:
    """The amplitude of each channel, (head_dim,): 1 for those that are not turned."""
    rotary = encoding.rotary
    turned = torch.arange(rotary.head_dim) < rotary.rotary_dim
    return torch.where(turned, encoding.attention_factor, 1.0)


def _score(q: Tensor, k: Tensor) -> float:
    """The last token's query with the first token's key, in head 0."""
    return float(q[0, 0, -1].double() @ k[0, 0, 0].double())
