"""The choice from what was measured: who is asked on, who is written, and why."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.extend.choose import choose, measure, paired
from ropewalk.extend.neighbour import SelfExtend
from ropewalk.extend.score import SHIPPED, Candidate, Grid, Score
from ropewalk.prove.cells import Answer, Cell, Outcome, Row

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
    assert any("linear found more, and costs short text +50.00%" in line for line in found.why)


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
    assert any("self-extend found more, and cannot be written" in line for line in found.why)


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
