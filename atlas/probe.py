"""A model's attention, watched from within: queries, keys, scale, mask and what else reaches it.

Every layer is given the same vector at all positions. What differs between positions in a query is
then the work of the positional encoding alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

NAME = "ropewalk_probe"


@dataclass(slots=True)
class Call:
    """What one call of attention was given; tensors as (heads, positions, channels)."""

    layer: int | None
    module: str
    query: Tensor
    key: Tensor
    mask: Tensor | None
    scaling: float | None
    rest: dict[str, Any]
    before: list[Tensor]


@dataclass(slots=True)
class Seen:
    """A run: the calls of attention in order, and whether the first layer's input tells positions.

    `recent` holds what the last modules put out at the first position.
    """

    calls: list[Call] = field(default_factory=list)
    absolute: bool = False
    entered: bool = False
    recent: deque[Tensor] = field(default_factory=lambda: deque(maxlen=16))


_watching: list[Seen] = []


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,  # noqa: ARG001 - the interface has it
    **rest: Any,
) -> tuple[Tensor, None]:
    """In place of attention: note the call, and hand each head its own values back."""
    if _watching:
        _watching[-1].calls.append(
            Call(
                layer=getattr(module, "layer_idx", None),
                module=type(module).__name__,
                query=query.detach()[0].double(),
                key=key.detach()[0].double(),
                mask=None if attention_mask is None else attention_mask.detach(),
                scaling=None if scaling is None else float(scaling),
                rest=rest,
                before=list(_watching[-1].recent),
            )
        )
    heads = query.shape[1]
    values = value.repeat_interleave(heads // value.shape[1], dim=1)
    if values.shape[2] != query.shape[2]:
        values = values[:, :, -query.shape[2] :]
    return values.transpose(1, 2).contiguous(), None


def register() -> None:
    """Make the probe one of transformers' attention functions, with masks as numbers."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, eager_mask)


@contextmanager
def _same_everywhere(model: nn.Module, length: int, seen: Seen) -> Iterator[None]:
    """Give every layer the first position's vector at all positions."""

    def level(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def one(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() != 3:
                return x
            if x.shape[1] != length:
                return x
            if not seen.entered:
                seen.entered = True
                seen.absolute = bool((x - x[:, :1]).abs().max() > 1e-6 * x.abs().max())
            return x[:, :1].expand_as(x).clone()

        if args:
            return (one(args[0]), *args[1:]), kwargs
        if "hidden_states" in kwargs:
            kwargs["hidden_states"] = one(kwargs["hidden_states"])
        return args, kwargs

    def note(_: nn.Module, __: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.is_floating_point() and out.dim() >= 3:
            at = out[0, 0] if out.shape[1] == length else out[0, :, 0]
            seen.recent.append(at.detach().flatten().double())

    hooks = [
        leaf.register_forward_hook(note) for leaf in model.modules() if not list(leaf.children())
    ]
    hooks += [
        layer.register_forward_pre_hook(level, with_kwargs=True)
        for stack in model.modules()
        if isinstance(stack, nn.ModuleList)
        for layer in stack
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def run(
    model: nn.Module, position_ids: list[int], forward: Callable[..., Any] | None = None
) -> Seen:
    """Run a model on the same token at these positions and say what its attention was given."""
    seen = Seen()
    length = len(position_ids)
    # A token that pads has a vector of zeros.
    token = next(t for t in (5, 6) if t != getattr(model.config, "pad_token_id", None))
    ids = torch.full((1, length), token)
    positions = torch.tensor([position_ids])
    _watching.append(seen)
    call = forward or model
    try:
        with torch.no_grad(), _same_everywhere(model, length, seen):
            try:
                call(input_ids=ids, position_ids=positions, use_cache=False)
            except TypeError as error:
                if "position_ids" not in str(error) and "use_cache" not in str(error):
                    raise
                seen.calls.clear()
                call(input_ids=ids)
    finally:
        _watching.pop()
    return seen
