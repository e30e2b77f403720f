"""Two run folders, written as a run writes them, compared on the prompts they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ropewalk.errors import StoreError
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row, Sharing
from ropewalk.proof.diff import KeptRun, compare
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.statistics.paired import holm
from ropewalk.proof.store import Store

FACTS = {"model": "aa", "schedule": "bb", "tokenizer": "cc", "name": "m", "rope": "as shipped"}
DEPTHS = (0.0, 0.5, 1.0)
Kept = Sequence[tuple[Row, str]]


def grid(
    outcome_of: Callable[[Cell], Outcome],
    surer: float = 0.0,
    identity: str = "a",
    sharing: Sharing = Sharing.NONE,
) -> list[tuple[Row, str]]:
    """Two lengths, three depths, ten trials; the hashes differ by run as the models' do."""
    noise = np.random.default_rng(9 if identity == "a" else 10)
    rows = []
    for length in (512, 1024):
        for depth in DEPTHS:
            for trial in range(10):
                cell = Cell(length, depth, trial)
                answer = Answer(outcome_of(cell), -1 + surer + noise.normal(0, 0.2), "x", 0.1)
                row = Row(cell, length, depth, "key", "value", answer, f"{identity}{cell}", sharing)
                rows.append((row, f"prompt of {cell}"))
    return rows


def kept(folder: str, rows: Kept, **facts: str) -> KeptRun:
    """What `KeptRun.read` finds in a folder with these rows; any digest of the text serves."""
    return KeptRun(folder, FACTS | facts, tuple(rows))


def hit(_: Cell) -> Outcome:
    return Outcome.HIT


def long_miss(cell: Cell) -> Outcome:
    return Outcome.MISS if cell.length == 1024 and cell.trial < 6 else Outcome.HIT


def test_what_only_one_run_finds_is_counted_and_tested_where_it_is() -> None:
    a = kept("a", grid(hit))
    b = kept("b", grid(long_miss, identity="b"), schedule="dd", rope="linear:4")
    found = compare(a, b)
    whole = found.overall
    assert (whole.both, whole.only_a, whole.only_b, whole.neither) == (42, 18, 0, 0)
    assert [(part.length, part.only_a) for part in found.lengths] == [(512, 0), (1024, 18)]
    assert [(part.depth, part.only_a) for part in found.depths] == [(0.0, 6), (0.5, 6), (1.0, 6)]
    assert ("schedule", "bb", "dd") in found.differing
    assert ("rope", "as shipped", "linear:4") in found.differing
    assert [part.significant for part in found.lengths] == [False, True]
    assert "A finds more" in found.sentence
    assert "They differ at 1,024 tokens" in found.sentence


def test_p_values_are_scipys_corrected_within_their_family() -> None:
    a = kept("a", grid(hit))
    b = kept("b", grid(long_miss, identity="b"))
    found = compare(a, b)
    exact = stats.binomtest(18, 18).pvalue
    differences = [
        row.answer.log_probability - other.answer.log_probability
        for (row, _), (other, _) in zip(grid(hit), grid(long_miss, identity="b"), strict=True)
        if row.answer.log_probability is not None and other.answer.log_probability is not None
    ]
    student = stats.ttest_1samp(differences, 0.0)
    assert found.overall.p_outcomes == pytest.approx(holm([exact, student.pvalue])[0], rel=1e-6)
    mean = found.overall.difference
    assert mean is not None
    interval = student.confidence_interval()
    assert mean.low == pytest.approx(interval.low, rel=1e-6)
    assert mean.high == pytest.approx(interval.high, rel=1e-6)
    # Ten tests make up the family of two lengths and three depths.
    assert found.lengths[1].p_outcomes == pytest.approx(10 * exact, rel=1e-6)


def test_a_run_that_is_surer_without_finding_more_is_said_to_be() -> None:
    a = kept("a", grid(hit, surer=0.3))
    b = kept("b", grid(hit, identity="b"))
    found = compare(a, b)
    assert "no difference in what is found beyond chance" in found.sentence
    assert "A is surer of the value, by 0.3" in found.sentence


def test_equal_runs_do_not_differ() -> None:
    found = compare(kept("a", grid(hit)), kept("b", grid(hit)))
    assert (found.differing, found.overall.p_outcomes, found.overall.p_difference) == ((), 1, 1)
    assert not found.overall.significant


def test_prompts_that_only_one_run_asked_are_left_out_and_counted() -> None:
    other = grid(hit, identity="b")
    other[0] = (other[0][0], "another text of the same cell")
    other[1] = (replace(other[1][0], value="another"), other[1][1])
    del other[2]
    control = replace(other[3][0], cell=Cell(512, 0.0, 0, Control.NO_NEEDLE), prompt_hash="c")
    other.append((control, "a control"))
    found = compare(kept("a", grid(hit)), kept("b", other))
    assert found.overall.pairs == 57
    assert (found.unpaired_a, found.unpaired_b, found.other_prompt) == (3, 2, 2)


def test_answers_that_say_nothing_are_left_out_and_counted() -> None:
    other = grid(hit, identity="b")
    for i, outcome in enumerate((Outcome.OVERFLOW, Outcome.REFUSED, Outcome.ERROR)):
        row, text = other[i]
        other[i] = (replace(row, answer=replace(row.answer, outcome=outcome)), text)
    row, text = other[3]
    other[3] = (replace(row, answer=replace(row.answer, log_probability=None)), text)
    found = compare(kept("a", grid(hit)), kept("b", other))
    # An ERROR is no answer, and so that prompt was not asked.
    assert (found.unjudged, found.unpaired_a, found.overall.pairs) == (2, 1, 57)
    assert found.without_number == 1


def test_questions_of_one_document_count_as_one() -> None:
    def two_documents(cell: Cell) -> Outcome:
        return Outcome.MISS if cell.trial < 2 else Outcome.HIT

    nested = Sharing.BRANCHES
    a = kept("a", grid(hit, sharing=nested))
    b = kept("b", grid(two_documents, identity="b", sharing=nested))
    found = compare(a, b)
    assert found.by_document
    assert found.overall.only_a == 12
    # Twelve misses of two documents: two coins, not twelve.
    assert found.overall.p_outcomes == pytest.approx(2 * stats.binomtest(2, 2).pvalue, abs=1e-9)
    mean = found.overall.difference
    assert mean is not None
    assert mean.count == 10


def test_runs_without_a_shared_prompt_are_refused_in_one_sentence() -> None:
    others = [(row, f"{text}, other seed") for row, text in grid(hit)]
    with pytest.raises(StoreError, match="share no prompt"):
        compare(kept("a", grid(hit)), kept("b", others))


def test_a_run_is_read_from_its_folder_as_it_was_kept(tmp_path: Path) -> None:
    rows, facts = grid(hit)[:5], RunFacts(model="m", sharing=Sharing.NONE, name="tiny")
    for name in "ab":
        with Store.open(tmp_path / name, facts) as store:
            for row, text in rows:
                store.add(row, text)
    read = KeptRun.read(tmp_path / "a")
    assert [row for row, _ in read.rows] == sorted((row for row, _ in rows), key=lambda r: r.cell)
    assert read.facts == facts.said()
    assert compare(read, KeptRun.read(tmp_path / "b")).overall.both == 5


def few_documents(count: int, surer: float) -> tuple[KeptRun, KeptRun]:
    """Two nested runs over `count` documents; A finds all and is surer, B finds nothing."""

    def part(rows: list[tuple[Row, str]]) -> list[tuple[Row, str]]:
        return [each for each in rows if each[0].cell.trial < count]

    a = kept("a", part(grid(hit, surer=surer, sharing=Sharing.BRANCHES)))
    b = kept("b", part(grid(lambda _: Outcome.MISS, identity="b", sharing=Sharing.BRANCHES)))
    return a, b


@pytest.mark.parametrize("count", range(1, 11))
def test_too_few_documents_say_that_p_cannot_fall_and_how_many_could(count: int) -> None:
    """Sign flips of n documents are 2^n: two of them are as far out as what was seen."""
    found = compare(*few_documents(count, 3.0))
    assert found.overall.units == count
    floor = 2 / 2**count
    assert found.overall.p_outcomes == pytest.approx(min(1, 2 * floor))
    # Two tests over all pairs: 2 x 2 / 2^7 is the first below 0.05.
    assert found.overall.significant == (count >= 7)
    said = found.sentence
    assert ("no difference can be told from chance" in said) == (count < 7)
    if count < 7:
        assert f"p is {floor:.2g}, and {min(1, 2 * floor):.2g} corrected for 2 tests" in said
        assert "from 7 documents on" in said
    # One document has no interval; the others have one without 0, beside a p that is large.
    assert found.overall.interval_without_zero == (count > 1)
    assert ("does not hold 0 all the same" in said) == (1 < count < 7)
    # Two lengths and three depths: 10 x 2 / 2^9 is the first below 0.05.
    assert any(part.significant for part in (*found.lengths, *found.depths)) == (count >= 9)
    assert ("by themselves (10 tests) can be told apart from 9 documents" in said) == (
        7 <= count < 9
    )


def test_an_interval_without_zero_beside_a_large_p_is_always_explained() -> None:
    seen = 0
    for shift in np.linspace(0, 0.12, 25):
        found = compare(kept("a", grid(hit, surer=shift)), kept("b", grid(hit, identity="b")))
        unexplained = found.overall.interval_without_zero and found.overall.p_difference >= 0.05
        assert ("not corrected for 2 tests" in found.sentence) == unexplained
        seen += unexplained
    assert seen


def test_runs_that_find_equally_much_are_never_set_above_each_other() -> None:
    def other(cell: Cell) -> Outcome:
        return Outcome.MISS if cell.trial == 1 else Outcome.HIT

    def one(cell: Cell) -> Outcome:
        return Outcome.MISS if cell.trial == 2 else Outcome.HIT

    for sharing in (Sharing.NONE, Sharing.BRANCHES):
        a = kept("a", grid(one, sharing=sharing))
        b = kept("b", grid(other, identity="b", sharing=sharing))
        assert "finds more" not in compare(a, b).sentence
