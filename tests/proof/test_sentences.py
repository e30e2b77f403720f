"""What is said of a proof, swept over figures: no sentence says more than its interval holds."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Row
from ropewalk.proof.sentences import control
from ropewalk.proof.statistics.evidence import evidence_of
from ropewalk.proof.statistics.intervals import wilson
from ropewalk.proof.statistics.tally import summarise
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold
from ropewalk.proof.summary import Reason, RunSummary
from ropewalk.report.lines import text_lines
from ropewalk.report.proof import why
from ropewalk.report.proof_map import heat_map

LENGTHS = (512, 1024, 2048)
DEPTHS = (0.0, 1.0)
KINDS = (Control.NEEDLE_ONLY, Control.NO_NEEDLE, Control.END)
CATEGORICAL = re.compile(r"\b(can|cannot|does not|costs nothing|never|always)\b", re.IGNORECASE)


def proof(letters: tuple[str, ...], sharing: str, claimed: int | None, trials: int) -> RunSummary:
    """A proof of three lengths: hits, misses and cut prompts by letters, depths in turn."""
    kinds = {"H": Outcome.HIT, "M": Outcome.MISS, "T": Outcome.TRUNCATED}
    rows = [
        Row(cell, length, cell.depth, "k", "v", Answer(kinds[letter], -1.0, "", 1.0), repr(cell))
        for length, text in zip(LENGTHS, letters, strict=True)
        for i, letter in enumerate(text)
        for cell in [Cell(length, DEPTHS[i % 2], i // 2)]
    ]
    return summarise(
        rows,
        lengths=LENGTHS,
        depths=DEPTHS,
        trials=trials,
        threshold=AbsoluteThreshold(0.85),
        claimed_length=claimed,
        evidence=evidence_of(sharing),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_says_no_more_than_its_interval(kind: Control) -> None:
    for judged in range(1, 40):
        for hits in range(judged + 1):
            share = wilson(hits, judged)
            said = control(kind, share)
            assert not CATEGORICAL.search(said), said
            bounds = [int(number) / 100 for number in re.findall(r"(\d+) %", said)]
            if share.low <= 0.5 <= share.high:
                # Either could be: hits are counted, and nothing follows.
                assert not bounds, said
                assert "no more than that" in said
            for bound in bounds:
                if "lost" in said or "costs at most" in said:
                    assert bound >= 1 - share.low - 1e-9, said
                elif "or more" in said:
                    assert bound <= share.low, said
                else:
                    assert bound >= share.high, said
            if judged == 1:
                assert "once" in said
            else:
                assert f"{hits} of {judged}" in said


def test_few_trials_of_a_control_conclude_nothing_and_four_alike_do() -> None:
    for kind, judged in product(KINDS, range(1, 4)):
        assert "no more than that" in control(kind, wilson(judged, judged))
        assert "no more than that" in control(kind, wilson(0, judged))
    assert control(Control.NEEDLE_ONLY, wilson(4, 4)) == (
        "Found alone, without a haystack, 4 of 4 times: it does the task in 51 % of such prompts "
        "or more."
    )
    assert control(Control.NO_NEEDLE, wilson(0, 40)) == (
        "Named without the needle in the text, 0 of 40 times: a guess hits in 9 % of prompts at "
        "most."
    )


TEXTS = st.text("HHHHMT", max_size=50)


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(TEXTS, TEXTS, TEXTS),
    st.sampled_from(["none", "branches"]),
    st.sampled_from([None, 700, 2048, 8192]),
)
def test_the_end_of_what_was_asked_is_never_passed_off_as_the_end_of_what_is_read(
    letters: tuple[str, str, str], sharing: str, claimed: int | None
) -> None:
    summary = proof(letters, sharing, claimed, 25)
    effective, said = summary.effective, summary.effective.sentence
    fails = [each for each in summary.columns if each.verdict == "fails"]
    judged = [each.length for each in summary.columns if each.pooled.judged]
    assert effective.open_end == (bool(judged) and not fails)
    if effective.open_end:
        assert effective.possible == judged[-1]
        assert "possibly" not in said
        longest = "the longest asked" if judged[-1] == LENGTHS[-1] else "the longest of which"
        assert longest in said
    elif fails and judged:
        assert f"ails {'already ' * (effective.possible is None)}at {fails[0].length:,}" in said
        assert f"({fails[0].pooled.hits} of {fails[0].pooled.judged})" in said
    reached = max(judged, default=0)
    if claimed is None:
        assert "it claims no length" in said
    elif judged:
        assert ("was not reached" in said) == (claimed > reached)
    if effective.certain is not None:
        assert f"Reads {effective.certain:,} tokens for certain" in said
    # Words that compare, or that shut a door the figures leave open.
    assert not re.search(r"no more:|would (not )?settle", said)


def test_a_run_that_stops_short_of_the_claim_says_so() -> None:
    summary = proof(("H" * 8, "H" * 8, "H" * 8), "none", 8192, 4)
    assert summary.effective.sentence.startswith(
        "Reads no length for certain; nothing failed up to 2,048, the longest asked; the claim of "
        "8,192 was not reached."
    )
    certain = proof(("H" * 50, "H" * 50, "H" * 50), "none", 8192, 25).effective
    assert certain.sentence == (
        "Reads 2,048 tokens for certain, the longest asked; the claim of 8,192 was not reached."
    )


@settings(max_examples=60, deadline=None)
@given(st.tuples(TEXTS, TEXTS, TEXTS))
def test_no_depth_is_called_the_worst_where_all_scored_the_same(
    letters: tuple[str, str, str],
) -> None:
    summary = proof(letters, "none", 8192, 25)
    for column in summary.columns:
        own = [c.share.value for c in summary.cells if c.length == column.length and c.share.judged]
        assert column.alike == (len(own) > 1 and len(set(own)) == 1)
        reason = Reason(column.length, 0.5, (), column.alike)
        assert ("worst" in why(reason)) != column.alike
        if column.alike:
            line = next(
                x for x in text_lines([heat_map(summary)], 200) if x.startswith("worst depth")
            )
            assert "alike" in line
