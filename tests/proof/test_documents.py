"""Nested prompts against transformers' own tokenizers, against each other, and asked alone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import pytest

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Cell, Control, Outcome, Prompt, Sharing
from ropewalk.proof.documents import INTRODUCTION, DocumentMaker
from ropewalk.proof.plan import make_plan
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.proof.reading import Budget, reading, share, tokens
from ropewalk.proof.subjects.local import LocalSubject
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


def maker_of(tokenizer: Any, chat: bool = False, own: bool = False) -> DocumentMaker:
    sentences = OWN_TEXT if own else None
    single = PromptMaker(Tokens(tokenizer), 7, chat, 0, CHAT_ANSWER_TOKENS, sentences)
    return DocumentMaker(single, LENGTHS, DEPTHS)


def body_of(prompt: Prompt) -> str:
    return re.split(r"\n\n", prompt.text.split(INTRODUCTION)[1].lstrip("\n"))[0]


@pytest.mark.parametrize(("chat", "own"), list(product((False, True), (False, True))))
def test_every_prompt_has_its_length_to_the_token_and_its_fact_at_its_depth(
    tokenizer: Any, chat: bool, own: bool
) -> None:
    make = maker_of(tokenizer, chat, own)
    for cell in CELLS:
        prompt = make(cell)
        assert list(prompt.token_ids) == ids_of(tokenizer, prompt.text, special=not chat)
        value = prompt.value if chat else f" {prompt.value}"
        whole = ids_of(tokenizer, prompt.text + value, special=not chat)
        assert [*prompt.token_ids, *prompt.value_ids] == whole
        room = CHAT_ANSWER_TOKENS if chat else len(prompt.value_ids)
        missing = cell.length - len(prompt.token_ids) - room
        assert 0 <= missing <= (2 if own else 0)
        fact = make.fact(cell).sentence
        assert prompt.text.count(fact) == 1
        text = tokenizer.decode(prompt.token_ids[prompt.needle_start :])
        assert text.lstrip(" ").startswith(fact)
        if cell.depth in (0, 1):
            assert prompt.depth == cell.depth
        assert abs(prompt.depth - cell.depth) <= 0.02 + 25 / cell.length


@pytest.mark.parametrize("lengths", [(200, 400), (256, 512)])
def test_where_depths_are_near_the_end_of_short_lengths_every_fact_still_fits(
    tokenizer: Any, lengths: tuple[int, ...]
) -> None:
    """Questions differ in their tokens, and a sentence is a tenth of such a length."""
    for seed in range(8):
        make = DocumentMaker(PromptMaker(Tokens(tokenizer), seed), lengths, (0.0, 0.5, 0.9))
        for length, depth, trial in product(lengths, (0.0, 0.5, 0.9), range(2)):
            prompt = make(Cell(length, depth, trial))
            assert length == len(prompt.token_ids) + len(prompt.value_ids)
            fact = make.fact(Cell(length, depth, trial)).sentence
            assert fact in body_of(prompt)


def test_the_shorter_prompts_text_is_the_beginning_of_every_longer_one(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    for shorter, longer in pairwise(LENGTHS):
        for depth, other in product(DEPTHS, DEPTHS):
            one, two = make(Cell(shorter, depth, 0)), make(Cell(longer, other, 0))
            # All but the fact of depth 1, the words that fill up, the question.
            assert shared_start(one.token_ids, two.token_ids) > shorter - 130


def test_a_fact_is_told_once_and_no_other_tells_its_key_or_value(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    asked = {cell: make(cell) for cell in CELLS}
    for cell, prompt in asked.items():
        body = body_of(prompt)
        assert len(re.findall(rf"\b{re.escape(prompt.key)}\b", body)) == 1
        assert body.count(prompt.value) == 1
        for other in prompt.distractors:
            assert other != prompt.value
            assert other in body
        within = {asked[Cell(cell.length, depth, 0)].value for depth in DEPTHS}
        assert len(within) == len(DEPTHS)


def test_controls_hide_nothing_or_nothing_else(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    none = make(Cell(520, 0.0, 0, Control.NO_NEEDLE))
    assert none.needle_start == -1
    assert none.value not in none.text
    assert none.length == 520
    assert shared_start(none.token_ids, make(Cell(1024, 0.5, 0)).token_ids) > 420
    alone = make(Cell(0, 0.0, 0, Control.NEEDLE_ONLY))
    assert body_of(alone) == make.fact(alone.cell).sentence
    end = make(Cell(1024, 1.0, 0, Control.END))
    assert end.token_ids == make(Cell(1024, 1.0, 0)).token_ids


def test_the_fact_asked_alone_stands_at_the_same_length_and_depth(tokenizer: Any) -> None:
    make = maker_of(tokenizer)
    for cell in CELLS[:8]:
        nested, alone = make(cell), make.independent(cell)
        assert (alone.key, alone.value, alone.length) == (nested.key, nested.value, cell.length)
        assert alone.value_ids == nested.value_ids
        assert abs(alone.depth - cell.depth) <= 25 / cell.length
        assert not [value for value in nested.distractors if value in alone.text]


def test_trials_hide_other_facts_in_other_text(tiny_tokenizer: Callable[[str], Any]) -> None:
    make = maker_of(tiny_tokenizer("bos"))
    prompts = [make(Cell(1024, 0.5, trial)) for trial in range(5)]
    assert len({p.value for p in prompts}) == 5
    for one, two in pairwise(prompts):
        assert shared_start(one.token_ids, two.token_ids) < 60
    assert make(Cell(1024, 0.5, 0)) == prompts[0]


def test_the_plan_says_what_its_own_prompts_read(tiny_tokenizer: Callable[[str], Any]) -> None:
    make = maker_of(tiny_tokenizer("bos"))
    plan = make_plan((512, 1024, 2048), DEPTHS, 3, 1)
    make = DocumentMaker(make.single, plan.lengths, plan.depths)
    said = reading(plan, make)
    prompts = [make(cell) for cell in plan.cells]
    alone = sum(len(prompt.token_ids) for prompt in prompts)
    shared = sum(tokens(share([p for p in prompts if p.cell.trial == trial])) for trial in range(3))
    assert abs(said.independent - alone) <= 0.01 * alone
    assert abs(said.shared - shared) <= 0.05 * shared
    assert said.saving > 4
    budget = Budget(Sharing.NESTED, len(plan.cells), 40_000, 1_000_000)
    assert budget.lines(2.5)[1] == "price: 0.10; without sharing 2.50"
    single = reading(plan, make.single)
    assert single.saving > 1.5


def test_too_many_facts_for_a_length_are_told_before_anything_is_asked(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    single = PromptMaker(Tokens(tiny_tokenizer("bos")))
    depths = tuple(step / 20 for step in range(21))
    with pytest.raises(LengthError, match="300 tokens cannot hold the facts of 21 depths"):
        DocumentMaker(single, (300, 1000), depths).check()
    DocumentMaker(single, (1000,), DEPTHS).check()
    short = DocumentMaker(
        PromptMaker(Tokens(tiny_tokenizer("bos")), sentences=OWN_TEXT[:9]), (2000,), DEPTHS
    )
    with pytest.raises(LengthError, match=r"holds \d+ tokens of sentences, facts included"):
        short.check()


SAME = """
import sys
from ropewalk.proof.cells import Cell
from ropewalk.proof.documents import DocumentMaker
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens
from transformers import AutoTokenizer
tokens = Tokens(AutoTokenizer.from_pretrained(sys.argv[1]))
make = DocumentMaker(PromptMaker(tokens), (700,), (0.5,))
print(repr(make(Cell(700, 0.5, 0))), make(Cell(700, 1.0, 1)).text)
"""


def test_another_process_lays_out_the_same_documents(
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


@pytest.mark.model
def test_a_real_model_finds_facts_that_stand_side_by_side(smollm2: LoadedModel) -> None:
    text = Tokens(smollm2.tokenizer)
    make = DocumentMaker(PromptMaker(text, 3), (512,), DEPTHS)
    subject = LocalSubject(smollm2.model, text)
    found = [subject.answer(make(Cell(512, depth, 0))).outcome for depth in DEPTHS]
    assert found.count(Outcome.HIT) >= len(DEPTHS) - 1
