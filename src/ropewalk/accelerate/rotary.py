"""This package's rotary kernels put under any transformers model, reversibly.

A module that rotates queries and keys calls its modelling file's rotary function by a global name.
It is put under a class derived from its own, whose methods call the kernels in that place. The
library's own hook for such kernels is process-wide, since all models of one file share the one
function that it exchanges, and is there with the package `kernels` only; it is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

from torch import nn

from ropewalk.accelerate.apply import adapted
from ropewalk.accelerate.handle import (
    Acceleration,
    check_fresh,
    make_class,
    put_under,
    why_not,
)
from ropewalk.accelerate.probe import TableTrials, rule_of
from ropewalk.accelerate.relink import functions_within, globals_called, relinked
from ropewalk.accelerate.rules import Form, RotaryFunction, Rule, looks_rotary
from ropewalk.errors import UsageError

KIND = "Rotary kernels"


@dataclass(frozen=True, slots=True)
class _Call:
    """One rotary function that a class calls: by which name, and what it does, if that is known.

    `check`: its tables are looked at in every forward pass, for they could not be tried before.
    """

    name: str
    function: RotaryFunction
    rule: Rule | None
    check: bool = False


def accelerate_rotary(model: nn.Module, *, in_place: bool = False) -> Acceleration:
    """Have `model` rotate its queries and keys by this package's kernels; the logits stay the same.

    Returns a handle: print it to read what was changed and what stayed and why, `undo()` it, or
    use it in a `with` statement. Each rotary function is called on small random tensors first,
    and replaced only where the kernels give the same numbers to rounding: tables are taken as
    the model makes them, and arithmetic is in fp32 with one rounding, where a model in bfloat16
    rounds each product and sum. Gradients flow as before, under checkpointing, compilation and
    autocast too. `in_place` rotates queries and keys where they lie, in calls that keep no
    gradient.

    Raises UsageError where the model is accelerated already.
    """
    done, trials = Acceleration(KIND), TableTrials(model)
    module: Any
    check_fresh(model, KIND)
    for name, module in list(model.named_modules()):
        calls = [_settled(trials, name, call) for call in _calls(module.__class__)]
        if not calls:
            continue
        known = tuple(call for call in calls if call.rule is not None)
        hindrance = why_not(module)
        if hindrance is not None or not known:
            done.stay(module, hindrance or _unknown(calls))
            continue
        after = _class_for(module.__class__, known, in_place)
        done.changes.append(put_under(module, after, _said(known, in_place)))
    if not done.changes and not done.stays:
        done.remark = "No module of this model calls a rotary function by name; nothing is changed"
    return done


@lru_cache(maxsize=256)
def _calls(cls: Any) -> tuple[_Call, ...]:
    """The rotary functions that the methods of a class call, each once."""
    found: dict[str, _Call] = {}
    for method in _methods(cls).values():
        for part in functions_within(method):
            for name in sorted(globals_called(part)):
                function = part.__globals__.get(name)
                if callable(function) and looks_rotary(function):
                    found.setdefault(name, _Call(name, function, rule_of(function)))
    return tuple(found.values())


def _methods(cls: type[nn.Module]) -> dict[str, FunctionType]:
    """The methods that a class defines or inherits, up to torch's own."""
    methods: dict[str, FunctionType] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("torch."):
            continue
        for name, value in vars(base).items():
            if isinstance(value, FunctionType):
                methods.setdefault(name, value)
    return methods


def _settled(trials: TableTrials, name: str, call: _Call) -> _Call:
    """The call, to be checked as it runs where its tables cannot be tried now."""
    if call.rule is None or not call.rule.folded:
        return call
    check = not trials.copies_are_equal(name, call.rule.repeat)
    return _Call(call.name, call.function, call.rule, check)


@lru_cache(maxsize=256)
def _class_for(cls: Any, calls: tuple[_Call, ...], in_place: bool) -> type[nn.Module]:
    """The derived class; one for all modules of the same class, so that they compile as one."""
    replacements = {call.name: _replacement(call, in_place) for call in calls}
    mark = "".join(("rotate", *(["_in_place"] if in_place else []),
                    *(f"_{call.name}_checked" for call in calls if call.check)))  # fmt: skip
    methods: dict[str, Callable[..., Any]] = {}
    for name, method in _methods(cls).items():
        changed = relinked(method, replacements, mark)
        if changed is not method:
            methods[name] = changed
    return make_class(cls, KIND, methods)


def _replacement(call: _Call, in_place: bool) -> Callable[..., Any]:
    form = Form.of(call.function)
    if form is None or call.rule is None:
        raise UsageError(f"nothing is known of {call.name}")
    return adapted(call.function, form, call.rule, in_place=in_place, check=call.check)


def _unknown(calls: list[_Call]) -> str:
    names = " and ".join(call.name for call in calls)
    return f"{names} computes nothing that these kernels do"


def _said(calls: tuple[_Call, ...], in_place: bool) -> str:
    """What a changed module does now."""
    parts = []
    for call in calls:
        how = [str(call.rule), *(["in place where no gradient is kept"] if in_place else [])]
        if call.check:
            how.append(
                "its tables looked at in each forward pass, and its own function when compiled"
            )
        parts.append(f"{call.name} ({'; '.join(how)})")
    return f"rotate by these kernels in place of {' and '.join(parts)}"
