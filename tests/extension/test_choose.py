"""The choice from what was measured: who is asked on, who is written, and why."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.extension.choose import choose, measure, paired
from ropewalk.extension.neighbour import SelfExtend
from ropewalk.extension.score import SHIPPED, Candidate, Grid, Score
from ropewalk.proof.cells import Answer, Cell, Outcome, Row

SPEC = read_config(
    {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
    }
)


def row(trial: int, depth: float, value: float) -> Row:
    outcome = Outcome.HIT if value > -1 else Outcome.MISS
    answer = Answer(outcome, value, "", 0.1)
    return Row(Cell(1024, depth, trial), 1024, depth, "k", "v", answer, f"{trial}/{depth}")


def score(name: str, values: list[float], change: float = 0.0, **more: Any) -> Score:
    rows = tuple(row(index // 2, (index % 2) / 2, value) for index, value in enumerate(values))
    return Score(Candidate(name, SPEC, **more), rows, 2.0 * (1 + change), change)


def test_most_hits_win_and_equal_ones_are_told_apart_by_log_probability() -> None:
    found = choose(
        [
            score(SHIPPED, [-0.1] * 4),
            score("linear", [-9.0, -0.1, -9.0, -9.0]),
            score("yarn", [-0.2, -0.3, -0.2, -0.3]),
            score("base", [-0.5, -0.6, -0.7, -0.6]),
        ]
    )
    assert found.score is not None
    assert found.score.name == "yarn"
    assert found.why[0].startswith("yarn: 4 of 4 facts found")
    assert "The next is base with 4 of 4" in found.why[1]
    assert "2 documents" in found.why[1]


def test_a_schedule_that_costs_short_text_is_passed_over_and_named() -> None:
    found = choose(
        [score("linear", [-0.1] * 4, change=0.5), score("yarn", [-0.1, -0.1, -5.0, -5.0])]
    )
    assert found.score is not None
    assert found.score.name == "yarn"
    assert (
        "linear found 4 of the same 4 prompts, yarn 2, which chance may do; it costs short text "
        "+50.00%."
    ) in found.why


def test_where_every_schedule_costs_short_text_it_is_said() -> None:
    found = choose([score("linear", [-9.0] * 4, 0.5), score("yarn", [-0.1] * 4, 0.04)])
    assert found.score is not None
    assert found.score.name == "yarn"
    assert any("No schedule keeps the loss of short text within 2%" in line for line in found.why)


def test_what_cannot_be_written_is_never_chosen_and_never_hidden() -> None:
    how = SelfExtend(3, 64)
    found = choose(
        [
            score("self-extend", [-0.1] * 4, how=how, note="no file can hold it"),
            score("yarn", [-0.1, -9.0, -0.1, -9.0]),
        ]
    )
    assert found.score is not None
    assert found.score.name == "yarn"
    assert (
        "self-extend found 4 of the same 4 prompts, yarn 2, which chance may do; it cannot be "
        "written: no file can hold it."
    ) in found.why


HIT, MISS = -0.1, -9.0


@pytest.mark.parametrize("trials", [1, 2, 5, 8])
@pytest.mark.parametrize("apart", [-0.05, 0.0, 0.05])
def test_more_is_said_of_more_and_chance_is_named_wherever_it_could_do_it(
    trials: int, apart: float
) -> None:
    """Every pair of hit counts of two prompts a document, the second schedule not writable."""
    how = SelfExtend(3, 64)
    prompts = 2 * trials
    for mine, his in product(range(prompts + 1), repeat=2):
        values = [(HIT if i < mine else MISS) + apart for i in range(prompts)]
        others = [HIT if i < his else MISS for i in range(prompts)]
        found = choose(
            [score("self-extend", values, how=how, note="no file holds it"), score("yarn", others)]
        )
        said = [line for line in found.why if line.startswith("self-extend")]
        assert len(said) == (mine > his or (mine == his and apart > 0))
        for line in said:
            assert not re.search(r"\b(more|better|worse)\b", line)
            if mine == his:
                assert f"found as many as yarn, {mine} of the same {prompts} prompts" in line
            else:
                assert f"found {mine} of the same {prompts} prompts, yarn {his}" in line
                # Sign flips over documents: 2 / 2^n is below 0.05 from 6 documents on.
                differ = sum(values[i : i + 2] != others[i : i + 2] for i in range(0, prompts, 2))
                if apart == 0:
                    assert ("chance may do" in line) == (differ < 6)


def test_a_schedule_that_was_asked_fewer_prompts_is_not_set_against_more() -> None:
    how = SelfExtend(3, 64)
    found = choose(
        [
            score("self-extend", [HIT, HIT], how=how, note="no file holds it"),
            score("yarn", [HIT, HIT, MISS, MISS]),
        ]
    )
    assert (
        "self-extend found 2 of 2, where not all of the 4 prompts of yarn were asked; it cannot be "
        "written: no file holds it."
    ) in found.why


def test_the_next_best_is_told_apart_by_hits_or_by_log_probability_or_not_at_all() -> None:
    def said(one: list[float], other: list[float]) -> str:
        return choose([score("a", one), score("b", other)]).why[1]

    assert said([HIT] * 16, [MISS] * 16).endswith("8 documents).")
    assert said([HIT] * 4, [HIT - 0.01, HIT, HIT, HIT]).endswith("decide between the two.")
    assert "by one look, so that chance may decide" in said([HIT] * 2, [MISS] * 2)


def test_nothing_measured_is_nothing_chosen() -> None:
    found = choose([score("yarn", []), score(SHIPPED, [-0.1])])
    assert found.score is None
    assert "give more time" in found.why[0]
    partly = choose([score("yarn", [-0.1]), score("ntk", [])])
    assert any("for want of time: ntk" in line for line in partly.why)


def test_pairs_are_of_the_same_prompts_and_counted_by_document() -> None:
    one = [row(0, 0.0, -1.0), row(0, 0.5, -2.0), row(1, 0.0, -3.0)]
    other = [row(0, 0.0, -2.0), row(0, 0.5, -4.0), row(1, 0.0, -6.0), row(2, 0.0, -1.0)]
    found = paired(one, other)
    assert found is not None
    assert (found.count, found.value) == (2, 2.25)
    assert paired(one, []) is None


class MadeUp:
    """Stands for a bench: log-probabilities by name, and a note of who was asked how often."""

    spec = SPEC

    def __init__(self, values: dict[str, float]) -> None:
        self.values = values
        self.asked: list[tuple[str, int]] = []

    def short_loss(self, candidate: Candidate) -> float:
        return 2.0 if candidate.name == SHIPPED else 2.02

    def gaps(self, candidate: Candidate, target: int) -> float:
        assert target == 1024
        return self.values[candidate.name]

    def needles(self, candidate: Candidate, grid: Grid, deadline: float | None) -> tuple[Row, ...]:
        assert deadline in (None, 1e9)
        self.asked.append((candidate.name, grid.trials))
        value = self.values[candidate.name]
        return tuple(row(trial, depth, value) for trial in range(grid.trials) for depth in (0, 0.5))


def test_who_is_far_behind_is_asked_no_further() -> None:
    values = {SHIPPED: -20.0, "a": -0.1, "b": -0.2, "c": -0.3, "d": -7.0, "e": -8.0}
    bench: Any = MadeUp(values)
    entries = [Candidate(name, SPEC) for name in values]
    scores = measure(bench, entries, Grid((1024,), (0.0, 0.5), 3), None, lambda _: None)
    asked = {name: sum(each == name for each, _ in bench.asked) for name in values}
    assert asked == {SHIPPED: 1, "a": 3, "b": 3, "c": 3, "d": 1, "e": 1}
    told = {each.name: each.stopped for each in scores}
    assert told["d"] == "0 of 2 hits, the best had 2"
    assert told["a"] == ""
    assert scores[1].change == pytest.approx(0.01)


def test_where_nothing_is_found_the_three_nearest_go_on() -> None:
    values = {"a": -5.0, "b": -6.0, "c": -7.0, "d": -30.0}
    bench: Any = MadeUp(values)
    entries = [Candidate(name, SPEC) for name in values]
    measure(bench, entries, Grid((1024,), (0.0, 0.5), 2), None, lambda _: None)
    assert [name for name, trials in bench.asked if trials == 2] == ["a", "b", "c"]


def test_where_time_may_end_the_likeliest_are_asked_first() -> None:
    bench: Any = MadeUp({"a": -5.0, "b": -1.0, "c": -3.0})
    entries = [Candidate(name, SPEC) for name in bench.values]
    scores = measure(bench, entries, Grid((1024,), (0.0, 0.5), 1), 1e9, lambda _: None)
    assert [name for name, _ in bench.asked] == ["b", "c", "a"]
    assert [score.name for score in scores] == ["a", "b", "c"]
