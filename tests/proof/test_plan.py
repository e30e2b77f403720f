from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Cell, Control
from ropewalk.proof.plan import CostModel, make_plan, parse_depths, parse_lengths


def test_a_plan_cut_off_after_a_third_still_covers_the_whole_map() -> None:
    plan = make_plan([8000, 2048], [0.5, 0.0], trials=3, control_trials=0)
    first = plan.cells[: len(plan.cells) // 3]
    assert {(cell.length, cell.depth) for cell in first} == {
        (2048, 0.0),
        (2048, 0.5),
        (8000, 0.0),
        (8000, 0.5),
    }
    assert [cell.length for cell in first] == [2048, 2048, 8000, 8000]
    assert plan.tokens == 3 * 2 * (2048 + 8000)


def test_a_grown_plan_holds_every_cell_of_the_smaller_one() -> None:
    small = make_plan([2048], [0.0, 1.0], trials=2)
    large = make_plan([2048, 4096], [0.0, 0.5, 1.0], trials=5)
    assert set(small.cells) <= set(large.cells)


def test_the_bare_needle_comes_first_and_no_needle_only_at_the_shortest_length() -> None:
    plan = make_plan([64, 128], [0.5], trials=2)
    controls = [cell for cell in plan.cells if cell.control is not Control.NONE]
    assert plan.cells[0] == Cell(0, 0.0, 0, Control.NEEDLE_ONLY)
    assert [(cell.length, cell.control) for cell in controls[1:]] == [
        (64, Control.NO_NEEDLE),
        (64, Control.END),
        (128, Control.END),
    ]


def test_depth_one_in_the_grid_stands_for_the_end_control() -> None:
    plan = make_plan([64], [0.0, 1.0], trials=1)
    assert Control.END not in {cell.control for cell in plan.cells}


@pytest.mark.parametrize(
    ("lengths", "depths", "trials", "control_trials", "message"),
    [
        ([], [0.5], 1, 1, "no lengths"),
        ([64], [], 1, 1, "no depths"),
        ([64, 64], [0.5], 1, 1, "64 is given twice"),
        ([64], [0.5, 0.5], 1, 1, "50 % is given twice"),
        ([0], [0.5], 1, 1, "length of 0 tokens is impossible"),
        ([64], [1.01], 1, 1, "depth of 101 % is impossible: 0 .* to 100 %"),
        ([64], [float("nan")], 1, 1, "depth of nan % is impossible"),
        ([64], [0.5], 0, 1, "0 trials is impossible: at least 1"),
        ([64], [0.5], 1, 2, "2 control trials is impossible: 0 to 1"),
    ],
)
def test_an_impossible_plan_says_what_is_possible(
    lengths: list[int], depths: list[float], trials: int, control_trials: int, message: str
) -> None:
    with pytest.raises(LengthError, match=message):
        make_plan(lengths, depths, trials, control_trials)


def test_lengths_are_tokens_and_k_is_1024() -> None:
    assert parse_lengths("2048,8000,12000") == (2048, 8000, 12000)
    assert parse_lengths(" 32K, 4k") == (4096, 32768)
    assert parse_lengths("1M,1_000_000") == (1_000_000, 1024 * 1024)


@pytest.mark.parametrize("text", ["", "2048,", "4g", "-5", "2.5k", "1e3", "99999999999", "٣"])
def test_lengths_that_are_not_understood_say_how_to_write_them(text: str) -> None:
    with pytest.raises(LengthError, match="write whole tokens with commas between"):
        parse_lengths(text)


@pytest.mark.parametrize("text", ["0", "9999999999", "2048,2k"])
def test_impossible_lengths_are_refused(text: str) -> None:
    with pytest.raises(LengthError, match=r"impossible|twice"):
        parse_lengths(text)


def test_depths_are_percents_and_a_lone_number_is_a_count() -> None:
    assert parse_depths("100,0,25,50,75") == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert parse_depths("5") == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert parse_depths("50%") == (0.5,)
    assert parse_depths("12.5 %, 90") == (0.125, 0.9)


@given(st.integers(2, 101))
def test_counted_depths_hold_both_ends(count: int) -> None:
    depths = parse_depths(str(count))
    assert (len(set(depths)), depths[0], depths[-1]) == (count, 0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,101", "depth of 101 % is impossible"),
        ("-1,50", "depth of -1 % is impossible"),
        ("1", "2 to 101 can be; a single depth is written with a percent sign"),
        ("102", "102 evenly spaced depths"),
        ("0,,5", "write percents from 0 to 100"),
        ("half", "write percents from 0 to 100"),
        ("50,50%", "given twice"),
    ],
)
def test_depths_that_cannot_be_say_what_can(text: str, message: str) -> None:
    with pytest.raises(LengthError, match=message):
        parse_depths(text)


@given(st.floats(1e-6, 1.0), st.floats(0.0, 1e-4))
def test_the_cost_of_exact_measurements_is_recovered(linear: float, square: float) -> None:
    seen = [(n, linear * n + square * n * n) for n in (512, 2048, 8000, 12000)]
    fitted = CostModel().fit(seen)
    assert fitted.seconds(32000) == pytest.approx(linear * 32000 + square * 32000**2, rel=1e-3)


@given(st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1e6)), max_size=20))
def test_no_measurement_makes_a_cost_negative(seen: list[tuple[int, float]]) -> None:
    fitted = CostModel().fit(seen)
    assert fitted.per_token >= 0
    assert fitted.per_token_squared >= 0


def test_one_length_seen_is_met_and_keeps_the_shape() -> None:
    fitted = CostModel(1e-3, 1e-7).fit([(1000, 3.0), (1000, 5.0), (0, 9.0)])
    assert fitted.seconds(1000) == pytest.approx(4.0)
    assert fitted.per_token_squared / fitted.per_token == pytest.approx(1e-4)


def test_every_task_has_the_grid_and_the_controls_trial_by_trial() -> None:
    plan = make_plan((100, 200), (0.0, 0.5), 2, 1, ("single", "order"))
    alone = make_plan((100, 200), (0.0, 0.5), 2, 1)
    for task in plan.tasks:
        cells = [replace(cell, task="single") for cell in plan.cells if cell.task == task]
        assert tuple(cells) == alone.cells
    assert [cell.trial for cell in plan.cells] == sorted(cell.trial for cell in plan.cells)
    assert alone.tasks == ("single",)
