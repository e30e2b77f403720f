"""Bytes as text that can be read, printed anywhere, and turned back: one form for each key.

Tokens of byte-level vocabularies need not be valid UTF-8, and a replacement character would make
different tokens look alike. So a byte that is no part of a printable character is written
`<0xE4>`; a space is `␣`, so that it shows at either end; and whatever in a token's own text looks
like one of these is written in bytes as well.
"""

from __future__ import annotations

import re
import unicodedata

SPACE = "␣"
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
"""Categories that do not show or that change how a line shows; spaces other than the usual one."""

_MARK = re.compile(r"<0x([0-9A-F]{2})>")


def display(key: bytes) -> str:
    """The form of `key`: `display(b" caf\\xc3\\xa9\\n")` is "␣café<0x0A>"."""
    if key.isascii() and (text := key.decode("ascii")).isprintable():
        if "<" not in text:
            return text.replace(" ", SPACE)
    else:
        # Bytes that are no UTF-8 come as surrogates, one each.
        text = key.decode("utf-8", errors="surrogateescape")
    parts = []
    for at, character in enumerate(text):
        if character == " ":
            parts.append(SPACE)
        elif _written_out(character, text, at):
            raw = character.encode("utf-8", errors="surrogateescape")
            parts.append("".join(f"<0x{byte:02X}>" for byte in raw))
        else:
            parts.append(character)
    return "".join(parts)


def _written_out(character: str, text: str, at: int) -> bool:
    if character == "<":
        # It would be read as a byte. (A row's number, "<id 5>", holds a space, and no form does.)
        return text.startswith("<0x", at)
    # A combining mark at the front would sit on whatever is printed before it.
    return (
        character in (SPACE, "\ufffd")
        or unicodedata.category(character) in _HIDDEN
        or (at == 0 and unicodedata.category(character).startswith("M"))
    )


def parse(shown: str) -> bytes:
    """The key of a form: `parse(display(key)) == key`."""
    parts = []
    end = 0
    for mark in _MARK.finditer(shown):
        parts += [_plain(shown[end : mark.start()]), bytes([int(mark[1], 16)])]
        end = mark.end()
    return b"".join([*parts, _plain(shown[end:])])


def _plain(text: str) -> bytes:
    return text.replace(SPACE, " ").encode("utf-8", errors="surrogateescape")
