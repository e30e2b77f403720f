"""How values print: reprs of one short line, with what a value is and its sizes; bytes in words.

The repr that a dataclass makes for itself writes out all that it holds, and a table's vocabulary
alone is millions of characters. `@short` above `@dataclass` keeps it where it is short, and
otherwise says of long texts their beginning, of long collections what is in them and how many, and
of arrays their shape.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from enum import Enum
from operator import attrgetter
from pathlib import PurePath
from typing import Any, TypeVar

MOST = 300
"""Characters of a repr."""

_ROOMS = (300, 120, 60, 30, 12)
"""Characters for each field, tried in turn until the whole fits."""

_SHARE = 4
"""How many times the room of others a field has that comes first."""

_ITEM = 3
"""Characters that an item of a collection takes at least, with its comma."""

_DEPTH = 4
"""How deep values within values are looked into."""

_Class = TypeVar("_Class", bound=type)


def short(made: _Class) -> _Class:
    """Give a dataclass a repr of at most `MOST` characters."""
    setattr(made, "__repr__", _repr)  # noqa: B010 - mypy refuses a method put into a type variable
    return made


def short_with(*first: str) -> Callable[[_Class], _Class]:
    """As `short`, with these fields or properties first, "inner.field" for one of a value within.

    Properties must be quick, and never raise.
    """

    def give(made: _Class) -> _Class:
        setattr(made, "_told_first", first)  # noqa: B010 - as above
        return short(made)

    return give


def sized(count: float) -> str:
    """Bytes in the largest unit that leaves 1 or more, to four digits: 1.125 KiB, 23 GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def _repr(value: Any) -> str:
    return _told(value, MOST, 0)


def _told(value: Any, most: int, depth: int) -> str:
    """A dataclass in at most `most` characters."""
    name = type(value).__qualname__
    fields = [f.name for f in dataclasses.fields(value) if f.repr]
    first = getattr(type(value), "_told_first", ())
    # A value that its constructor has not filled yet is shown by a debugger, too.
    order, held = [], {}
    for field in (*first, *(f for f in fields if f not in first)):
        with suppress(AttributeError):
            held[field] = attrgetter(field)(value)
            order.append(field)
    if depth >= _DEPTH:
        return f"{name}({'…' if order else ''})"
    parts: list[str] = []
    for room in _ROOMS:
        wide = dict.fromkeys(first, _SHARE * room)
        parts = [f"{n}={_brief(held[n], wide.get(n, room), depth + 1)}" for n in order]
        whole = f"{name}({', '.join(parts)})"
        if len(whole) <= most:
            return whole
    while parts and len(name) + sum(len(part) + 2 for part in parts) + 3 > most:
        parts.pop()
    return f"{name}({', '.join([*parts, '…'])})"


def _brief(value: Any, room: int, depth: int) -> str:
    """Any value in about `room` characters."""
    if isinstance(value, str | bytes):
        return _text(value, room)
    if isinstance(value, PurePath):
        said = str(value)
        return repr(said if len(said) <= room else f"…{said[-max(room - 1, 8) :]}")
    if value is None or isinstance(value, bool | int | float | complex | Enum):
        return _clipped(repr(value), room)
    if isinstance(value, type):
        return value.__name__
    if dataclasses.is_dataclass(value):
        return _told(value, max(room, len(type(value).__qualname__) + 3), depth)
    if isinstance(value, tuple | list | Set | Mapping):
        return _many(value, room, depth)
    return _other(value, room)


def _text(value: str | bytes, room: int) -> str:
    if len(value) <= room:
        return _clipped(repr(value), room + 8)
    return _clipped(repr(value[: max(room - 1, 8)]), room + 8) + "…"


def _clipped(said: str, room: int) -> str:
    return said if len(said) <= max(room, 12) else f"{said[: max(room, 12) - 1]}…"


def _many(value: Any, room: int, depth: int) -> str:
    """A collection: its items, or what they are and how many."""
    count = len(value)
    if not count:
        return repr(value) if type(value) in (tuple, list, dict, set, frozenset) else "()"
    kinds = {type(item).__name__ for _, item in zip(range(9), value, strict=False)}
    kind = kinds.pop() if len(kinds) == 1 else "items"
    summed = f"<{count:,} {kind}>"
    if count * _ITEM > room or depth >= _DEPTH:
        return summed
    if isinstance(value, Mapping):
        parts = [
            f"{_brief(k, room, depth)}: {_brief(v, room, depth + 1)}" for k, v in value.items()
        ]
        said = f"{{{', '.join(parts)}}}"
    else:
        inner = ", ".join(_brief(item, room, depth + 1) for item in value)
        said = f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if count == 1 else ''})"
        said = f"{{{inner}}}" if isinstance(value, Set) else said
    return said if len(said) <= room else summed


def _other(value: Any, room: int) -> str:
    """Arrays and tensors by type and shape; anything else whose repr may be long by its type."""
    kind = type(value).__name__
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        sizes = " x ".join(map(str, shape)) or "()"
        return f"<{kind} {sizes} {str(dtype).removeprefix('torch.')}>"
    if callable(value) and hasattr(value, "__name__"):
        return f"<{value.__name__}>"
    if kind in ("dtype", "device", "range"):
        return _clipped(repr(value), room)
    return f"<{kind}>"
