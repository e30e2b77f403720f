"""The default grid is laid out whatever the seed, on three tokenizers.

Every prompt of every seed is `python -m benchmarks.layout`, which takes half an hour. Here each
seed lays out a haystack of its own with two questions of the shortest length, where depths are
nearest to each other, and asks one of them alone. The commands that once failed are laid out
with a few haystacks, and all cells of their calibration.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.calibration import plan_calibration
from ropewalk.proof.cells import Calibrate, Cell, Control, Prompt
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.grid import default_lengths
from ropewalk.proof.plan import make_plan, parse_lengths
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.settings import DEFAULT_DEPTHS, DEFAULT_DOCUMENTS
from ropewalk.proof.tokens import Tokens

CLAIMED = 8192
NAMES = ["smollm2", "tiny", "llama-2"]


@cache
def read_tokens(name: str) -> Tokens:
    """The tokenizer of a model; that of a GGUF file takes seconds to make."""
    return Tokens(load_tokenizer(name))


@pytest.fixture(scope="module", params=NAMES)
def tokens(request: pytest.FixtureRequest) -> Tokens:
    if request.param == "llama-2":
        folder: Path = request.getfixturevalue("wordllama")
        return Tokens(load_tokenizer(str(folder)))
    return read_tokens(request.param)


@pytest.fixture(scope="module")
def smollm2_tokens() -> Tokens:
    return read_tokens("smollm2")


def check(prompt: Prompt, cell: Cell) -> None:
    """To the token as long as asked for, and by a regular expression named where it must be."""
    assert prompt.length == cell.length or cell.control is Control.NEEDLE_ONLY
    body = prompt.text.partition("\n\nQuestion:")[0]
    named = re.findall(rf"(?i)(?<!\w){re.escape(prompt.value)}(?!\w)", body)
    assert len(named) == (0 if cell.control is Control.NO_NEEDLE else 2)


def test_a_haystack_of_every_seed_and_its_needles_alone_are_laid_out(tokens: Tokens) -> None:
    for seed in range(0, 40, 2):
        trial = seed % DEFAULT_DOCUMENTS
        make = GappedMaker(PromptMaker(tokens, seed), (1024,), DEFAULT_DEPTHS)
        for number in (seed, seed + 2):
            cell = Cell(1024, DEFAULT_DEPTHS[number % len(DEFAULT_DEPTHS)], trial)
            check(make(cell), cell)
        check(make.independent(cell), cell)


def lay_out(tokens: Tokens, lengths: tuple[int, ...], documents: int) -> int:
    """Lay out what a run of these lengths asks of its first documents, and its calibration.

    Returns how many prompts that is.
    """
    plan = make_plan(lengths, DEFAULT_DEPTHS, DEFAULT_DOCUMENTS)
    make = GappedMaker(PromptMaker(tokens, 0), plan.lengths, plan.depths)
    calibrated = plan_calibration(plan, Calibrate.SHORT, 0, max(lengths) * documents)
    for cell in calibrated:
        check(make.independent(cell), cell)
    asked = [cell for cell in plan.cells if cell.trial < documents]
    for cell in asked:
        prompt = make(cell)
        check(prompt, cell)
        assert (prompt.branch is None) == (cell.control is Control.NEEDLE_ONLY)
    return len(asked)


def test_the_defaults_lay_out_all_their_prompts(smollm2_tokens: Tokens) -> None:
    assert lay_out(smollm2_tokens, default_lengths(CLAIMED), DEFAULT_DOCUMENTS) == 75 + 2


# With --rope yarn:2 the prompts are the same: a schedule changes no text.
@pytest.mark.parametrize("lengths", ["2k,4k,8k", "2048,12000"])
def test_the_lengths_that_users_are_told_to_try_lay_out(
    smollm2_tokens: Tokens, lengths: str
) -> None:
    assert lay_out(smollm2_tokens, parse_lengths(lengths), 2) > 20
