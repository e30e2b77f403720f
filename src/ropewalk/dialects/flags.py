"""Command-line options of engines, read into names and values."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ropewalk.errors import ScheduleError


def split_flags(text: str, known: Mapping[str, str], engine: str) -> dict[str, str]:
    """The options in `text` by their long name; `known` maps every spelling to that name.

    Raises ScheduleError for text that no shell would split, options that are not known, and
    options without a value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ScheduleError(f"{engine} options {text[:80]!r} cannot be split: {error}") from error
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in known:
            raise ScheduleError(
                f"{name[:40]!r} is no option of {engine} that sets positions; known: "
                f"{', '.join(sorted(known))}"
            )
        given = value if equals else next(rest, None)
        if given is None:
            raise ScheduleError(f"{name} of {engine} needs a value behind it")
        found[known[name]] = given
    return found


def whole(name: str, text: str) -> int:
    """A count of tokens."""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) <= 2**40:
        raise ScheduleError(f"{name} is {text[:40]!r}; a whole number of tokens is allowed")
    return int(text)
