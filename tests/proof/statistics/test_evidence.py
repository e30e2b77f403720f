"""What answers that share documents are worth for verdicts and for further trials."""

from __future__ import annotations

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.statistics.evidence import Independent, SharedDocuments, evidence_of
from ropewalk.proof.statistics.intervals import over_documents
from ropewalk.proof.statistics.tally import summarise
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold, RelativeThreshold
from ropewalk.proof.summary import RunSummary

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)


def rows_of(length: int, documents: list[str]) -> list[Row]:
    """A row a letter, H or M: one document a text, one depth a letter."""
    names = {"H": Outcome.HIT, "M": Outcome.MISS}
    return [
        Row(cell, length, depth, "key", "value", Answer(names[letter], -0.5, "", 1.0), repr(cell))
        for trial, text in enumerate(documents)
        for depth, letter in zip(DEPTHS, text, strict=False)
        for cell in [Cell(length, depth, trial)]
    ]


def nested(rows: list[Row], trials: int, bar: float = 0.85) -> RunSummary:
    return summarise(
        rows,
        lengths=(1024, 2048),
        depths=DEPTHS,
        trials=trials,
        threshold=RelativeThreshold(bar),
        claimed_length=2048,
        evidence=SharedDocuments(),
    )


def test_ten_documents_without_a_miss_are_certain() -> None:
    found = nested(rows_of(1024, ["HHHHH"] * 10) + rows_of(2048, ["HHHHH"] * 10), 10)
    assert [column.verdict for column in found.columns] == ["passes", "passes"]
    assert found.effective.certain == 2048
    assert found.columns[0].pooled.documents == 10


def test_fewer_documents_are_never_certain_and_say_how_many_it_takes() -> None:
    # A bar so low that the interval of three documents lies above it.
    found = nested(rows_of(1024, ["HHHHH"] * 3) + rows_of(2048, ["HHHHH"] * 3), 3, bar=0.5)
    assert found.columns[0].pooled.low > 0.5
    assert (found.effective.certain, found.effective.possible) == (None, 2048)
    assert found.effective.more_trials == 2
    assert "Not enough documents to be certain of any length: about 2 more if it goes on so" in (
        found.effective.sentence
    )


def test_a_failing_length_fails_with_few_documents_too() -> None:
    found = nested(rows_of(1024, ["HHHHH"] * 3) + rows_of(2048, ["MMMMM"] * 3), 3)
    assert [column.verdict for column in found.columns] == ["undecided", "fails"]


def test_the_same_answers_of_independent_prompts_are_judged_by_wilson() -> None:
    rows = rows_of(1024, ["HHHHH"] * 5)
    apart = summarise(
        rows, lengths=(1024,), depths=DEPTHS, trials=5, threshold=AbsoluteThreshold(0.85)
    )
    assert apart.effective.certain == 1024
    assert apart.columns[0].pooled.documents is None


@pytest.mark.parametrize(("sharing", "kind"), [
    ("none", Independent), ("prefix", Independent), ("branches", SharedDocuments),
])  # fmt: skip
def test_only_nested_runs_share_documents(sharing: str, kind: type) -> None:
    assert isinstance(evidence_of(sharing), kind)


@pytest.mark.parametrize("documents", [["HHHHH"] * 3, ["HHHHM", "HHHHH", "HHHHH", "HHHHH"]])
def test_as_many_further_documents_as_said_are_enough_and_one_fewer_is_not(
    documents: list[str],
) -> None:
    counts = [(text.count("H"), 5) for text in documents]
    rate = sum(hits for hits, _ in counts) / (5 * len(counts))
    more = SharedDocuments().further(counts, rate, 0.85, 5)
    total = len(counts) + more
    # Whole copies of what was seen, rounded up: at least as many documents as were said.
    copies = -(-total // len(counts))
    assert over_documents(counts * copies).low >= 0.85
    assert total == 10 or over_documents(counts * ((total - 1) // len(counts))).low < 0.85


def test_a_rate_below_the_bar_is_not_settled_by_more_documents() -> None:
    assert SharedDocuments().further([(4, 5)] * 12, 0.8, 0.85, 5) == 0


def test_before_the_first_document_full_marks_take_ten() -> None:
    assert SharedDocuments().further([], 1.0, 0.85, 5) == 10
