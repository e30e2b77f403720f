"""Prompts that cannot be laid out, in whole runs of the embedded model and in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ropewalk.errors import LengthError
from ropewalk.listener import Listener
from ropewalk.proof.cells import Calibrate, Cell, Control, Prompt, Sharing
from ropewalk.proof.facts import RunFacts, read, written
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.plan import Prompts, check_lengths_hold, in_words, lay_first, make_plan
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.reading import reading
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.store import Store
from ropewalk.proof.tokens import Tokens
from ropewalk.proof.words import SUBJECTS, WORDS

PLAN = make_plan([64, 128], [0.0, 0.5], trials=3, control_trials=1)
GRID = ProofSettings("tiny", lengths=(260, 330), depths=(0.0, 0.5), trials=2)
VALUES = [word for words in WORDS.values() for word in words.split()] + list(SUBJECTS)


def never(unless: Callable[[Cell], bool]) -> Callable[[Cell], Prompt]:
    def make(cell: Cell) -> Prompt:
        if unless(cell):
            return Prompt(cell, (1,) * 9, (2,), 0, cell.depth, "key", "value", (), f"{cell}")
        raise LengthError(f"no text for {cell.length}/{cell.depth}/{cell.trial}")

    return make


def test_one_prompt_of_a_length_is_enough_and_none_is_said_with_the_first_reason() -> None:
    check_lengths_hold(PLAN.cells, never(lambda cell: cell.trial == 2 and cell.depth == 0.5))
    with pytest.raises(LengthError, match=r"no text for 128/0\.0/0"):
        check_lengths_hold(PLAN.cells, never(lambda cell: cell.length == 64))
    # A control alone is not what is asked.
    with pytest.raises(LengthError, match="no text for 64"):
        check_lengths_hold(PLAN.cells, never(lambda cell: cell.control is not Control.NONE))
    assert lay_first(never(lambda _: False), []) is None


def test_what_is_left_out_is_named_and_read_back_from_a_run_folder() -> None:
    laying = Prompts(never(lambda cell: cell.depth == 0.5))
    prompts = laying.all(PLAN.cells)
    assert {prompt.cell for prompt in prompts} == {c for c in PLAN.cells if c.depth == 0.5}
    assert set(laying.left_out) == {c for c in PLAN.cells if c.depth != 0.5}
    said = in_words(laying.left_out)
    assert said.startswith("10 prompts that could not be laid out (needle-only control, ")
    assert "64 tokens, 0%, trial 1: no text for 64/0.0/0" in said
    assert said.endswith("; and 7 more)")
    kept = read(written(RunFacts(model="m").without(laying.left_out)))
    assert dict(kept.left_out) == laying.left_out
    assert dict(kept.without({PLAN.cells[0]: "again"}).left_out)[PLAN.cells[0]] == "again"


def test_a_budget_counts_what_can_be_laid_out() -> None:
    assert reading(PLAN, Prompts(never(lambda _: False))).independent == 0
    assert reading(PLAN, Prompts(never(lambda cell: cell.depth == 0.5))).independent == 3 * 2 * 9


@pytest.fixture
def naming(tmp_path: Path) -> Path:
    """A user's text that names most values and subjects, some in longer words, and numbers."""
    random = Random(4)
    plain = GeneratedHaystack(random).sentences()
    lines = []
    for word in VALUES * 2:
        lines += [next(plain), f"Of {word} and {word}field they spoke, {random.randrange(10**5)}."]
    file = tmp_path / "naming.txt"
    file.write_text(" ".join(lines))
    return file


def test_a_text_that_names_the_values_is_laid_out_without_those_sentences(
    naming: Path, tiny_tokenizer: Callable[[str], Any]
) -> None:
    sentences = tuple(re.split(r"(?<=\.) ", naming.read_text()))
    make = GappedMaker(
        PromptMaker(Tokens(tiny_tokenizer("bos")), sentences=sentences), (700, 1400), (0.0, 0.5)
    )
    for trial in range(6):
        for length in make.lengths:
            cell = Cell(length, 0.5, trial)
            for prompt in (make(cell), make.independent(cell)):
                assert 0 <= length - prompt.length <= 2
                body = prompt.text.split("\n\nQuestion")[0]
                for secret in (prompt.key, prompt.value):
                    assert len(re.findall(rf"(?i)(?<!\w){re.escape(secret)}(?!\w)", body)) == 2


def test_a_haystack_that_cannot_be_laid_out_is_drawn_again_with_other_text(
    tiny_tokenizer: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GappedMaker._lay_out
    drawn: list[tuple[int, int]] = []

    def second(self: GappedMaker, trial: int, number: int) -> Any:
        drawn.append((trial, number))
        if (trial, number) in ((1, 0), (2, 0), (2, 1)) or trial == 3:
            raise LengthError(f"no text for {trial}")
        return real(self, trial, number)

    single = PromptMaker(Tokens(tiny_tokenizer("bos")))
    cells = [Cell(700, 0.5, trial) for trial in range(4)]
    before = [GappedMaker(single, (700,), (0.5,))(cell).text for cell in cells]
    monkeypatch.setattr(GappedMaker, "_lay_out", second)
    make = GappedMaker(single, (700,), (0.5,))
    for _ in range(2):
        after = [make(cell).text for cell in cells]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True] + [False] * 3
    # Where none can be, each is asked by a whole prompt.
    assert after[3] == single(cells[3]).text
    # What could not be drawn is not drawn once more for every cell.
    tries = [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 0), (3, 1), (3, 2), (3, 3)]
    assert drawn == [(0, 0), *tries]


class Spoilt:
    """Fails to lay out some cells, as a haystack might that names what is hidden."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, when: Callable[[str, Cell], bool]) -> None:
        for owner, method in (
            (GappedMaker, "__call__"),
            (GappedMaker, "independent"),
            (PromptMaker, "__call__"),
        ):
            real = getattr(owner, method)

            def make(self: Any, cell: Cell, real: Any = real, method: str = method) -> Prompt:
                if when(f"{type(self).__name__}.{method}", cell):
                    raise LengthError("the haystack names it by itself")
                laid: Prompt = real(self, cell)
                return laid

            monkeypatch.setattr(owner, method, make)


def proved(settings: ProofSettings, out: Path) -> tuple[Proof, str]:
    said: list[str] = []
    proof = prove(replace(settings, out=out), Listener(note=said.append))
    return proof, "\n".join(said)


@pytest.mark.parametrize("sharing", list(Sharing))
def test_a_run_goes_on_without_cells_that_cannot_be_laid_out(
    sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also of the first document: further ones show that the length can hold its facts.
    left = {Cell(330, 0.5, 0), Cell(0, 0.0, 0, Control.NEEDLE_ONLY)}
    Spoilt(monkeypatch, lambda _, cell: cell in left)
    settings = replace(GRID, sharing=sharing, calibrate=None)
    proof, said = proved(settings, tmp_path)
    assert set(proof.result.left_out) == left
    assert proof.result.remaining == 0
    assert "left out: 2 prompts that could not be laid out (" in said
    assert "330 tokens, 50%, trial 1: the haystack names it by itself" in said
    field = next(c for c in proof.summary.cells if (c.length, c.depth) == (330, 0.5))
    assert (field.asked, field.planned) == (1, 1)
    assert "Not finished" not in proof.summary.effective.sentence
    with Store.read(tmp_path) as store:
        assert set(dict(store.facts().left_out)) == left
        assert store.facts().said()["left out"].startswith("2 prompts")
    again, said = proved(settings, tmp_path)
    assert (again.result.asked, set(again.result.left_out)) == (0, left)


def test_calibration_goes_on_without_cells_that_cannot_be_laid_out_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoilt(monkeypatch, lambda which, cell: which.endswith(".independent") and cell.trial == 1)
    settings = replace(GRID, sharing=Sharing.BRANCHES, calibrate=Calibrate.FULL)
    proof, said = proved(settings, tmp_path)
    calibrated = proof.summary.facts["calibration"]
    assert calibrated.startswith("Calibration: 4 cells")
    assert "Left out: 4 prompts that could not be laid out (" in calibrated
    assert calibrated in said
    assert (proof.result.remaining, proof.result.left_out) == (0, {})
    assert len(proof.rows) == len({row.cell for row in proof.rows}) >= 8


def test_a_calibration_of_which_no_cell_can_be_laid_out_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoilt(monkeypatch, lambda which, _: which.endswith(".independent"))
    proof, said = proved(
        replace(GRID, sharing=Sharing.BRANCHES, calibrate=Calibrate.SHORT), tmp_path
    )
    assert "no cell could be judged both ways" in said
    assert proof.result.remaining == 0


@pytest.mark.parametrize("sharing", list(Sharing))
def test_where_nothing_can_be_laid_out_that_is_said_before_the_run(
    sharing: Sharing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoilt(monkeypatch, lambda *_: True)
    with pytest.raises(LengthError, match="the haystack names it by itself"):
        proved(replace(GRID, sharing=sharing), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_cells_of_every_task_may_be_left_out_and_further_trials_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoilt(monkeypatch, lambda _, cell: cell.depth == 0.5 and cell.trial in (1, 4))
    settings = replace(
        GRID,
        lengths=(330,),
        sharing=Sharing.BRANCHES,
        calibrate=Calibrate.OFF,
        tasks=("single", "order"),
        until_certain=True,
        most_trials=6,
        controls=0,
    )
    proof, _ = proved(settings, tmp_path)
    asked = {row.cell for row in proof.rows}
    assert {cell.trial for cell in proof.result.left_out} <= {1, 4}
    assert {cell.task for cell in proof.result.left_out} == {"single", "order"}
    assert not asked & set(proof.result.left_out)
    assert "Not finished" not in proof.summary.effective.sentence
    for summary in proof.tasks.values():
        assert "Not finished" not in summary.effective.sentence
