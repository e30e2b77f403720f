"""A function once more, with other functions in place of some that it calls by global name.

The copy loads an alias where the original loads the name. Aliases stand beside the names in the
same module, so everything else that the function reads stays live, a compiler traces the copy as
it traces the original, and whoever calls the original meets nothing new.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any

Replacements = Mapping[str, Callable[..., Any]]
"""What is to be called, by the global name of what is called now."""


def functions_within(function: Any) -> list[FunctionType]:
    """The plain functions that make up `function`: itself, and what its decorators wrap.

    transformers decorates many a forward; the function that was decorated is in a cell of the
    wrapper, and is known by the wrapper's `__wrapped__`.
    """
    found: list[FunctionType] = []
    while isinstance(function, FunctionType) and function not in found:
        found.append(function)
        function = _wrapped(function)
    return found


def globals_called(function: Any) -> set[str]:
    """The global names that a function's own code loads, in comprehensions and lambdas too.

    A name that the code also uses otherwise, as an attribute, is not among them: in the copy
    both would change.
    """
    used: dict[bool, set[str]] = {True: set(), False: set()}
    for code in _codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.argval in code.co_names:
                used[step.opname == "LOAD_GLOBAL"].add(step.argval)
    return used[True] - used[False]


def relinked(function: Any, replacements: Replacements, mark: str) -> Any:
    """A copy of a plain function that calls `replacements`; the same where it calls none.

    `mark` keeps the aliases of different replacements of one name apart.
    """
    names = globals_called(function) & set(replacements)
    inner = _wrapped(function)
    changed = relinked(inner, replacements, mark) if inner is not None else None
    if not names and changed is inner:
        return function
    cells = tuple(
        CellType(changed) if inner is not None and _content(cell) is inner else cell
        for cell in function.__closure__ or ()
    )
    aliases = {name: f"_ropewalk_{mark}_{name}" for name in names}
    for name, alias in aliases.items():
        function.__globals__[alias] = replacements[name]
    copy = FunctionType(
        _renamed(function.__code__, aliases), function.__globals__, function.__name__,
        function.__defaults__, cells or None,
    )  # fmt: skip
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__annotations__ = function.__annotations__
    copy.__dict__.update(function.__dict__)
    if changed is not None:
        copy.__dict__["__wrapped__"] = changed
    return copy


def _wrapped(function: FunctionType) -> FunctionType | None:
    """The function that a decorator's wrapper calls, None where it is no wrapper of one."""
    inner = function.__dict__.get("__wrapped__")
    held = any(_content(cell) is inner for cell in function.__closure__ or ())
    return inner if isinstance(inner, FunctionType) and held else None


def _content(cell: CellType) -> Any:
    """What a cell holds, None while it is still empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _renamed(code: CodeType, aliases: Mapping[str, str]) -> CodeType:
    """The code with other names, and the codes within it."""
    names = tuple(aliases.get(name, name) for name in code.co_names)
    constants = tuple(
        _renamed(constant, aliases) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_names=names, co_consts=constants)
