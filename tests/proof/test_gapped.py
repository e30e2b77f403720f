"""Prompts in haystacks with gaps, against transformers' own tokenizers and prompts alone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Cell, Control, Prompt, Sharing
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.plan import Prompts, make_plan
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.proof.reading import Budget, reading
from ropewalk.proof.stops import haystacks
from ropewalk.proof.tokens import Tokens, shared_start

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

KINDS = ["bare", "bos", "bos-eos", "metaspace"]
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
LENGTHS = (520, 1024, 2048)
DEPTHS = (0.0, 0.25, 0.5, 0.9, 1.0)
OWN_TEXT = tuple(
    f"{word} was the {rank} thing that came up in the {kind}, which nobody had foreseen!"
    for word in "Bread Cheese Iron Wool Timber Salt Oil Paper Glass Leather".split()
    for rank in "first second third fourth fifth sixth seventh eighth".split()
    for kind in "meeting letter report song".split()
)
CELLS = [Cell(length, depth, 0) for length in LENGTHS for depth in DEPTHS]


@pytest.fixture(scope="module", params=[*KINDS, pytest.param("smollm2", marks=pytest.mark.model)])
def tokenizer(request: pytest.FixtureRequest, tiny_tokenizer: Callable[[str], Any]) -> Any:
    if request.param == "smollm2":
        loaded: LoadedModel = request.getfixturevalue("smollm2")
        return loaded.tokenizer
    made = tiny_tokenizer(request.param)
    made.chat_template = CHAT
    return made


def ids_of(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    """By transformers alone; a closing token would stand behind what is to be continued."""
    ids = list(tokenizer(text, add_special_tokens=special)["input_ids"])
    return ids[:-1] if special and ids[-1] == tokenizer.eos_token_id != ids[0] else ids


def maker_of(tokenizer: Any, chat: bool = False, own: bool = False) -> GappedMaker:
    sentences = OWN_TEXT if own else None
    single = PromptMaker(Tokens(tokenizer), 7, chat, 0, CHAT_ANSWER_TOKENS, sentences)
    return GappedMaker(single, LENGTHS, DEPTHS)


def body_of(prompt: Prompt) -> str:
    """What stands between the introduction and the question."""
    return prompt.text.split("asked for at the end.")[1].split("\n\nQuestion")[0]


@pytest.mark.parametrize(("chat", "own"), list(product((False, True), (False, True))))
def test_every_prompt_has_its_length_in_positions_and_its_needle_at_its_depth(
    tokenizer: Any, chat: bool, own: bool
) -> None:
    make = maker_of(tokenizer, chat, own)
    for cell in CELLS:
        prompt = make(cell)
        assert list(prompt.token_ids) == ids_of(tokenizer, prompt.text, special=not chat)
        room = CHAT_ANSWER_TOKENS if chat else len(prompt.value_ids)
        assert 0 <= cell.length - prompt.length <= (2 if own else 0)
        if own and prompt.branch is None:
            # Nothing of the user's text fills the last tokens of a short length.
            assert cell.length == min(LENGTHS)
            continue
        assert prompt.branch is not None
        text = prompt.branch.haystack
        empty = sum(gap < prompt.branch.cut for gap in text.gaps) * text.size
        # Of the gaps before the question its own holds its needle; the others are empty.
        assert prompt.length == len(prompt.token_ids) - prompt.branch.size + empty + room
        needle = make.problem(cell).hidden[0].sentence
        assert prompt.text.count(needle) == 1
        begins = tokenizer.decode(prompt.token_ids[prompt.needle_start :])
        assert begins.lstrip(" ").startswith(needle)
        if cell.depth in (0, 1):
            assert prompt.depth == cell.depth
        assert abs(prompt.depth - cell.depth) <= 0.02 + 25 / cell.length


def test_a_prompt_is_the_haystack_with_its_needle_in_its_gap_and_what_is_asked(
    tokenizer: Any,
) -> None:
    make = maker_of(tokenizer)
    for cell in CELLS:
        prompt = make(cell)
        assert prompt.branch is not None
        text, at, size = prompt.branch.haystack, prompt.branch.at, prompt.branch.size
        cut = prompt.branch.cut
        if at is None:
            assert prompt.token_ids[:cut] == text.token_ids[:cut]
            continue
        assert at in text.gaps
        assert 0 < size <= text.size
        assert prompt.token_ids[:at] == text.token_ids[:at]
        assert prompt.token_ids[at + size : cut + size] == text.token_ids[at:cut]
        # What is asked is a question, some words that make up the length, and no more.
        assert len(prompt.asking) < 110


def test_gaps_take_at_most_a_fifth_of_what_any_length_reads(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    for cell in CELLS:
        branch = make(cell).branch
        assert branch is not None
        gaps = sum(gap < branch.cut for gap in branch.haystack.gaps)
        assert gaps <= 1 or gaps * branch.haystack.size <= 0.2 * cell.length


def test_a_branch_has_the_needle_that_its_prompt_alone_has(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    for cell in CELLS:
        branch, alone = make(cell), make.independent(cell)
        assert (alone.key, alone.value, alone.length) == (branch.key, branch.value, cell.length)
        assert alone.value_ids == branch.value_ids
        assert abs(alone.depth - branch.depth) <= 0.02 + 30 / cell.length


def test_the_haystack_names_no_key_and_no_value(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    for cell in CELLS:
        prompt = make(cell)
        body = body_of(prompt)
        assert len(re.findall(rf"\b{re.escape(prompt.key)}\b", body)) == 2
        assert body.count(prompt.value) == 2


def test_controls_hide_nothing_or_nothing_else(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    none = make(Cell(520, 0.0, 0, Control.NO_NEEDLE))
    assert none.needle_start == -1
    assert none.value not in none.text
    assert none.length == 520
    alone = make(Cell(0, 0.0, 0, Control.NEEDLE_ONLY))
    assert alone.branch is None
    end = make(Cell(1024, 1.0, 0, Control.END))
    assert end.depth == 1.0
    assert end.branch is not None
    assert end.branch.at is None


def test_a_length_that_holds_no_gap_is_asked_by_whole_prompts(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    single = PromptMaker(Tokens(tiny_tokenizer("bos")))
    least = single.minimum()
    make = GappedMaker(single, (least, 1000), DEPTHS)
    assert make(Cell(least, 0.5, 0)) == single(Cell(least, 0.5, 0))
    assert make(Cell(1000, 0.5, 0)).branch is not None
    # A user's text that ends too early ends for both ways, and is told in the same words.
    short = PromptMaker(Tokens(tiny_tokenizer("bos")), sentences=OWN_TEXT[:9])
    with pytest.raises(LengthError, match=r"holds \d+ tokens of sentences; a length of 2000"):
        GappedMaker(short, (2000,), DEPTHS)(Cell(2000, 0.5, 0))


def test_trials_hide_other_needles_in_other_text(tiny_tokenizer: Callable[[str], Any]) -> None:
    make = maker_of(tiny_tokenizer("bos"))
    prompts = [make(Cell(1024, 0.5, trial)) for trial in range(5)]
    assert len({p.value for p in prompts}) == 5
    for one, two in pairwise(prompts):
        assert shared_start(one.token_ids, two.token_ids) < 60
    assert make(Cell(1024, 0.5, 0)) == prompts[0]


def test_the_plan_says_what_its_own_prompts_read(tiny_tokenizer: Callable[[str], Any]) -> None:
    make = maker_of(tiny_tokenizer("bos"))
    plan = make_plan((512, 1024, 2048), DEPTHS, 3, 1)
    make = GappedMaker(make.single, plan.lengths, plan.depths)
    said = reading(plan, Prompts(make))
    prompts = [make(cell) for cell in plan.cells]
    # Each token of a reading once, each needle, and each question.
    once = sum(max(placed.branch.cut for placed in group) for group in haystacks(prompts)) + sum(
        len(p.asking) + (p.branch.size if p.branch else 0) for p in prompts
    )
    assert abs(said.shared - once) <= 0.05 * once
    assert abs(said.independent - sum(p.asked_at for p in prompts)) <= 0.01 * said.independent
    assert said.saving > 4
    budget = Budget(Sharing.BRANCHES, len(plan.cells), 40_000, 1_000_000)
    assert budget.lines(2.5)[1] == "price: 0.10; without sharing 2.50"
    single = reading(plan, Prompts(make.single))
    assert single.saving > 1.5


SAME = """
import sys
from ropewalk.proof.cells import Cell
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens
from transformers import AutoTokenizer
tokens = Tokens(AutoTokenizer.from_pretrained(sys.argv[1]))
make = GappedMaker(PromptMaker(tokens), (700,), (0.5,))
print(repr(make(Cell(700, 0.5, 0))), make(Cell(700, 1.0, 1)).text)
"""


def test_another_process_lays_out_the_same_haystacks(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Callable[[str], Any]
) -> None:
    folder = tmp_path_factory.mktemp("tokenizer")
    tiny_tokenizer("bos").save_pretrained(folder)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", SAME, str(folder)],
            stdout=subprocess.PIPE,
            env={"PYTHONHASHSEED": seed},
            text=True,
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate(timeout=120)[0] for process in running)
    assert first == second != ""
