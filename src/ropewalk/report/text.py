"""Text that came from models and files, made safe to print.

A token, a file name or a model's answer may hold an ANSI escape that repaints the terminal, a
bidirectional override that reorders a line, or a character that the terminal's encoding lacks.
Such characters are shown as backslash escapes (``\\x1b``, ``\\u202e``): visible, never obeyed,
never dropped. HTML escaping is the template engine's work and is done on top of this.

`wrapped` is the one place where text is broken into lines, counted in the cells that characters
take on a screen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that ordinary words and emoji need, and that cannot reorder text."""

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: controls, formats (bidi among them), surrogates, line and paragraph ends."""

NARROWEST = 40
"""Columns that every report counts on; a narrower terminal is written to as if it had so many."""

_HYPHEN = re.compile(r"(?<=[^\W\d_]-)(?=[^\W\d_]{2})")

GLYPHS = "█▓▒░·┆═╡─┤–×"
"""What the heat map draws with where the encoding has it."""


def visible(text: str, *, newlines: bool = False) -> str:
    """Return `text` with every control and hidden format character as a backslash escape.

    `newlines` keeps line feeds and tabs, for text that is shown as a block of its own.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if newlines else ""
    return "".join(
        _escape(c)
        if unicodedata.category(c) in _ESCAPED_CATEGORIES and c not in _JOINERS and c not in kept
        else c
        for c in text
    )


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clip(text: str, limit: int) -> str:
    """Return at most about `limit` characters of `text`, and say how many more there are."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} ... ({len(text) - limit:,} more characters)"


def listed(names: Iterable[object], most: int) -> str:
    """The first `most` names with commas, and dots where there are more."""
    held = [str(name) for name in names]
    return ", ".join(held[:most]) + (", ..." if len(held) > most else "")


def encodable(text: str, encoding: str) -> str:
    """Return `text` with what `encoding` lacks as backslash escapes, so that printing it works."""
    return text.encode(encoding, "backslashreplace").decode(encoding)


def draws_glyphs(encoding: str) -> bool:
    """Say whether `encoding` holds the block and line characters of the heat map.

    An encoding that Python does not know cannot be relied on and counts as not.
    """
    try:
        GLYPHS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def wrapped(
    text: str, width: int, first: str = "", rest: str | None = None, *, hyphens: bool = False
) -> list[str]:
    """`text` behind `first` in lines of at most `width` cells, later ones behind `rest`.

    Broken at blanks; a word that is wider than a line by itself is folded. Without `rest` later
    lines begin below the text. Blanks between words stay as they are. No text is no line.
    """
    rest = " " * cells(first) if rest is None else rest
    out: list[str] = []
    line, used, begun = first, cells(first), False
    for word in _words(text, hyphens=hyphens):
        if word.isspace():
            # Blanks that begin the text are its own; those at a break are dropped.
            if begun or not out:
                line, used = line + word, used + len(word)
            continue
        size = cells(word)
        if used + size > width and (begun or (line.strip() and cells(rest) < used)):
            out.append(line.rstrip())
            line, used = rest, cells(rest)
        while used + size > width:
            head, word = _cut(word, max(1, width - used))
            out.append(line + head)
            line, used, size = rest, cells(rest), cells(word)
        line, used, begun = line + word, used + size, True
    return [*out, line.rstrip()] if begun else out


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int) -> str:
    """A text in a column of `width` cells: padded, or cut with three dots at its end."""
    if cells(text) > width:
        head, _ = _cut(text, max(1, width - 3))
        text = (head + "...")[: max(width, 3)]
    return text + " " * (width - cells(text))


def _words(text: str, *, hyphens: bool) -> Iterator[str]:
    # A blank that is not to be broken at, as between a number and its unit, is not one of these.
    for word in re.split(r"( +)", re.sub(r"[\t\n\v\f\r]", " ", text)):
        if word:
            yield from _HYPHEN.split(word) if hyphens else (word,)


def _cut(word: str, room: int) -> tuple[str, str]:
    """A word in two, the first of at most `room` cells, of one character at least."""
    used = 0
    for at, character in enumerate(word):
        used += cells(character)
        if used > room and at:
            return word[:at], word[at:]
    return word, ""
