"""Groups of tokens by what their text looks like."""

from __future__ import annotations

import pytest

from ropewalk.tables.vocabulary import Shape, Token, TokenKind, from_pairs, shape_of


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (" the", Shape.SPACED),
        ("ing", Shape.WORD),
        ("café", Shape.WORD),
        (" 42", Shape.NUMBER),
        ("²", Shape.NUMBER),
        ("...", Shape.SIGN),
        ("##", Shape.SIGN),
        (" мир", Shape.OTHER),
        ("世界", Shape.OTHER),
        ("\n\n", Shape.BLANK),
        ("   ", Shape.BLANK),
        ("\x1b", Shape.BLANK),
    ],
)
def test_text_is_told_by_its_letters(text: str, shape: Shape) -> None:
    assert shape_of(Token(text.encode(), TokenKind.TEXT, text)) is shape


def test_kinds_and_broken_characters_have_groups_of_their_own() -> None:
    assert shape_of(None) is Shape.NONE
    assert shape_of(Token(b"\xe4\xbd", TokenKind.TEXT, "")) is Shape.BROKEN
    assert shape_of(Token(b"A", TokenKind.BYTE, "<0x41>")) is Shape.BYTE
    assert shape_of(Token(b"</s>", TokenKind.SPECIAL, "</s>")) is Shape.SPECIAL
    assert shape_of(Token(b"[unused1]", TokenKind.UNUSED, "[unused1]")) is Shape.UNUSED


def test_wordpiece_marks_what_goes_on_with_a_word() -> None:
    pieces = [Token(b"play", TokenKind.TEXT, "play"), Token(b"##ing", TokenKind.TEXT, "##ing")]
    words = from_pairs(enumerate(pieces), "vocab.txt", "wordpiece")
    assert [shape_of(p, words) for p in pieces] == [Shape.SPACED, Shape.CONTINUED]
