"""Facts of one document are unlike each other, and nothing but the fact says its value."""

from __future__ import annotations

import re
from itertools import combinations, islice
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.needles import draw_facts
from ropewalk.proof.words import KINDS, SUBJECTS, WORDS, FactKind


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 130))
def test_no_fact_names_the_key_or_the_value_of_another(seed: int, count: int) -> None:
    facts = list(islice(draw_facts(Random(seed)), count))
    for one, other in combinations(facts, 2):
        assert not word(one.key, other.sentence)
        assert not word(other.key, one.sentence)
        assert not word(one.value, other.value)
        assert not word(other.value, one.value)
        assert not word(one.value, other.question)


def word(text: str, within: str) -> bool:
    """By the regular expressions' idea of a word."""
    # Most texts do not hold it at all, which is said in no time.
    return text.casefold() in within.casefold() and bool(
        re.search(rf"(?<!\w){re.escape(text)}(?!\w)", within, re.IGNORECASE)
    )


def test_no_question_says_its_own_answer() -> None:
    """Subjects are words of a kind at times: chef Ginger's spice must not be ginger."""
    for seed in range(150):
        for fact in islice(draw_facts(Random(seed)), 60):
            assert not word(fact.value, f"{fact.question} {fact.opening}")


def test_a_value_within_a_longer_word_takes_no_fact_away() -> None:
    """Substrings would: neck in necklace, and the facts of a document would be other ones."""
    drawn = [list(islice(draw_facts(Random(seed)), 80)) for seed in range(60)]
    pairs = [
        (one.value, other.value)
        for facts in drawn
        for one, other in combinations(facts, 2)
        if one.value in other.value or other.value in one.value
    ]
    assert pairs
    assert not [pair for pair in pairs if word(*pair) or word(*reversed(pair))]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_the_first_facts_differ_in_kind_and_in_how_their_subjects_begin(seed: int) -> None:
    facts = list(islice(draw_facts(Random(seed)), 60))
    for begin in range(61 - len(KINDS)):
        window = facts[begin : begin + len(KINDS)]
        assert len({fact.kind.noun for fact in window}) == len(window)
    assert len({fact.key[:2] for fact in facts}) == len(facts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_a_value_shows_its_kind_by_its_form_or_its_word(kind: FactKind) -> None:
    random = Random(3)
    drawn = {kind.draw(random) for _ in range(400)}
    assert len(drawn) >= 7
    for other in KINDS:
        if other is not kind:
            assert not drawn & {other.draw(random) for _ in range(400)}


def test_no_word_is_of_two_kinds() -> None:
    words = [word for several in WORDS.values() for word in several.split()]
    assert sorted(words) == sorted(set(words))


def test_question_and_opening_are_about_the_same_key() -> None:
    for kind in KINDS:
        assert kind.opening.count("{key}") == kind.asking.count("{key}") == 1
        assert "{value}" not in kind.asking
    assert len({kind.noun for kind in KINDS}) == len(KINDS) > 50
    assert len({kind.opening for kind in KINDS}) == len(KINDS)
    assert len(set(SUBJECTS)) == len(SUBJECTS) >= 100


def test_the_same_state_draws_the_same_facts() -> None:
    one, other = (list(islice(draw_facts(Random(5)), 70)) for _ in range(2))
    assert one == other
    assert one != list(islice(draw_facts(Random(6)), 70))


def test_the_words_of_facts_are_rare_in_the_generated_haystack() -> None:
    sentences = GeneratedHaystack(Random(1)).sentences()
    text = " ".join(next(sentences) for _ in range(3000))
    for kind in KINDS:
        assert kind.opening.replace("{key}", "") not in text
        random = Random(2)
        values = {kind.draw(random) for _ in range(100)}
        held = [value for value in values if value in text]
        assert not [value for value in held if re.search(rf"\b{re.escape(value)}\b", text)]


def test_the_words_around_a_key_are_no_values() -> None:
    """A kind whose own words name the value of another could stand beside it in no document."""
    values = [value for several in WORDS.values() for value in several.split()]
    for kind in KINDS:
        for text in (kind.asking, kind.opening):
            assert not [value for value in (*values, *SUBJECTS) if word(value, text)]
