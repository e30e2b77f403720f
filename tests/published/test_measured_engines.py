"""Our rows beside what the engines' own models had, for each file that was given to both.

`engines.json` holds small configurations and what was read out of each engine's model built from
it: inverse frequencies, factor on cos and sin, layout, rows of its table, softmax scales, or the
error it stopped with. It was made outside this package; `python -m atlas.engines.measured` prints
the pairs that our rows miss.
"""

from __future__ import annotations

import pytest

from atlas.engines.measured import EXPLAINED, ROWS, Pair, missed, pairs

PAIRS = list(pairs())


def test_all_engines_with_measurements_have_a_row() -> None:
    assert {pair.engine for pair in PAIRS} == {*ROWS}
    assert len(PAIRS) > 300


@pytest.mark.parametrize("engine", sorted(ROWS))
def test_rows_say_what_was_measured(engine: str) -> None:
    told = {
        pair.key: why
        for pair in PAIRS
        if pair.engine == engine and pair.key not in EXPLAINED and (why := missed(pair))
    }
    assert told == {}


def test_the_rest_is_at_most_one_in_a_hundred_and_still_missed() -> None:
    rest = [pair for pair in PAIRS if pair.key in EXPLAINED]
    assert {pair.key for pair in rest} == {*EXPLAINED}
    assert len(rest) <= len(PAIRS) / 100
    assert all(missed(pair) for pair in rest), "an explained pair is right: take it out"


def test_a_pair_that_differs_would_be_seen() -> None:
    right = next(p for p in PAIRS if p.key == "mlx_lm_0.32.2 llama_yarn_v5")
    # The same measurement said of another file: a base alone is no YaRN.
    assert missed(right) == ""
    assert missed(Pair(right.engine, "llama_yarn", right.config("llama_yarn"), right.measured))
