"""Text that came from models and files, made safe to print.

A token, a file name or a model's answer may hold an ANSI escape that repaints the terminal, a
bidirectional override that reorders a line, or a character that the terminal's encoding lacks.
Such characters are shown as backslash escapes (``\\x1b``, ``\\u202e``): visible, never obeyed,
never dropped. HTML escaping is the template engine's work and is done on top of this.
"""

from __future__ import annotations

import unicodedata

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that ordinary words and emoji need, and that cannot reorder text."""

_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories: controls, formats (bidi among them), surrogates, line and paragraph ends."""

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
