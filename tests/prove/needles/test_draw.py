"""Facts of one document are unlike each other, and nothing but the fact says its value."""

from __future__ import annotations

import re
from itertools import combinations, islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.prove.haystack import GeneratedHaystack
from ropewalk.prove.needles.draw import draw_facts
from ropewalk.prove.needles.kinds import KINDS, SUBJECTS

FORMS = {
    "pass key": r"[1-9]\d{4}",
    "phone number": r"\d{3}-\d{4}",
    "year": r"1[5-8]\d\d",
    "price": r"\$\d\d\.\d5",
    "time": r"\d{1,2}:[0-5]\d",
    "birthday": r"[A-Z][a-z]+ \d{1,2}",
    "licence plate": r"[A-Z]{2}-\d{3}-[A-Z]{2}",
    "weight": r"\d{3} pounds",
    "room": r"[A-Z]\d\d",
}
"""Told apart by form; the other kinds' values are words, each kind's of its own."""


@given(st.integers(0, 10**6), st.integers(2, 150))
def test_no_fact_names_the_key_or_the_value_of_another(seed: int, count: int) -> None:
    facts = list(islice(draw_facts(Random(seed)), count))
    for one, other in combinations(facts, 2):
        assert one.key not in other.sentence.replace(other.key, "")
        assert one.key != other.key
        assert one.value not in other.value
        assert other.value not in one.value
        assert one.value not in other.question


@given(st.integers(0, 10**6))
def test_the_first_facts_differ_in_kind_and_in_how_their_subjects_begin(seed: int) -> None:
    facts = list(islice(draw_facts(Random(seed)), 60))
    for begin in range(60 - len(KINDS)):
        window = facts[begin : begin + 8]
        assert len({fact.kind.noun for fact in window}) == len(window)
    assert len({fact.key[:2] for fact in facts}) == len(facts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)
def test_a_value_shows_its_kind_by_its_form(kind: object) -> None:
    assert kind in KINDS
    random = Random(3)
    drawn = [next(k for k in KINDS if k is kind).draw(random) for _ in range(300)]
    noun = next(k.noun for k in KINDS if k is kind)
    for value in drawn:
        matching = [name for name, form in FORMS.items() if re.fullmatch(form, value)]
        assert matching == ([noun] if noun in FORMS else [])
    assert len(set(drawn)) >= 15


def test_saying_asking_and_opening_are_about_the_same_key() -> None:
    for kind in KINDS:
        assert kind.saying.count("{key}") == kind.asking.count("{key}") == 1
        # Said with the words with which the answer begins: a base model goes on from there.
        assert kind.saying == f"{kind.opening} {{value}}."
        assert "{value}" not in kind.asking
    assert len({kind.noun for kind in KINDS}) == len(KINDS)
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
        assert not [value for value in values if re.search(rf"\b{re.escape(value)}\b", text)]
