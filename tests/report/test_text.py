"""Text from models and files cannot move a terminal's cursor or reorder a line."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.report.text import clip, draws_glyphs, encodable, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("\x00", "\\x00"),
        ("\x9b2J", "\\x9b2J"),
        ("one\ntwo\t", "one\\x0atwo\\x09"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("lone \udc80", "lone \\udc80"),
        ("naïve 日本語 👩\u200d🚀", "naïve 日本語 👩\u200d🚀"),
    ],
)
def test_control_and_hidden_characters_become_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_that_unicode_calls_a_control_remains(text: str) -> None:
    assert not any(unicodedata.category(c) in {"Cc", "Cs"} for c in visible(text))


@given(st.text())
def test_lines_and_tabs_stay_when_asked_for(text: str) -> None:
    assert visible(text, newlines=True).count("\n") == text.count("\n")


def test_clipping_says_how_much_is_missing() -> None:
    assert clip("abc", 3) == "abc"
    assert clip("x" * 2003, 3) == "xxx ... (2,000 more characters)"


@given(st.text(), st.sampled_from(["ascii", "cp437", "latin-1", "cp1252", "utf-8"]))
def test_every_text_can_be_encoded_after_encodable(text: str, encoding: str) -> None:
    encodable(text, encoding).encode(encoding)


def test_only_encodings_with_blocks_and_lines_draw_them() -> None:
    assert draws_glyphs("utf-8")
    assert not draws_glyphs("ascii")
    assert not draws_glyphs("cp1252")
    assert not draws_glyphs("no such encoding")
