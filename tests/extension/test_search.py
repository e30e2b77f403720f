"""The search without a model: its space, its log, what a kill leaves, what it finds."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.errors import StoreError
from ropewalk.extension.search.candidate import DivisorCandidate, crossed, fitted, mutated
from ropewalk.extension.search.evolve import best, evolve
from ropewalk.extension.search.log import SEARCH_LOG, SearchLog, Tried
from ropewalk.extension.search.verdict import Agreement, Verdict, agreement, gap_difference
from ropewalk.extension.skip import Gap
from ropewalk.proof.cells import Answer, Cell, Outcome, Row
from ropewalk.proof.statistics.paired import MeanDifference

PROGRAM = Path(__file__).with_name("search_program.py")


def program() -> Any:
    found = importlib.util.spec_from_file_location("search_program", PROGRAM)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def in_the_space(candidate: DivisorCandidate, s: float) -> bool:
    rises = all(a <= b for a, b in pairwise(candidate.divisors))
    return rises and all(1.0 <= d <= 1.25 * s + 1e-6 for d in candidate.divisors)


@given(
    st.lists(st.floats(-5, 50), min_size=2, max_size=64),
    st.floats(1.1, 32),
    st.integers(0, 10**6),
)
def test_children_never_leave_the_space(values: list[float], s: float, seed: int) -> None:
    random = Random(seed)
    one = fitted(values, 1.2, s)
    other = fitted(values[::-1], 1.0, s)
    assert in_the_space(one, s)
    child = mutated(crossed(one, other, s, random), s, random)
    assert in_the_space(child, s)
    assert len(child.divisors) == len(values)
    assert 1.0 <= child.amplitude <= 1.5


def test_divisors_that_are_in_the_space_stay_as_they_are() -> None:
    # YaRN's for Qwen2.5 at 4 times, rounded to the step.
    published = (1.0, 1.05, 1.28, 1.66, 2.34, 3.4, 4.0)
    assert fitted(published, 1.1386, 4.0) == DivisorCandidate(published, 1.1386)


def test_a_search_betters_every_seed_and_keeps_short_text(tmp_path: Path) -> None:
    made = program()
    with SearchLog(tmp_path, made.IDENTITY) as log:
        found = evolve(log, made.SEEDS, made.score, made.S, seed=0, most_loss=2.05, tries=400)
    start = max(made.score(candidate)[0] for candidate in made.SEEDS.values())
    assert found.score > start / 10
    assert found.loss <= 2.05
    assert found == best(log.tried, 2.05)
    assert len({each.candidate for each in log.tried}) == 400


def test_a_try_that_costs_short_text_ranks_behind_any_that_does_not() -> None:
    cheap, dear = (Tried(DivisorCandidate((1.0,)), score, loss, "child") for score, loss in
                   ((-9.0, 2.0), (-1.0, 2.2)))  # fmt: skip
    assert best([dear, cheap], 2.1) == cheap
    assert best([dear, cheap], 2.3) == dear


def test_a_search_killed_at_any_moment_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    made = program()
    expected = made.run(tmp_path / "whole", 30)
    folder = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, str(PROGRAM), str(folder), "30", "0.2"])
    log = folder / SEARCH_LOG
    end = time.monotonic() + 120
    while not log.exists() or len(log.read_bytes().splitlines()) < 6:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = log.read_text().splitlines()
    assert 6 <= len(kept) < 31
    assert made.run(folder, 30) == expected
    assert expected[: len(kept)] == kept


def test_half_a_line_is_taken_away_and_tried_again(tmp_path: Path) -> None:
    made = program()
    expected = made.run(tmp_path, 12)
    path = tmp_path / SEARCH_LOG
    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 40, 5):
        path.write_bytes(whole[:cut])
        assert made.run(tmp_path, 12) == expected


def test_a_full_disk_is_a_clear_error_and_the_log_stays_whole(tmp_path: Path) -> None:
    made = program()
    made.run(tmp_path, 4)
    path = tmp_path / SEARCH_LOG
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))
    try:
        with pytest.raises(StoreError, match="free some space"):
            made.run(tmp_path, 6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before


def test_another_search_and_a_damaged_log_are_named(tmp_path: Path) -> None:
    made = program()
    made.run(tmp_path, 3)
    with pytest.raises(StoreError, match="holds another search"):
        SearchLog(tmp_path, {"search": "of another model"})
    path = tmp_path / SEARCH_LOG
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"divisors": 3}', lines[2]]) + "\n")
    with pytest.raises(StoreError, match="damaged"):
        SearchLog(tmp_path, made.IDENTITY)
    assert json.loads(lines[0])["search"] == made.IDENTITY


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    made = program()
    with SearchLog(tmp_path, made.IDENTITY), pytest.raises(StoreError, match="another run"):
        SearchLog(tmp_path, made.IDENTITY)


def gaps(values: dict[tuple[int, float], float]) -> list[Gap]:
    return [Gap(trial, depth, value) for (trial, depth), value in values.items()]


def rows(values: dict[tuple[int, float], float]) -> list[Row]:
    return [
        Row(Cell(64, depth, trial), 64, depth, "k", "v", Answer(Outcome.MISS, value, "", 0.1), "")
        for (trial, depth), value in values.items()
    ]


def test_the_difference_by_gaps_is_one_number_a_trial() -> None:
    one = gaps({(0, 0.0): -1.0, (0, 0.5): -3.0, (1, 0.0): -2.0, (1, 0.5): -2.0})
    other = gaps({(0, 0.0): -2.0, (0, 0.5): -4.0, (1, 0.0): -4.0, (1, 0.5): -6.0})
    found = gap_difference(one, other)
    assert (found.count, found.value) == (2, 2.0)
    # Student's point with one degree of freedom is 12.7062; s = sqrt(2), n = 2.
    assert found.low == pytest.approx(2.0 - 12.7062, abs=1e-3)


def test_gaps_are_trusted_only_where_whole_prompts_say_the_same() -> None:
    by_gap = {
        "a": gaps({(0, 0.0): -1.0, (0, 0.5): -1.0}),
        "b": gaps({(0, 0.0): -9.0, (0, 0.5): -9.0}),
    }
    alike = {
        "a": rows({(0, 0.0): -2.0, (0, 0.5): -3.0}),
        "b": rows({(0, 0.0): -8.0, (0, 0.5): -7.0}),
    }
    unlike = {"a": alike["a"], "b": rows({(0, 0.0): -8.0, (0, 0.5): -1.0})}
    assert agreement(by_gap, alike, (0.0, 0.5)) == Agreement((0.0, 0.5), 2, 2)
    assert agreement(by_gap, alike, (0.0, 0.5)).trusted
    assert not agreement(by_gap, alike, (0.0,)).trusted
    assert not agreement(by_gap, unlike, (0.0, 0.5)).trusted


@pytest.mark.parametrize(
    ("low", "whole", "same", "wins"),
    [(0.1, 0.5, 2, True), (-0.1, 0.5, 2, False), (0.1, -0.5, 2, False), (0.1, 0.5, 1, False)],
)
def test_a_search_wins_by_an_interval_above_zero_that_whole_prompts_confirm(
    low: float, whole: float, same: int, wins: bool
) -> None:
    verdict = Verdict(
        "yarn",
        MeanDifference(10, 0.4, low, 0.9),
        MeanDifference(1, whole, None, None),
        Agreement((0.0, 0.5), 2, same),
    )
    assert verdict.wins is wins
    assert ("is what is written" in verdict.lines()[-1]) is (wins or same == 2)
    assert ("It is better than yarn" in verdict.lines()[-1]) is wins
