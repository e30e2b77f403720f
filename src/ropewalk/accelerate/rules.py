"""The rotary functions of other people's models, as values: how they are called, what they do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ropewalk.rope.spec import Layout
from ropewalk.short import short

RotaryFunction = Callable[..., Any]

Repeat = Literal["none", "doubled", "repeated"]
"""How a table names each pair: once; all pairs and all again; or each pair twice in a row."""

Frame = Literal["by argument", "heads first", "heads second"]
"""Where heads stand: as `unsqueeze_dim` says, (batch, heads, sequence, channels), or (batch,
sequence, heads, channels)."""


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@short
@dataclass(frozen=True, slots=True)
class Form:
    """How a rotary function is called: the names of its parameters, in order.

    `rotated` are the one or two tensors to rotate, `tables` are cos and sin by name, or the one
    complex table. `unsqueeze` is the default of `unsqueeze_dim`, None where there is none.
    `extra` are parameters of which nothing is known but that they may be left out.
    """

    names: tuple[str, ...]
    rotated: tuple[str, ...]
    tables: tuple[str, ...]
    unsqueeze: int | None
    extra: tuple[str, ...]

    @staticmethod
    def of(function: RotaryFunction) -> Form | None:
        """The form of a function, None where it is not one of these."""
        own = function.forward if isinstance(function, nn.Module) else function
        parameters = inspect.signature(own).parameters
        names = tuple(parameters)
        tables = ("cos", "sin") if {"cos", "sin"} <= set(names) else ("freqs_cis",)
        if not set(tables) <= set(names):
            return None
        first = min(names.index(name) for name in tables)
        known = {*names[:first], *tables, "unsqueeze_dim"}
        extra = tuple(name for name in names if name not in known)
        optional = {
            n for n, p in parameters.items() if p.default is not p.empty or p.kind in _VARIADIC
        }
        if first not in (1, 2) or not set(extra) <= optional:
            return None
        unsqueeze = parameters["unsqueeze_dim"].default if "unsqueeze_dim" in parameters else None
        return Form(names, names[:first], tables, unsqueeze, extra)


@short
@dataclass(frozen=True, slots=True)
class Rule:
    """What a rotary function computes.

    `layout` pairs the channels; with `halves_out`, pairs that come interleaved leave as halves
    (DeepSeek). `backwards`: rotated by the negative angle (nanochat). `partial`: channels beyond
    the table's pass, behind the rotated ones or, with `from_end`, before. `unbatched`: (sequence,
    heads, channels) by tables (sequence, width) is understood too. `widens`: the result takes
    the tables' dtype where that is wider. `folded`: the function reads both copies of a
    pair in a table, so the rule holds for tables whose copies are equal, and that is to be shown.
    """

    frame: Frame
    layout: Layout
    repeat: Repeat
    halves_out: bool = False
    backwards: bool = False
    partial: bool = False
    from_end: bool = False
    unbatched: bool = False
    widens: bool = False
    folded: bool = False

    def __str__(self) -> str:
        pairs = "pairs of halves" if self.layout == "half" else "pairs of neighbours"
        parts = [pairs, *(["which leave as halves"] if self.halves_out else [])]
        parts += ["rotated backwards"] if self.backwards else []
        return ", ".join(parts)


def reorder(x: Tensor, rule: Rule) -> Tensor:
    """Pairs of neighbours as halves, where the rule has them leave so."""
    return x.unflatten(-1, (-1, 2)).mT.flatten(-2) if rule.halves_out else x


def pairs_of(table: Tensor, repeat: Repeat) -> Tensor:
    """A table with each pair once: (..., pairs)."""
    if repeat == "doubled":
        return table[..., : table.shape[-1] // 2]
    return table[..., ::2] if repeat == "repeated" else table


def has_equal_copies(tables: Iterable[Tensor], repeat: Repeat) -> bool:
    """Whether tables (..., width) hold the copies of every pair equal. Waits for the device."""
    for table in tables:
        if repeat == "none":
            continue
        half = table.shape[-1] // 2
        first, second = table[..., :half], table[..., half:]
        if repeat == "repeated":
            first, second = table[..., ::2], table[..., 1::2]
        if not torch.equal(first, second):
            return False
    return True


def looks_rotary(function: object) -> bool:
    """Whether something that is called has parameters for cosines and sines, or their complex."""
    own = function.forward if isinstance(function, nn.Module) else function
    if not inspect.isroutine(own) or inspect.isbuiltin(own):
        return False
    names = set(inspect.signature(own).parameters)
    return {"cos", "sin"} <= names or bool({"freqs_cis", "freqs_ci"} & names)
