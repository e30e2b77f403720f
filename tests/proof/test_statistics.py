import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.statistics.evidence import further_trials
from ropewalk.proof.statistics.intervals import Z, wilson
from ropewalk.proof.statistics.tally import grid_of, summarise
from ropewalk.proof.statistics.verdicts import (
    AbsoluteThreshold,
    RelativeThreshold,
    Threshold,
    parse_threshold,
)
from ropewalk.proof.summary import RunSummary

LENGTHS = (2048, 8000, 12000)
DEPTHS = (0.0, 0.25, 0.5, 0.75, 0.9)


def a_row(cell: Cell, outcome: Outcome, log_probability: float | None = -0.5) -> Row:
    answer = Answer(outcome, log_probability, "text", 1.0)
    return Row(cell, cell.length, cell.depth, "key", "value", answer, repr(cell))


def column(length: int, text: str) -> list[Row]:
    """Rows of one length, "H", "M", "W", "O", "E" each, spread over the depths in turn."""
    names = {"T": Outcome.TRUNCATED} | {
        each.value[0]: each for each in Outcome if each.value[0] != "T"
    }
    return [
        a_row(Cell(length, DEPTHS[i % len(DEPTHS)], i // len(DEPTHS)), names[letter])
        for i, letter in enumerate(text)
    ]


def summed(
    rows: list[Row],
    *,
    trials: int = 4,
    threshold: Threshold = RelativeThreshold(),  # noqa: B008 - frozen
    claimed: int | None = 8192,
) -> RunSummary:
    return summarise(
        rows,
        lengths=LENGTHS,
        depths=DEPTHS,
        trials=trials,
        threshold=threshold,
        claimed_length=claimed,
    )


@pytest.mark.parametrize(
    ("hits", "judged", "low", "high"),
    [
        (1, 1, 0.207, 1),
        (3, 3, 0.439, 1),
        (10, 10, 0.722, 1),
        (9, 10, 0.596, 0.982),
        (20, 20, 0.839, 1),
        (50, 50, 0.929, 1),
        (100, 100, 0.963, 1),
        (450, 500, 0.871, 0.923),
    ],
)
def test_wilson_intervals_are_the_published_ones(
    hits: int, judged: int, low: float, high: float
) -> None:
    share = wilson(hits, judged)
    assert share.low == pytest.approx(low, abs=5.5e-4)
    assert share.high == pytest.approx(high, abs=5.5e-4)


@pytest.mark.parametrize(
    ("rate", "answers"), [(1.0, 23), (0.98, 23), (0.95, 47), (0.92, 105), (0.90, 233)]
)
def test_answers_needed_above_0_856_are_the_published_ones(rate: float, answers: int) -> None:
    assert further_trials(wilson(0, 0), rate, 0.856, 1) == answers


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_both_ends_solve_the_score_equation(counts: tuple[int, int]) -> None:
    hits, judged = counts
    share = wilson(hits, judged)
    for end in (share.low, share.high):
        left = (hits / judged - end) ** 2
        assert left == pytest.approx(Z * Z * end * (1 - end) / judged, rel=1e-6, abs=1e-12)
    assert share.low <= hits / judged <= share.high


def test_nothing_judged_could_be_anything() -> None:
    share = wilson(0, 0)
    assert (share.value, share.low, share.high) == (None, 0.0, 1.0)


@pytest.mark.parametrize(("hits", "judged"), [(2, 1), (-1, 3)])
def test_impossible_counts_are_refused(hits: int, judged: int) -> None:
    with pytest.raises(UsageError, match="impossible"):
        wilson(hits, judged)


def test_thresholds_are_relative_unless_said_otherwise() -> None:
    assert parse_threshold("0.85") == RelativeThreshold(0.85)
    assert parse_threshold("relative:0.9") == RelativeThreshold(0.9)
    assert parse_threshold(" absolute:0.7 ") == AbsoluteThreshold(0.7)


@pytest.mark.parametrize("text", ["", "85%", "abs:0.7", "nan", ":0.8", "absolute:", "absolute:x"])
def test_a_threshold_that_is_not_understood_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"absolute:0\.7 for a fixed accuracy"):
        parse_threshold(text)


@pytest.mark.parametrize("text", ["0", "1", "1.2", "-0.5", "absolute:1", "absolute:inf"])
def test_a_threshold_outside_0_to_1_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="between 0 and 1, ends excluded"):
        parse_threshold(text)


def test_full_marks_then_failure_is_a_certain_length() -> None:
    rows = column(2048, "H" * 25) + column(8000, "H" * 25) + column(12000, "M" * 25)
    found = summed(rows, trials=5)
    assert [c.verdict for c in found.columns] == ["passes", "passes", "fails"]
    assert (found.effective.certain, found.effective.possible) == (8000, 8000)
    assert found.effective.threshold == 0.85
    assert found.effective.threshold_rule == "0.85 of its own score at 2,048 tokens (25 of 25)"
    assert found.effective.sentence == (
        "Reads 8,000 tokens for certain and fails at 12,000 tokens (0 of 25); it claims 8,192."
    )


def test_twenty_hits_of_twenty_are_one_trial_a_cell_short_of_certain() -> None:
    # 20/20 has a published lower end of 0.839, below 0.85; 22 answers are enough.
    rows = column(2048, "H" * 20) + column(8000, "H" * 20) + column(12000, "M" * 20)
    effective = summed(rows).effective
    assert (effective.certain, effective.possible, effective.more_trials) == (None, 8000, 1)
    assert effective.sentence == (
        "Reads no length for certain, 8,000 tokens possibly, and fails at 12,000 tokens (0 of 20); "
        "it claims 8,192. Not enough trials to be certain of any length: about 1 more per cell if "
        "it goes on so (--trials 5)."
    )


def test_a_lucky_long_length_is_not_effective_beyond_a_failing_one() -> None:
    rows = column(2048, "H" * 25) + column(8000, "M" * 25) + column(12000, "H" * 25)
    effective = summed(rows, trials=5).effective
    assert (effective.certain, effective.possible) == (2048, 2048)


def test_a_rate_below_the_threshold_is_not_settled_by_more_trials() -> None:
    rows = column(2048, "H" * 25) + column(8000, ("H" * 4 + "M") * 5)
    effective = summed(rows, trials=5).effective
    assert (effective.certain, effective.possible, effective.more_trials) == (2048, 8000, 0)
    assert "at this rate more trials would not make it pass" in effective.sentence


def test_errors_and_overflows_do_not_count_in_accuracy() -> None:
    rows = column(2048, "H" * 15 + "E" * 5 + "O" * 5)
    found = summed(rows, trials=5)
    assert (found.columns[0].pooled.hits, found.columns[0].pooled.judged) == (15, 15)
    assert "At 2,048 tokens 5 of 25 did not fit." in found.effective.sentence


def test_a_length_that_never_fits_is_not_possible() -> None:
    rows = column(2048, "H" * 25) + column(8000, "H" * 25) + column(12000, "O" * 25)
    found = summed(rows, trials=5)
    assert found.columns[2].verdict == "fails"
    assert found.effective.possible == 8000
    assert "12,000 tokens did not fit" in found.effective.sentence


def test_a_length_of_errors_alone_is_undecided_and_ends_the_certain_part() -> None:
    rows = column(2048, "H" * 25) + column(8000, "E" * 25) + column(12000, "H" * 25)
    found = summed(rows, trials=5)
    assert [c.verdict for c in found.columns] == ["passes", "undecided", "passes"]
    assert (found.effective.certain, found.effective.possible) == (2048, 12000)


def test_a_model_that_finds_nothing_when_short_gives_no_relative_threshold() -> None:
    rows = column(2048, "M" * 25) + column(8000, "H" * 25)
    found = summed(rows, trials=5)
    effective = found.effective
    assert (effective.certain, effective.possible) == (None, None)
    assert effective.sentence.startswith("Found nothing at 2,048 tokens")
    # A bar of nothing is no bar: the longer length is not judged by it.
    assert [column.verdict for column in found.columns][:2] == ["fails", "undecided"]


def test_before_the_first_answer_nothing_is_said() -> None:
    found = summed([], claimed=None)
    assert len(found.cells) == 15
    assert found.effective.sentence == "No answers yet: nothing can be said; it claims no length."
    assert (found.effective.certain, found.effective.possible) == (None, None)


def test_a_run_cut_off_early_says_how_far_it_came() -> None:
    effective = summed(column(2048, "H" * 5) + column(8000, "H" * 5), trials=5).effective
    assert (effective.certain, effective.possible, effective.more_trials) == (None, 8000, 4)
    assert effective.sentence == (
        "Reads no length for certain; nothing failed up to 8,000, the longest of which an answer "
        "was judged; the claim of 8,192 was not reached. Not enough answers yet to be certain of "
        "any length: finishing the run may do. Not finished: 10 of 75 answers so far."
    )


def test_the_worst_depth_has_its_own_interval() -> None:
    rows = [a_row(Cell(2048, depth, i), Outcome.HIT) for depth in DEPTHS for i in range(4)]
    rows[8] = a_row(rows[8].cell, Outcome.WRONG)
    worst = summed(rows).columns[0]
    assert worst.worst_depth == 0.5
    assert worst.worst == wilson(3, 4)


def test_rows_outside_the_grid_asked_about_stay_out() -> None:
    rows = [*column(2048, "H" * 20), *column(4096, "M" * 20), a_row(Cell(2048, 0, 9), Outcome.MISS)]
    assert summed(rows).columns[0].pooled == wilson(20, 20)
    assert grid_of(rows) == ((2048, 4096), DEPTHS, 10)


def test_controls_are_read_in_words() -> None:
    rows = [
        a_row(Cell(0, 0, 0, Control.NEEDLE_ONLY), Outcome.MISS),
        a_row(Cell(2048, 0, 0, Control.NO_NEEDLE), Outcome.MISS),
        a_row(Cell(8000, 0, 0, Control.NO_NEEDLE), Outcome.HIT),
        a_row(Cell(8000, 1, 0, Control.END), Outcome.HIT),
    ]
    controls = summed(rows).controls
    assert [(c.name, c.length) for c in controls] == [
        ("needle-only", 0),
        ("no-needle", 2048),
        ("no-needle", 8000),
        ("end", 8000),
    ]
    once = "one trial says no more than that."
    assert [c.reading for c in controls] == [
        f"Asked once: not found alone, without a haystack; {once}",
        f"Asked once: not named without the needle in the text; {once}",
        f"Named without the needle in the text, once; {once}",
        f"Found at the end of the text, once; {once}",
    ]


def test_depth_one_in_the_grid_is_the_end_control() -> None:
    found = summarise(
        [a_row(Cell(2048, 1.0, 0), Outcome.HIT)],
        lengths=[2048],
        depths=[0.0, 1.0],
        trials=1,
        threshold=RelativeThreshold(),
    )
    assert [(c.name, c.share.hits) for c in found.controls] == [("end", 1)]


LETTERS = st.text("HMWOE", max_size=40)
THRESHOLDS = st.one_of(
    st.floats(0.05, 0.95).map(RelativeThreshold), st.floats(0.05, 0.95).map(AbsoluteThreshold)
)


def of_texts(texts: tuple[str, str, str]) -> list[Row]:
    return [row for n, text in zip(LENGTHS, texts, strict=True) for row in column(n, text)]


@given(st.tuples(LETTERS, LETTERS, LETTERS), THRESHOLDS)
def test_certain_is_never_beyond_possible(
    texts: tuple[str, str, str], threshold: Threshold
) -> None:
    effective = summed(of_texts(texts), trials=8, threshold=threshold).effective
    assert (effective.certain or 0) <= (effective.possible or 0)
    assert effective.sentence


@given(st.tuples(LETTERS, LETTERS, LETTERS), THRESHOLDS, st.data())
def test_a_miss_turned_into_a_hit_never_shortens_what_is_read(
    texts: tuple[str, str, str], threshold: Threshold, data: st.DataObject
) -> None:
    # At the shortest length a hit also raises a relative threshold, and may.
    free = [0, 1, 2] if isinstance(threshold, AbsoluteThreshold) else [1, 2]
    places = [(n, i) for n in free for i, letter in enumerate(texts[n]) if letter in "MW"]
    judged_first = set(texts[0]) & set("HMW")
    if not places or not judged_first:
        return
    n, i = data.draw(st.sampled_from(places))
    better = list(texts)
    better[n] = texts[n][:i] + "H" + texts[n][i + 1 :]
    before = summed(of_texts(texts), trials=8, threshold=threshold).effective
    after = summed(
        of_texts((better[0], better[1], better[2])), trials=8, threshold=threshold
    ).effective
    assert (after.certain or 0) >= (before.certain or 0)
    assert (after.possible or 0) >= (before.possible or 0)


@given(st.tuples(LETTERS, LETTERS, LETTERS), THRESHOLDS, st.integers())
def test_the_order_of_rows_is_irrelevant(
    texts: tuple[str, str, str], threshold: Threshold, seed: int
) -> None:
    rows = of_texts(texts)
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert summed(rows, trials=8, threshold=threshold) == summed(
        shuffled, trials=8, threshold=threshold
    )


@given(st.integers(1, 60), st.integers(1, 11))
def test_as_many_further_trials_as_said_are_enough_and_one_fewer_is_not(
    judged: int, depths: int
) -> None:
    more = further_trials(wilson(judged, judged), 1.0, 0.85, depths)
    assert more is not None
    # The published closed form at full marks: n / (n + z^2) above the bar.
    enough = math.ceil(0.85 * Z * Z / 0.15)
    assert judged + more * depths >= enough
    assert more == 0 or judged + (more - 1) * depths < enough


def test_answers_that_cannot_be_judged_leave_a_length_without_a_verdict() -> None:
    """20 of 21 judged is 95.2 %, 19 of 20 is 95 % and 18 of 19 is 94.7 %."""
    for judged, verdict in ((20, "passes"), (18, "undecided")):
        kinds = "T" + "H" * judged
        summary = summed(column(2048, kinds), trials=5, threshold=AbsoluteThreshold(0.5))
        assert summary.columns[0].verdict == verdict
        assert summary.columns[0].pooled.judged == judged
        sentence = summary.effective.sentence
        assert f"1 of {judged + 1} prompts were cut by the server" in sentence
    assert "Only 18 of 19 answers at 2,048 tokens could be judged" in sentence
    assert "--trials" not in sentence


@pytest.mark.parametrize("letter", ["T", "R", "O"])
def test_a_length_of_which_nothing_was_judged_is_never_certain(letter: str) -> None:
    summary = summed([*column(2048, "H" * 23), *column(8000, letter * 20)], trials=5)
    assert summary.effective.certain == 2048
    assert summary.columns[1].pooled.judged == 0
    # Only a prompt that the model cannot take says something of the model.
    assert summary.columns[1].verdict == ("fails" if letter == "O" else "undecided")


@pytest.mark.parametrize(("hits", "judged"), [(0, 1), (3, 3), (20, 20), (17, 25), (1, 400)])
def test_the_interval_is_that_of_scipy(hits: int, judged: int) -> None:
    ends = stats.binomtest(hits, judged).proportion_ci(0.95, method="wilson")
    ours = wilson(hits, judged)
    assert (ours.low, ours.high) == pytest.approx((ends.low, ends.high), abs=1e-6)
