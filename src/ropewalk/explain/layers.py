"""What a model's layers make of a text: the states of every token, layer by layer.

Through hooks while the model runs, so that the last block's own output is seen beside what the
norm behind it makes of it. (transformers' `output_hidden_states` gives one of the two.)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ropewalk.errors import ModelFileError
from ropewalk.explain.watch import RUNNING_ERRORS, Parts
from ropewalk.short import short

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "table"
INPUT = "layer 0"
FINAL = "final norm"
"""Rows of the input table alone; what the first block receives; behind the last block."""


@short
@dataclass(frozen=True, slots=True)
class States:
    """`names[i]` says where `values[i]`, (batch, sequence, d_model), stands."""

    names: tuple[str, ...]
    values: tuple[Tensor, ...]


@dataclass(slots=True)
class _Kept:
    first: Tensor | None = None
    outputs: dict[int, Tensor] = field(default_factory=dict)


def layer_states(model: Any, parts: Parts, ids: Tensor, mask: Tensor | None = None) -> States:
    """The states of `ids` (batch, sequence) in the table, before, between and behind the blocks.

    `mask` (batch, sequence) is 1 for tokens and 0 for padding; None is no padding. A norm behind
    the last block is left out where the model has none. Raises ModelFileError for what cannot be
    run, for blocks that do not hand on one state for each token, and for NaN or infinity.
    """
    kept = _Kept()
    mask = torch.ones_like(ids) if mask is None else mask
    with ExitStack() as stack:
        enter = parts.blocks[0].register_forward_pre_hook(_first(kept), with_kwargs=True)
        stack.enter_context(_removed(enter))
        for index, block in enumerate(parts.blocks):
            stack.enter_context(_removed(block.register_forward_hook(_output(kept, index))))
        stack.enter_context(torch.inference_mode())
        try:
            out = model(input_ids=ids, attention_mask=mask)
            rows = nn.functional.embedding(ids, _table(model, parts))
        except RUNNING_ERRORS as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelFileError(
                f"{type(model).__name__} cannot be run on {ids.shape[-1]} tokens: {reason}"
            ) from error
    names, values = [TABLE, INPUT], [rows, kept.first]
    for index in sorted(kept.outputs):
        names.append(f"block {index + 1}")
        values.append(kept.outputs[index])
    last, before = out.last_hidden_state, values[-1]
    if before is None or not torch.equal(last, before):
        names.append(FINAL)
        values.append(last)
    return States(
        tuple(names),
        tuple(_checked(model, n, v, ids, mask) for n, v in zip(names, values, strict=True)),
    )


def _table(model: Any, parts: Parts) -> Tensor:
    weight = parts.tokens.weight
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise ModelFileError(
            f"{type(model).__name__} has no plain table of token vectors that could be looked up"
        )
    return weight


def _checked(model: Any, name: str, value: Tensor | None, ids: Tensor, mask: Tensor) -> Tensor:
    if value is not None and value.dim() == 2 and len(ids) == 1:
        value = value[None]
    if value is None or value.dim() != 3 or value.shape[:2] != ids.shape:
        shape = None if value is None else tuple(value.shape)
        raise ModelFileError(
            f"{type(model).__name__} hands on {shape} at {name} where one state for each of "
            f"{ids.shape[-1]} tokens was expected, so its layers cannot be set side by side"
        )
    if not bool(torch.isfinite(value[mask.bool()]).all()):
        raise ModelFileError(
            f"{type(model).__name__} computes NaN or infinity at {name}; its weights are damaged, "
            "or too large for this dtype"
        )
    return value.detach()


def _first(kept: _Kept) -> Callable[..., None]:
    def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("hidden_states")
        kept.first = x if isinstance(x, Tensor) else None

    return hook


def _output(kept: _Kept, index: int) -> Callable[..., None]:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(first, Tensor):
            kept.outputs[index] = first

    return hook


@contextmanager
def _removed(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()
