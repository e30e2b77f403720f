"""Whole words, held against regular expressions, other scripts and real sentences."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.proof.classify import begins_with, gives_away, names, normalise
from ropewalk.proof.words import SUBJECTS, WORDS

PLAIN = [word for words in WORDS.values() for word in words.split()] + list(SUBJECTS)


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("The bells of Leatramfield rang.", "tram"),
        ("A carpenter came by.", "carp"),
        ("They left Waceash before noon.", "ash"),
        ("It cost 51234 in all.", "1234"),
        ("It cost 12345 in all.", "1234"),
        ("room B123", "B12"),
        ("3,000 ships", "3"),
        ("12,345,678 pounds", "345"),
        ("12.5 per cent", "12"),
        ("12.5 per cent", "5"),
        ("$45.355", "$45.35"),
        ("le café", "caf"),
        ("le cafe\u0301", "cafe"),
        ("Čárek", "árek"),
        ("रामायण", "राम"),
        ("Straßenbahn", "Straße"),
        ("タイヤ", "タイ"),
        ("nothing at all", "$"),
        ("nothing at all", ""),
    ],
)
def test_what_is_part_of_something_longer_is_not_named(text: str, phrase: str) -> None:
    assert not names(text, phrase)
    assert not gives_away(text, (phrase,))


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("We took the tram.", "tram"),
        ("TRAM!", "tram"),
        ("(carp)", "carp"),
        ("the museum of York's friends", "York"),
        ("the museum of York’s friends", "York"),
        ("a tram-driver", "tram"),
        ("“Violin”", "violin"),
        ("It was 1234.", "1234"),
        ("1234, 5678", "1234"),
        ("40718,52936", "52936"),
        ("It costs $45.35.", "$45.35"),
        ("at 9:30, on March 5", "March 5"),
        ("KX\u2013417\u2013QD", "KX-417-QD"),
        ("write to r21@post.org today", "r21@post.org"),
        ("in C++, of course", "C++"),
        ("three ships", "3"),
        ("A STRASSE", "straße"),
        ("le cafe\u0301", "café"),
        ("राम ने कहा", "राम"),
        ("我在北京住。", "北京"),
        ("2024年", "2024"),
        ("서울은 크다", "서울"),
        ("เขาอยู่กรุงเทพมานาน", "กรุงเทพ"),
        ("タイへ行く", "タイ"),
        ("New  York\nagain", "new york"),
    ],
)
def test_what_stands_as_a_whole_is_named(text: str, phrase: str) -> None:
    assert names(text, phrase)
    assert gives_away(text, ("nothing", phrase))


@pytest.mark.parametrize(
    ("text", "word"),
    [("Two trams.", "tram"), ("Lilies grew.", "lily"), ("Ashes fell.", "ash"), ("wasps", "wasp")],
)
def test_a_plural_gives_a_word_away_and_is_no_answer(text: str, word: str) -> None:
    assert gives_away(text, (word,))
    assert not names(text, word)


def test_no_value_or_subject_is_named_by_a_word_that_it_is_grown_into() -> None:
    """A sweep over words that hold another: letters before it, behind it, on both sides."""
    for word, (before, behind) in product(PLAIN, [("q", ""), ("", "qu"), ("Lea", "field")]):
        text = f"They saw {before}{word}{behind} from afar."
        assert not gives_away(text, (word,))
        assert gives_away(f"{text} It was {word.upper()}.", (word,))


@settings(deadline=None)
@given(st.text("ab1 .'-é", max_size=12), st.text("ab1é", min_size=1, max_size=3))
def test_without_numbers_in_numbers_it_is_the_word_of_regular_expressions(
    text: str, phrase: str
) -> None:
    flat, wanted = normalise(text), normalise(phrase)
    if re.search(r"\d[.,]\d", flat):
        return
    found = re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", flat)
    assert names(text, phrase) == bool(found)
    assert begins_with(text, phrase) == bool(re.match(rf"{re.escape(wanted)}(?!\w)", flat))


def test_an_answer_that_begins_with_more_than_the_phrase_does_not_begin_with_it() -> None:
    assert begins_with(" tram, he said", "tram")
    assert begins_with("北京。", "北京")
    for text in ("trams", "tramway", "the tram", "北京大学", "रामायण", "12.5"):
        assert not any(begins_with(text, each) for each in ("tram", "北京", "राम", "12"))
