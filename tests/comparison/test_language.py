"""The language that is trained on: what it promises of words, names, values and distances."""

from __future__ import annotations

import numpy as np
import pytest

from ropewalk.comparison.language import FACT, NAME, VALUE, WORD, Language
from ropewalk.errors import LengthError

LANGUAGE = Language(words=10, names=6, values=5)


def test_every_name_keeps_its_value_and_distances_are_to_its_last_mention() -> None:
    streams = LANGUAGE.streams((3,), 8, 200)
    for tokens, kinds, distances in zip(
        streams.tokens, streams.kinds, streams.distances, strict=True
    ):
        values: dict[int, int] = {}
        last: dict[int, int] = {}
        for place in range(200):
            if kinds[place] == FACT:
                name, value = divmod(int(tokens[place]) - 21, 5)
                assert values.setdefault(name, value) == value
                last[name] = place
            if kinds[place] != VALUE:
                assert distances[place] == 0
                continue
            # What is asked for was told: as far back as its fact or its value stands in the row.
            assert kinds[place - 1] == NAME
            name = int(tokens[place - 1]) - 10
            assert tokens[place] == 16 + values[name]
            assert distances[place] == place - 1 - last[name]
            last[name] = place
        assert len(values) > 2


def test_every_name_that_comes_up_is_followed_by_its_value() -> None:
    kinds = LANGUAGE.streams((3,), 8, 200).kinds
    assert np.array_equal(kinds[:, :-1] == NAME, kinds[:, 1:] == VALUE)
    assert (kinds == NAME).sum() > 200


def test_facts_are_told_again_as_often_as_was_asked_for() -> None:
    for again in (0.2, 0.8):
        streams = Language(words=10, names=6, values=5, again=again).streams((4,), 64, 200)
        # Far into a stream every name was told, so that only `again` decides.
        late = streams.kinds[:, 150:]
        told, asked = (late == FACT).sum(), (late == NAME).sum()
        assert told / (told + asked) == pytest.approx(again, abs=0.05)


def test_tokens_lie_where_their_kind_has_its_place() -> None:
    streams = LANGUAGE.streams((4,), 16, 100)
    for kind, low, high in ((WORD, 0, 10), (NAME, 10, 16), (VALUE, 16, 21), (FACT, 21, 51)):
        found = streams.tokens[streams.kinds == kind]
        assert found.min() >= low
        assert found.max() < high
    assert LANGUAGE.spelled()[LANGUAGE.fact(2, 3)] == LANGUAGE.spelled()[12] + ":3"
    assert len(LANGUAGE.spelled()) == len(set(LANGUAGE.spelled())) == LANGUAGE.size == 51


def test_the_next_word_depends_on_the_two_before_it() -> None:
    streams = LANGUAGE.streams((5,), 64, 400)
    seen: dict[tuple[int, int], list[int]] = {}
    for tokens, kinds in zip(streams.tokens, streams.kinds, strict=True):
        words = tokens[kinds == WORD]
        for before, word, after in zip(words, words[1:], words[2:], strict=False):
            seen.setdefault((int(before), int(word)), []).append(int(after))
    assert all(len(set(after)) <= 4 for after in seen.values())
    # And of one word, more may follow when what stands before it is left open.
    by_word: dict[int, set[int]] = {}
    for (_, word), after in seen.items():
        by_word.setdefault(word, set()).update(after)
    assert max(map(len, by_word.values())) > 4


def test_streams_are_the_same_for_the_same_seed_and_others_for_another() -> None:
    one, again, other = (LANGUAGE.streams((seed,), 4, 50).tokens for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("distance", [1, 2, 20, 39])
def test_what_is_asked_was_told_once_and_at_its_distance(distance: int) -> None:
    asked = LANGUAGE.asked((6,), 40, 40, distance)
    for tokens, answer in zip(asked.tokens, asked.answers, strict=True):
        name = int(tokens[-1]) - 10
        told = 21 + 5 * name + np.arange(5)
        places = np.flatnonzero(np.isin(tokens, told))
        assert len(places) == 1
        assert 39 - places[0] - distance in (0, 1)
        assert tokens[places[0]] == told[answer - 16]
        assert np.flatnonzero(tokens == tokens[-1]).tolist() == [39]
        # No pair was torn: what follows a name is a value, but for the name that asks.
        names = np.flatnonzero((tokens >= 10) & (tokens < 16))[:-1]
        assert np.isin(tokens[names + 1], np.arange(16, 21)).all()


@pytest.mark.parametrize("distance", [0, 40])
def test_a_distance_that_does_not_fit_is_refused(distance: int) -> None:
    with pytest.raises(LengthError, match="1 to 39 can be"):
        LANGUAGE.asked((6,), 4, 40, distance)
