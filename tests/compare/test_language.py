"""The language that is trained on: what it promises of words, names, values and distances."""

from __future__ import annotations

import numpy as np
import pytest

from ropewalk.compare.language import NAME, VALUE, WORD, Language
from ropewalk.errors import LengthError

LANGUAGE = Language(words=10, names=6, values=5)


def test_every_name_keeps_its_value_and_distances_are_to_its_last_mention() -> None:
    streams = LANGUAGE.streams((3,), 8, 200)
    for tokens, kinds, distances in zip(
        streams.tokens, streams.kinds, streams.distances, strict=True
    ):
        values: dict[int, int] = {}
        last: dict[int, int] = {}
        for place in range(1, 200):
            if kinds[place] != VALUE:
                assert distances[place] == 0
                continue
            name = int(tokens[place - 1])
            assert kinds[place - 1] == NAME
            assert values.setdefault(name, int(tokens[place])) == tokens[place]
            # Told again: as far back as the same name stands in the row, found by searching.
            assert distances[place] == (place - 1 - last[name] if name in last else 0)
            last[name] = place - 1
        assert len(values) > 2


def test_tokens_lie_where_their_kind_has_its_place() -> None:
    streams = LANGUAGE.streams((4,), 16, 100)
    for kind, low, high in ((WORD, 0, 10), (NAME, 10, 16), (VALUE, 16, 21)):
        found = streams.tokens[streams.kinds == kind]
        assert found.min() >= low
        assert found.max() < high
    assert len(LANGUAGE.spelled()) == len(set(LANGUAGE.spelled())) == LANGUAGE.size == 21


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


@pytest.mark.parametrize("distance", [2, 3, 20, 38])
def test_what_is_asked_was_told_once_and_at_its_distance(distance: int) -> None:
    asked = LANGUAGE.asked((6,), 40, 40, distance)
    for tokens, answer in zip(asked.tokens, asked.answers, strict=True):
        places = np.flatnonzero(tokens == tokens[-1])
        assert len(places) == 2
        assert places[1] == 39
        assert places[1] - places[0] - distance in (0, 1)
        assert tokens[places[0] + 1] == answer
        # No pair was torn: what follows a name is a value, but for the name that asks.
        names = np.flatnonzero((tokens >= 10) & (tokens < 16))[:-1]
        assert (tokens[names + 1] >= 16).all()


@pytest.mark.parametrize("distance", [1, 39])
def test_a_distance_that_does_not_fit_is_refused(distance: int) -> None:
    with pytest.raises(LengthError, match="2 to 38 can be"):
        LANGUAGE.asked((6,), 4, 40, distance)
