"""What a model's own rotary function does: found out by calling it, never by its name.

transformers 5.24 has 190 modelling files with an `apply_rotary_pos_emb` of their own. They
differ in which channels pair up, in how the tables repeat a pair, in the order of the arguments
and of the axes, and some in the direction. A function is called with small random tensors, and a
rule that gives the same numbers is what it does.

Most of them read a table that holds every pair twice, and the kernels read it once. That the two
copies are equal is a property of the module that makes the tables, so that is tried too, once, on
a copy of the module, with positions that differ on every axis (`TableTrials`).
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk.accelerate.apply import apply
from ropewalk.accelerate.rules import Form, Frame, Repeat, RotaryFunction, Rule, has_equal_copies
from ropewalk.rope.spec import Layout

REFUSALS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)
"""How a function refuses tensors that it is not made for."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a trial call: how many channels beyond the table's, and whether there is a batch."""

    passing: int = 0
    batched: bool = True


@lru_cache(maxsize=512)
def rule_of(function: RotaryFunction) -> Rule | None:
    """The rule that a function follows, None where it follows none of ours."""
    form = Form.of(function)
    if form is None:
        return None
    with torch.no_grad():
        for folded in (False, True):
            for rule in _candidates(form, folded):
                if _agrees(function, form, rule, _Shape()):
                    return _completed(function, form, rule)
    return None


def _candidates(form: Form, folded: bool) -> Iterator[Rule]:
    frames: tuple[Frame, ...] = ("heads first", "heads second")
    repeats: tuple[Repeat, ...] = ("none", "doubled", "repeated")
    if form.unsqueeze is not None:
        frames = ("by argument",)
    if len(form.tables) == 1 or folded:
        repeats = ("none",) if len(form.tables) == 1 else ("doubled", "repeated")
    orders: tuple[tuple[Layout, bool], ...] = (
        ("half", False), ("interleaved", False), ("interleaved", True),
    )  # fmt: skip
    for frame in frames:
        for repeat in repeats:
            for layout, halves_out in orders:
                for backwards in (False, True):
                    yield Rule(frame, layout, repeat, halves_out, backwards, folded=folded)


def _completed(function: RotaryFunction, form: Form, rule: Rule) -> Rule:
    """The rule with what further calls show: channels that pass, and dtypes."""
    for from_end in (False, True):
        partial = replace(rule, partial=True, from_end=from_end)
        if not rule.halves_out and _agrees(function, form, partial, _Shape(passing=4)):
            rule = partial
            break
    unbatched = replace(rule, unbatched=True)
    if form.unsqueeze is None and _agrees(function, form, unbatched, _Shape(batched=False)):
        rule = unbatched
    wide = _sample(form, rule, _Shape())
    narrow = {n: x.bfloat16() if n in form.rotated else x for n, x in wide.items()}
    out = function(**narrow)
    dtype = (out[0] if isinstance(out, tuple) else out).dtype
    return replace(rule, widens=dtype != torch.bfloat16)


def _sample(form: Form, rule: Rule, shape: _Shape) -> dict[str, Tensor]:
    """Random arguments of a call. Heads, length and batch all differ, so that no axis passes for
    another. Tables are no cosines and sines: an equality of numbers is one of formulas.
    """
    generator = torch.Generator("cpu").manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device="cpu", dtype=torch.float32)

    batch, length, pairs = 2, 5, 4
    second = rule.frame == "heads second"
    given: dict[str, Tensor] = {}
    for name, heads in zip(form.rotated, (3, 4), strict=False):
        axes = [batch, length, heads] if second else [batch, heads, length]
        axes = axes if shape.batched else [length, heads]
        given[name] = draw(*axes, 2 * pairs + shape.passing)
    rows = [batch, length] if shape.batched else [length]
    if len(form.tables) == 1:
        given[form.tables[0]] = torch.complex(draw(*rows, pairs), draw(*rows, pairs))
        return given
    for name in form.tables:
        table = draw(*rows, pairs if rule.repeat == "none" or rule.folded else 2 * pairs)
        if rule.folded and rule.repeat == "doubled":
            table = torch.cat((table, table), dim=-1)
        elif rule.folded:
            table = table.repeat_interleave(2, dim=-1)
        given[name] = table
    return given


def _agrees(function: RotaryFunction, form: Form, rule: Rule, shape: _Shape) -> bool:
    """Whether function and rule give the same shapes and, to rounding, the same numbers."""
    given = _sample(form, rule, shape)
    try:
        theirs = function(**given)
    except REFUSALS:
        return False
    theirs = theirs if isinstance(theirs, tuple) else (theirs,)
    ours = apply(form, rule, given, form.unsqueeze)
    return (
        ours is not None
        and len(theirs) == len(ours)
        and all(
            isinstance(x, Tensor) and x.shape == y.shape and torch.allclose(x, y, atol=1e-5)
            for x, y in zip(theirs, ours, strict=True)
        )
    )


_LENGTH = 5


class TableTrials:
    """Asks of the modules of one model whether their tables hold equal copies, each maker once."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._known: dict[tuple[nn.Module, Repeat], bool] = {}

    def copies_are_equal(self, name: str, repeat: Repeat) -> bool:
        """Whether the module of the model called `name` gets tables whose copies are equal.

        The maker of its tables is looked for beside it and beside each module around it, the
        nearest first. False where there is none, or none that could be tried: then nothing is
        known.
        """
        parts = name.split(".") if name else []
        for depth in range(len(parts), -1, -1):
            around = self._model.get_submodule(".".join(parts[:depth]))
            makers = [child for child in around.children() if _makes_tables(child)]
            if makers:
                return all(self._once(maker, repeat) for maker in makers)
        return False

    def _once(self, maker: nn.Module, repeat: Repeat) -> bool:
        key = (maker, repeat)
        if key not in self._known:
            self._known[key] = _tried(maker, repeat)
        return self._known[key]


def _makes_tables(module: nn.Module) -> bool:
    """Whether a module is, by its name, one that makes rotary tables."""
    # With its capital: "solaropen" holds "rope", and is a name of layers.
    return re.search(r"Rotary|RoPE|Rope(?![a-z])", type(module).__name__) is not None


def _tried(maker: nn.Module, repeat: Repeat) -> bool:
    """Whether every table that the maker made in the trials has equal copies, and it made one."""
    buffers = list(maker.buffers())
    if any(buffer.is_meta for buffer in buffers):
        return False
    device = buffers[0].device if buffers else torch.device("cpu")
    made = list(_made(copy.deepcopy(maker), device))
    return bool(made) and all(has_equal_copies(tables, repeat) for tables in made)


def _made(maker: nn.Module, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """The tables (1, length, width) of the trials that the maker takes part in."""
    x = torch.zeros(1, _LENGTH, 8, device=device)
    row = torch.tensor([[0, 1, 2, 5, 11]], device=device)
    several = [torch.stack([row + 3 * axis for axis in range(axes)]) for axes in (2, 3, 4)]
    for position_ids in (row, *several):
        for options in _layer_types(maker):
            try:
                with torch.no_grad():
                    made: Any = maker(x, position_ids, **options)
            except REFUSALS:
                continue
            match made:
                case (Tensor() as cos, Tensor() as sin) if cos.shape[:-1] == (1, _LENGTH):
                    yield cos, sin


def _layer_types(maker: nn.Module) -> list[dict[str, str]]:
    """The options under which a maker has tables of their own: one for each kind of layer."""
    if "layer_type" not in inspect.signature(maker.forward).parameters:
        return [{}]
    sources = (maker, getattr(maker, "config", None))
    kinds = {kind for source in sources for kind in getattr(source, "layer_types", None) or ()}
    return [{"layer_type": kind} for kind in sorted(kinds)]
