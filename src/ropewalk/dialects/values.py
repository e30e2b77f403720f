"""Typed access to keys and values that were written elsewhere.

A `Section` is one object of a file: the whole of a configuration, a named part of it such as
`text_config` or `rope_scaling`, or the metadata of a GGUF file (`dialects.gguf.keys`). Its getters
return a value of the asked kind, None where the key is absent or null, and raise an error with
file, key, value and what is allowed where the value is anything else. Nothing is coerced: "4.0" is
not 4.0, and true is not 1. `Notes` collects what a reader noticed on the way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from ropewalk.errors import ConfigError, RopewalkError
from ropewalk.rope.spec import Finding
from ropewalk.short import short

_Item = TypeVar("_Item")

MAX_FILE_BYTES = 64 * 2**20
"""A configuration larger than this is not one."""

MAX_LENGTH = 2**40
"""Tokens. The longest claim seen is 10,485,760; a trillion is a slip of the keyboard."""

MAX_COUNT = 10**6
"""Layers, heads, channels."""

MAX_NUMBER = 1e15
"""Bases, factors and multipliers; the largest base seen is below 1e12."""


@short
@dataclass(frozen=True, slots=True)
class Section:
    """One object of a file, with the names by which to speak of it.

    `where` names the file, `path` the object's place in it ("" for the whole file). `asked` are
    the keys whose values were taken or that were named; whether a key is there may be asked
    without that.
    """

    values: Mapping[str, object]
    where: str
    path: str = ""
    asked: set[str] = field(default_factory=set, compare=False, repr=False)

    error: ClassVar[type[RopewalkError]] = ConfigError
    typed: ClassVar[bool] = False
    """Whether the file has types of its own, so that 4096.0 is no whole number and 1 no flag."""
    usual_remedy: ClassVar[str] = ""

    def name(self, key: str) -> str:
        """The key as a reader finds it in the file: "text_config.rope_theta"."""
        # What is spoken of has been seen.
        self.asked.add(key)
        dot = "" if key.startswith("[") else "."
        return f"{self.path}{dot}{key}" if self.path else key

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def take(self, key: str) -> object:
        """The value of a key, None where it is absent."""
        self.asked.add(key)
        return self.values.get(key)

    def wrong(self, key: str, allowed: str, remedy: str = "") -> RopewalkError:
        """The error for a value that is not what its key needs."""
        given = shown(self.values[key]) if key in self.values else "missing"
        remedy = remedy or self.usual_remedy
        tail = f"; {remedy}" if remedy else ""
        return self.error(f"{self.where}: {self.name(key)} is {given}; {allowed} is allowed{tail}")

    def count(self, key: str, most: int = MAX_COUNT, *, least: int = 1) -> int | None:
        """A whole number from `least` to `most` (channels, heads, layers)."""
        value = self.take(key)
        if value is None:
            return None
        allowed = f"a whole number from {least} to {most}"
        known = int if self.typed else int | float
        if isinstance(value, bool) or not isinstance(value, known):
            raise self.wrong(key, allowed, _unquote(value))
        # Some tools write whole numbers as 4096.0; only those are taken as whole.
        if not least <= value <= most or value != int(value):
            raise self.wrong(key, allowed)
        return int(value)

    def length(self, key: str) -> int | None:
        """A length in tokens."""
        return self.count(key, MAX_LENGTH)

    def number(self, key: str, *, zero: bool = False, negative: bool = False) -> float | None:
        """A finite number above 0; from 0 on when `zero`; of either sign when `negative`."""
        value = self.take(key)
        if value is None:
            return None
        least = f"from {-MAX_NUMBER:g}" if negative else "from 0" if zero else "above 0"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, f"a number {least}", _unquote(value))
        good = abs(value) <= MAX_NUMBER if negative else 0 <= value <= MAX_NUMBER
        if not good or (value == 0 and not (zero or negative)):
            raise self.wrong(key, f"a finite number {least} and up to {MAX_NUMBER:g}")
        return float(value)

    def flag(self, key: str) -> bool | None:
        """true or false; 0 and 1 are taken, because published files spell flags so."""
        value = self.take(key)
        if value is None:
            return None
        known = bool if self.typed else bool | int
        if not isinstance(value, known) or value not in (0, 1):
            raise self.wrong(key, "true or false", _unquote(value))
        return bool(value)

    def text(self, key: str) -> str | None:
        """A string."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def section(self, key: str) -> Section | None:
        """A JSON object below this one."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(key, "a JSON object, or null")
        return replace(self, values=value, path=self.name(key), asked=set())

    def items(self, key: str) -> tuple[object, ...] | None:
        """A list, with whatever is in it."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.wrong(key, "a list")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...] | None:
        """A list of finite numbers above 0."""
        return self._each(key, lambda part, i: part.number(i))

    def counts(self, key: str, *, least: int = 1) -> tuple[int, ...] | None:
        """A list of whole numbers from `least` on."""
        return self._each(key, lambda part, index: part.count(index, least=least))

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of strings."""
        return self._each(key, lambda part, i: part.text(i))

    def _each(
        self, key: str, read: Callable[[Section, str], _Item | None]
    ) -> tuple[_Item, ...] | None:
        """Read every item by the getter of one value, so that an error names the item."""
        items = self.items(key)
        if items is None:
            return None
        listed = {f"[{i}]": item for i, item in enumerate(items)}
        part = replace(self, values=listed, path=self.name(key), asked=set())
        found: list[_Item] = []
        for index in part.values:
            value = read(part, index)
            if value is None:
                raise part.wrong(index, "a value that is not null")
            found.append(value)
        return tuple(found)


@short
@dataclass(slots=True)
class Notes:
    """What a reader noticed; each (code, text) once, in the order of noticing."""

    findings: list[Finding] = field(default_factory=list)

    def note(self, code: str, text: str, remedy: str = "") -> None:
        """Tell."""
        self._add(code, text, remedy, "note")

    def warn(self, code: str, text: str, remedy: str = "") -> None:
        """Ask the user to act."""
        self._add(code, text, remedy, "warning")

    def _add(self, code: str, text: str, remedy: str, severity: Literal["warning", "note"]) -> None:
        finding = Finding(code, severity, text, remedy)
        if finding not in self.findings:
            self.findings.append(finding)


def load_json(path: Path) -> dict[str, object]:
    """The JSON object in a file, with Infinity and NaN read as Python's json reads them.

    Raises ConfigError, with the line where there is one, for a file that is missing, unreadable,
    a folder, larger than 64 MiB, not UTF-8, not JSON, or not an object.
    """
    try:
        if path.is_dir():
            raise ConfigError(f"{path} is a folder; name the config.json in it")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ConfigError(
                f"{path} is {size} bytes long; a configuration has at most {MAX_FILE_BYTES}: "
                "is this the weights file?"
            )
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 text (byte {error.start}); a configuration is JSON in UTF-8"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{path} cannot be read: {reason}; check the path") from error
    return _parse(text, path)


def _parse(text: str, path: Path) -> dict[str, object]:
    """The object in `text`, or an error that says where it breaks."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{path}, line {error.lineno}, column {error.colno}: not valid JSON ({error.msg}); "
            "fetch the file again or repair that line"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} holds a number or a nesting too large to read as JSON; fetch the file again"
        ) from error
    if not isinstance(value, dict):
        raise ConfigError(
            f"{path} holds a JSON {_kind(value)}; a configuration is a JSON object {{...}}"
        )
    return value


def shown(value: object) -> str:
    """A value as JSON would have it, cut to a readable length."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Mapping):
        return "a JSON object"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def _unquote(value: object) -> str:
    """The remedy for a number or a flag in quotes."""
    inside = value.strip().lower() if isinstance(value, str) else ""
    quoted = inside in ("true", "false") or re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", inside)
    return "remove the quotes around it" if quoted else ""


def _kind(value: object) -> str:
    """The JSON name of a Python value's kind."""
    if isinstance(value, list):
        return "list"
    return "string" if isinstance(value, str) else "value without keys"
