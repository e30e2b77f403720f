"""Self-Extend on a live model: near tokens at their places, far ones in groups (2401.01325).

No schedule at all: the frequencies stay, and a key at a distance of `window` or more is seen at a
distance of floor(q / group) - floor(k / group) + window - floor(window / group). No file can hold
it, so that it is measured beside the schedules and never written. What it shows is whether a model
fails for the distances it was not trained on.

The model hands over queries and keys that have been rotated already; the rotation is undone as far
as the grouped place differs from the true one, which is the same in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import PositionSpec, RotarySpec
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

NAME = "ropewalk_self_extend"
BLOCK = 256
"""Queries at a time: their scores with every key are all that is held."""

ENGINES = (
    "no checkpoint can hold it; llama.cpp's program for one prompt takes --grp-attn-n and "
    "--grp-attn-w, its server no longer does (pull request 9860, October 2024), and vLLM has no "
    "option for it"
)


@short
@dataclass(frozen=True, slots=True)
class SelfExtend:
    """Groups of `group` tokens from a distance of `window` tokens on (2401.01325, section 3)."""

    name: ClassVar[str] = "self-extend"
    group: int
    window: int

    @classmethod
    def reaching(cls, trained: int, target: int) -> SelfExtend:
        """The smallest groups that keep every distance of `target` within the trained ones.

        The window is an eighth of the trained length: the paper finds a wide range as good.
        """
        window = max(1, trained // 8)
        group = 2
        while (target - window) // group + window >= trained:
            group += 1
        return cls(group, window)

    def seen_at(self, query: int, key: int) -> int:
        """The distance at which a query sees a key."""
        if query - key < self.window:
            return query - key
        return query // self.group - key // self.group + self.window - self.window // self.group


def why_not(model: Any, spec: PositionSpec) -> str | None:
    """Why a live model cannot be read this way, or None."""
    rotary = [encoding for _, encoding in spec.rotary_groups()]
    if len(spec.groups) != 1 or len(rotary) != 1:
        return "its layers do not all treat position alike"
    if spec.groups[0].window is not None:
        return "its layers see a window only"
    if rotary[0].placement != "first" or rotary[0].sections:
        return "its channels rotate in a way of their own"
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention cannot be replaced"
    if not _turns_in_halves(model, rotary[0]):
        return "its keys do not rotate by halves of a head"
    return None


@contextmanager
def reading(model: Any, spec: PositionSpec, how: SelfExtend) -> Iterator[None]:
    """The model reads by `how` until the block ends; one text at a time, without padding."""
    (rotary,) = (encoding for _, encoding in spec.rotary_groups())
    with _attention(model, _grouped(rotary, how)):
        yield


@contextmanager
def _attention(model: Any, function: Callable[..., Any]) -> Iterator[None]:
    """Another attention function for every layer, until the block ends."""
    from transformers import AttentionInterface

    config = model.config.get_text_config()
    before = config._attn_implementation
    AttentionInterface.register(NAME, function)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _turns_in_halves(model: Any, rotary: RotarySpec) -> bool:
    """Whether a key of the first layer moves with its position as halves of a head do."""
    import torch

    seen: list[torch.Tensor] = []

    def watch(_module: Any, _q: Any, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any
              ) -> tuple[torch.Tensor, None]:  # fmt: skip
        seen.append(key)
        heads = _q.shape[1] // value.shape[1]
        return value.repeat_interleave(heads, 1).transpose(1, 2), None

    ids = torch.tensor([[1, 2]], device=model.device)
    with torch.inference_mode(), _attention(model, watch):
        layers = int(model.config.get_text_config().num_hidden_layers)
        for first in (0, 5):
            places = torch.tensor([[first, first + 1]], device=model.device)
            model(ids, position_ids=places, use_cache=False)
    at_first, moved = seen[0].float(), seen[layers].float()
    rotated = _rotate(at_first, torch.tensor([5, 5]), rotary)
    return bool(torch.allclose(rotated, moved, atol=1e-2 * float(moved.abs().max())))


def _rotate(states: torch.Tensor, by: torch.Tensor, rotary: RotarySpec) -> torch.Tensor:
    """States (batch, heads, tokens, head dimension) rotated on by `by` (tokens,) positions."""
    import torch

    # Angles in fp64, rounded once.
    inverse = torch.tensor(schedule(rotary).inv_freq, dtype=torch.float64)
    angles = by.double().cpu()[:, None] * inverse
    cos, sin = (part.to(states.device, states.dtype) for part in (angles.cos(), angles.sin()))
    half, whole = rotary.pairs, rotary.rotary_dim
    a, b, rest = states[..., :half], states[..., half:whole], states[..., whole:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def _grouped(rotary: RotarySpec, how: SelfExtend) -> Callable[..., tuple[torch.Tensor, None]]:
    """An attention function in the terms of transformers' interface."""
    import torch

    shift = how.window - how.window // how.group

    def attend(
        _module: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        _mask: Any,
        scaling: float | None = None,
        **_: Any,
    ) -> tuple[torch.Tensor, None]:
        queries, keys = query.shape[2], key.shape[2]
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        heads = query.shape[1] // key.shape[1]
        at = torch.arange(keys)
        far_keys = _rotate(key, at // how.group - at, rotary).repeat_interleave(heads, 1)
        near_keys, values = (t.repeat_interleave(heads, 1) for t in (key, value))
        out = torch.empty_like(query)
        for begin in range(0, queries, BLOCK):
            part = query[:, :, begin : begin + BLOCK]
            places = keys - queries + begin + torch.arange(part.shape[2])
            far = _rotate(part, places // how.group + shift - places, rotary)
            # Only the last keys can be near, and only the first ones far.
            last = int(places[-1]) + 1
            near_from = max(0, int(places[0]) - how.window + 1)
            far_to = max(0, last - how.window)
            apart = places[:, None] - at[None, :last]
            near = part @ near_keys[:, :, near_from:last].mT * scale
            hidden = (apart[:, near_from:] < 0) | (apart[:, near_from:] >= how.window)
            scores = near.masked_fill(hidden.to(near.device), -torch.inf)
            seen = values[:, :, near_from:last]
            if far_to:
                more = far @ far_keys[:, :, :far_to].mT * scale
                hidden = apart[:, :far_to] < how.window
                scores = torch.cat(
                    [more.masked_fill(hidden.to(more.device), -torch.inf), scores], -1
                )
                seen = torch.cat([values[:, :, :far_to], seen], 2)
            weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
            out[:, :, begin : begin + BLOCK] = weights @ seen
        return out.transpose(1, 2), None

    return attend
