"""A rotary function's rule carried out by this package's kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ropewalk.accelerate.rules import (
    Form,
    RotaryFunction,
    Rule,
    has_equal_copies,
    pairs_of,
    reorder,
)
from ropewalk.kernels.rotation import rotate, shares_memory

_Axes = Literal["heads first", "heads second", "no batch"]

_AXES: dict[object, _Axes] = {1: "heads first", 2: "heads second"}
"""What `unsqueeze_dim` says of the axes."""


def apply(
    form: Form,
    rule: Rule,
    given: Mapping[str, Any],
    unsqueeze: int | None,
    *,
    in_place: bool = False,
    check: bool = False,
) -> tuple[Tensor, ...] | None:
    """The tensors of one call rotated, None where their shapes are not those of the rule.

    `check` looks whether tables of two copies hold them equal, and is None where they do not.

    Tables are taken as they are given: a model that rounds its cosines to bfloat16 has them
    rounded, and only the arithmetic is in fp32. With `in_place` the tensors themselves change.
    """
    frame = _AXES.get(unsqueeze) if rule.frame == "by argument" else rule.frame
    tensors, tables = _tensors(form.rotated, given), _tensors(form.tables, given)
    if frame is None or not tensors or not tables:
        return None
    if len(tables) == 1:
        tables = (tables[0].real, tables[0].imag) if tables[0].is_complex() else ()
    if rule.unbatched and tensors[0].dim() == 3:
        frame = "no batch"
    if not _fits(rule, frame, tensors, tables):
        return None
    pair_tables = _pair_tables(rule, *tables, check=check)
    if pair_tables is None:
        return None
    cos, sin = pair_tables
    if rule.widens:
        tensors = tuple(x.to(torch.promote_types(x.dtype, tables[0].dtype)) for x in tensors)
    width = 2 * cos.shape[-1]
    seen = [_heads_first(x, frame) for x in tensors]
    if rule.from_end and width < seen[0].shape[-1]:
        last = _rotate([x[..., -width:] for x in seen], cos, sin, rule)
        back = [
            torch.cat((x[..., :-width], part), dim=-1) for x, part in zip(seen, last, strict=True)
        ]
    else:
        back = _rotate(seen, cos, sin, rule, in_place=in_place)
    return tuple(_as_given(reorder(x, rule), frame) for x in back)


def adapted(
    own: RotaryFunction, form: Form, rule: Rule, *, in_place: bool = False, check: bool = False
) -> Callable[..., Any]:
    """A function to stand for `own`: the same parameters, the same result to rounding.

    A call that the rule does not cover, of other shapes or with other options, is `own`'s.
    `in_place` is for calls under which no gradient is kept.
    """
    names, extra = form.names, set(form.extra)

    @wraps(own.forward if isinstance(own, nn.Module) else own)
    def rotate_instead(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        known = len(args) <= len(names) and not any(
            given[name] is not None for name in given if name in extra or name not in names
        )
        if known:
            quiet = in_place and not torch.is_grad_enabled()
            axis = given.get("unsqueeze_dim", form.unsqueeze)
            out = apply(form, rule, given, axis, in_place=quiet, check=check)
            if out is not None:
                return out if len(out) > 1 else out[0]
        return own(*args, **kwargs)

    return rotate_instead


def _tensors(names: tuple[str, ...], given: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """The arguments of these names, none where not all of them are tensors."""
    found = tuple(given.get(name) for name in names)
    return tuple(x for x in found if x is not None) if all(map(torch.is_tensor, found)) else ()


def _fits(
    rule: Rule, frame: _Axes, tensors: tuple[Tensor, ...], tables: tuple[Tensor, ...]
) -> bool:
    """Whether shapes are such as the rule was tried with."""
    if len(tables) != 2 or tables[0].shape != tables[1].shape:
        return False
    dims, table_dims = (3, 2) if frame == "no batch" else (4, 3)
    length_axis = {"heads first": 2, "heads second": 1}.get(frame, 0)
    table = tables[0]
    width = table.shape[-1] * (2 if rule.repeat == "none" else 1)
    if table.dim() != table_dims or not width or not tensors[0].is_floating_point():
        return False
    if any(table.requires_grad for table in tables):
        return False
    return all(
        x.dim() == dims
        and x.dtype == tensors[0].dtype
        and x.shape[length_axis] == table.shape[-2]
        and (dims == 3 or table.shape[0] in (1, x.shape[0]))
        and (x.shape[-1] == width or (rule.partial and x.shape[-1] > width))
        for x in tensors
    )


def _pair_tables(
    rule: Rule, cos: Tensor, sin: Tensor, *, check: bool
) -> tuple[Tensor, Tensor] | None:
    """Cosines and sines of each pair once, in fp32 at least, without a batch of one.

    None where `check` finds that the copies of a pair differ, or cannot look. The layers of one
    forward pass share their tables, so what is made of them is kept with the table itself, as
    long as nothing has written to it.
    """
    if torch.compiler.is_compiling() or cos.is_inference() or sin.is_inference():
        return _make_pairs(rule, cos, sin, check)
    key = (rule.repeat, rule.backwards, check, cos._version, sin._version, id(sin))
    kept = cos.__dict__.get("_ropewalk_pairs")
    if kept is None or kept[0] != key:
        # `sin` is kept too, so that its id stays its own.
        kept = (key, _make_pairs(rule, cos, sin, check), sin)
        cos.__dict__["_ropewalk_pairs"] = kept
    pair: tuple[Tensor, Tensor] | None = kept[1]
    return pair


def _make_pairs(rule: Rule, cos: Tensor, sin: Tensor, check: bool) -> tuple[Tensor, Tensor] | None:
    if check and (torch.compiler.is_compiling() or not has_equal_copies((cos, sin), rule.repeat)):
        return None
    return _made(rule, cos), _made(rule, sin, negate=rule.backwards)


def _made(rule: Rule, table: Tensor, *, negate: bool = False) -> Tensor:
    pairs = pairs_of(table, rule.repeat)
    pairs = pairs[0] if pairs.dim() == 3 and pairs.shape[0] == 1 else pairs
    pairs = pairs.to(torch.promote_types(pairs.dtype, torch.float32)).contiguous()
    return -pairs if negate else pairs


def _heads_first(x: Tensor, frame: _Axes) -> Tensor:
    """(batch, heads, sequence, channels), a view."""
    if frame == "heads second":
        return x.transpose(1, 2)
    return x.transpose(0, 1)[None] if frame == "no batch" else x


def _as_given(x: Tensor, frame: _Axes) -> Tensor:
    """The way back."""
    if frame == "heads second":
        return x.transpose(1, 2)
    return x[0].transpose(0, 1) if frame == "no batch" else x


def _rotate(
    tensors: list[Tensor], cos: Tensor, sin: Tensor, rule: Rule, *, in_place: bool = False
) -> list[Tensor]:
    """One or two tensors (batch, heads, sequence, channels) rotated by the same tables.

    `in_place` overwrites them, except where several of their elements share a place in memory.
    """
    second = tensors[1] if len(tensors) == 2 else None
    in_place = in_place and not any(map(shares_memory, tensors))
    both = rotate(tensors[0], second, cos, sin, rule.layout, in_place=in_place)
    return [x for x in both if x is not None]
