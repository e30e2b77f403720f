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

    `positions` are those of the queries that were noted; `recent` holds what the last modules put
    out at the first position, `layer` the number of the layer that computes.
    """

    positions: list[int] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    absolute: bool = False
    entered: bool = False
    layer: int | None = None
    recent: deque[Tensor] = field(default_factory=lambda: deque(maxlen=16))

    @property
    def length(self) -> int:
        """Tokens of the run."""
        return len(self.positions)


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
    if not _watching or query.shape[2] != _watching[-1].length or key.shape[2] < query.shape[2]:
        return _weighted(query, key, value, scaling), None
    layer = getattr(module, "layer_idx", None)
    _watching[-1].calls.append(
        Call(
            layer=_watching[-1].layer if layer is None or layer < 0 else layer,
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


def _weighted(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Attention itself, for what attends over anything but the tokens of a run."""
    heads = query.shape[1]
    keys, values = (x.repeat_interleave(heads // x.shape[1], dim=1) for x in (key, value))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    weights = (query @ keys.transpose(2, 3) * scale).softmax(-1)
    return (weights @ values).transpose(1, 2).contiguous()


def register() -> None:
    """Make the probe one of transformers' attention functions, with masks as numbers."""
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, eager_mask)


@contextmanager
def _same_everywhere(model: nn.Module, length: int, seen: Seen) -> Iterator[None]:
    """Give every layer the first position's vector at all positions."""
    width = _width(model)

    def one(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dim() < 3:
            return x
        along = 1 if x.shape[1] % length == 0 else 2
        if x.shape[along] % length or (width and x.shape[-1] % width):
            return x
        # Streams of tokens may lie behind one another (ProphetNet).
        streams = x.unflatten(along, (-1, length))
        first = streams.narrow(along + 1, 0, 1)
        if not seen.entered:
            seen.entered = True
            seen.absolute = bool((streams - first).abs().max() > 1e-6 * x.abs().max())
        return first.expand_as(streams).reshape(x.shape).clone()

    def level(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = {k: one(v) for k, v in kwargs.items() if k in _STATES}
        return tuple(one(x) for x in args), {**kwargs, **named}

    def enter(number: int) -> Callable[..., None]:
        def note(*_: Any) -> None:
            seen.layer = number

        return note

    def note(_: nn.Module, __: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.is_floating_point() and out.dim() >= 3:
            at = out[0, 0] if out.shape[1] == length else out[0, :, 0]
            seen.recent.append(at.detach().flatten().double())

    hooks = [
        leaf.register_forward_hook(note) for leaf in model.modules() if not list(leaf.children())
    ]
    for name, layer in model.named_modules():
        numbers = [part for part in name.split(".") if part.isdigit()]
        if len(numbers) == 1 and name.endswith(numbers[0]):
            hooks.append(layer.register_forward_pre_hook(enter(int(numbers[0]))))
        if numbers and name.endswith("." + numbers[-1]):
            hooks.append(layer.register_forward_pre_hook(level, with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


_STATES = ("hidden_states", "block_states", "encoder_hidden_states", "x")


def _width(model: nn.Module) -> int | None:
    """Channels of what goes from layer to layer."""
    config = model.config
    for key in ("hidden_size", "n_embd", "d_model", "dim_model", "emb_dim"):
        if isinstance(found := getattr(config, key, None), int):
            return found
    return None


def run(
    model: nn.Module,
    position_ids: list[int],
    forward: Callable[..., Any] | None = None,
    token: int = 5,
    **given: Any,
) -> Seen:
    """Run a model on the same token at these positions and say what its attention was given.

    A model that takes no positions is given a token at each, and counts itself. `given` are
    further arguments of its class.
    """
    seen = Seen(list(position_ids))
    call = forward or model
    counted = position_ids == list(range(len(position_ids)))
    _watching.append(seen)
    try:
        with torch.no_grad(), _same_everywhere(model, seen.length, seen):
            try:
                inputs = _inputs(model, position_ids, said=not counted, token=token)
                call(**inputs, use_cache=False, **given)
            except TypeError as error:
                if "position_ids" not in str(error) and "use_cache" not in str(error):
                    raise
                seen.calls.clear()
                seen.positions = list(range(seen.length))
                call(**_inputs(model, position_ids, said=False, token=token), **given)
    finally:
        _watching.pop()
    return seen


def run_within(model: nn.Module, seen: Seen, **given: Any) -> None:
    """As `run`, for a model whose layers compute attention themselves; adds to `seen`."""
    from atlas.scores import Watch, scaling_and_bias

    runs = []
    for blank, token in ((False, 5), (True, 5), (True, 11)):
        there = Seen(list(seen.positions))
        watch = Watch(there, blank=blank)
        counted = seen.positions == list(range(seen.length))
        inputs = _inputs(model, seen.positions, said=not counted, token=token)
        with torch.no_grad(), _same_everywhere(model, there.length, there), watch:
            model(**inputs, **given)
        runs.append(watch.found)
    for one, bare, other in zip(*runs, strict=True):
        scaling, bias = scaling_and_bias(one, bare, other)
        # Named as the argument under which transformers' own attention is given one.
        rest = {} if scaling is not None else {"position_bias": True}
        seen.calls.append(
            Call(one.layer, "", one.query, one.key, bias, scaling, rest, list(one.before))
        )


def _inputs(
    model: nn.Module, position_ids: list[int], *, said: bool, token: int = 5
) -> dict[str, Tensor]:
    # A token that pads has a vector of zeros.
    token = next(t for t in (token, 6) if t != getattr(model.config, "pad_token_id", None))
    books = getattr(model.config, "num_codebooks", None) or 1
    found = {"input_ids": torch.full((books, len(position_ids)), token)}
    return found | ({"position_ids": torch.tensor([position_ids])} if said else {})
