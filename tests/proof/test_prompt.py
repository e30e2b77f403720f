"""Prompts held against transformers' own tokenizers: every count is made again from the text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ropewalk.errors import LengthError, ModelFileError
from ropewalk.proof.cells import Cell, Control, Prompt
from ropewalk.proof.needles import Fact, draw_needle
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.proof.tokens import Tokens, shared_start
from ropewalk.proof.words import PASS_KEY

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

KINDS = ["bare", "bos", "bos-eos", "metaspace"]
DEPTHS = (0.0, 0.1, 0.5, 0.77, 1.0)
CHAT = (
    "{{ bos_token }}{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
OWN_TEXT = tuple(
    f"{word} was the {rank} thing that came up in the {kind}, which nobody had foreseen!"
    for word in "Bread Cheese Iron Wool Timber Salt Oil Paper Glass Leather".split()
    for rank in "first second third fourth fifth sixth seventh eighth".split()
    for kind in "meeting letter report song".split()
)


@pytest.fixture(scope="module", params=[*KINDS, pytest.param("smollm2", marks=pytest.mark.model)])
def tokenizer(request: pytest.FixtureRequest, tiny_tokenizer: Callable[[str], Any]) -> Any:
    if request.param == "smollm2":
        loaded: LoadedModel = request.getfixturevalue("smollm2")
        return loaded.tokenizer
    made = tiny_tokenizer(request.param)
    made.chat_template = CHAT
    return made


@pytest.fixture
def tiny_maker(tiny_tokenizer: Callable[[str], Any]) -> Callable[..., PromptMaker]:
    def make(**settings: Any) -> PromptMaker:
        return PromptMaker(Tokens(tiny_tokenizer("bos")), **settings)

    return make


def ids_of(tokenizer: Any, text: str, *, special: bool) -> list[int]:
    """By transformers alone; a closing token would stand behind what is to be continued."""
    ids = list(tokenizer(text, add_special_tokens=special)["input_ids"])
    return ids[:-1] if special and ids[-1] == tokenizer.eos_token_id != ids[0] else ids


def haystack_of(prompt: Prompt) -> str:
    """What is left of the prompt without its frame and its needles."""
    body = prompt.text.split("asked for at the end.")[1]
    body = re.split(r"Question: What|What is the pass key of", body)[0]
    return re.sub(r"(The pass key of \w+ is \d+\.) Remember it\. \1", "", body)


def makers(tokenizer: Any) -> Iterator[PromptMaker]:
    tokens = Tokens(tokenizer)
    for chat, distractors, sentences in product((False, True), (0, 3), (None, OWN_TEXT)):
        yield PromptMaker(tokens, 7, chat, distractors, CHAT_ANSWER_TOKENS, sentences)


def cells(maker: PromptMaker, lengths: tuple[int, ...] = (261, 512, 1000)) -> Iterator[Cell]:
    # Where there is room for a sentence or two, few of them can be exchanged.
    least = maker.minimum() + (12 if maker.sentences is None else 45)
    for length in (least, least + 29, *(n for n in lengths if n > least)):
        yield from (Cell(length, depth, 0) for depth in DEPTHS)
        yield from (Cell(length, 0.5, trial) for trial in (1, 2))
        yield from (Cell(length, d, 0, Control.NO_NEEDLE) for d in (0.0, 1.0))
        yield Cell(length, 1.0, 0, Control.END)


def check_count(tokenizer: Any, maker: PromptMaker, prompt: Prompt) -> None:
    """The prompt's tokens are those of its text, and its length is the cell's to the token.

    A text of one's own is cut to size and may have no piece of the last one or two tokens.
    """
    special = not maker.chat
    assert list(prompt.token_ids) == ids_of(tokenizer, prompt.text, special=special)
    value = prompt.value if maker.chat else f" {prompt.value}"
    whole = ids_of(tokenizer, prompt.text + value, special=special)
    assert [*prompt.token_ids, *prompt.value_ids] == whole
    room = CHAT_ANSWER_TOKENS if maker.chat else len(prompt.value_ids)
    assert prompt.length == len(prompt.token_ids) + room
    assert 0 <= prompt.cell.length - prompt.length <= (0 if maker.sentences is None else 2)


def check_needle(tokenizer: Any, prompt: Prompt) -> None:
    """The needle is in the text once and where it is said to be, and nothing else leaks it."""
    sentence = (
        f"The pass key of {prompt.key} is {prompt.value}. Remember it. "
        f"The pass key of {prompt.key} is {prompt.value}."
    )
    if prompt.cell.control is Control.NO_NEEDLE:
        assert prompt.needle_start == -1
        assert prompt.value not in prompt.text
        return
    assert prompt.text.count(sentence) == 1
    assert prompt.text.count(prompt.value) == 2
    assert prompt.key not in haystack_of(prompt)
    behind = tokenizer.decode(prompt.token_ids[prompt.needle_start :])
    before = tokenizer.decode(prompt.token_ids[: prompt.needle_start])
    assert behind.lstrip(" ").startswith(sentence)
    assert not before.endswith("The")
    assert behind[0] in "T "


def check_depth(prompt: Prompt, slack: int) -> None:
    if prompt.cell.control is Control.NO_NEEDLE:
        return
    wanted = prompt.cell.depth
    if wanted in (0.0, 1.0):
        assert prompt.depth == wanted or not haystack_of(prompt).strip()
    elif prompt.cell.length >= 512:
        assert abs(prompt.depth - wanted) * prompt.cell.length <= slack


def test_every_prompt_has_the_tokens_of_its_cell_and_the_needle_at_its_depth(
    tokenizer: Any,
) -> None:
    for maker in makers(tokenizer):
        longest = 40 + 45 * maker.distractors
        for cell in cells(maker):
            prompt = maker(cell)
            check_count(tokenizer, maker, prompt)
            check_needle(tokenizer, prompt)
            check_depth(prompt, longest)


def test_a_generated_haystack_repeats_no_sentence_and_holds_no_number(tokenizer: Any) -> None:
    maker = PromptMaker(Tokens(tokenizer), distractors=2)
    for depth in DEPTHS:
        text = haystack_of(maker(Cell(2000, depth, 0)))
        sentences = [s for s in re.split(r"(?<=\.)\s+", text.strip()) if s]
        assert len(sentences) > 40
        assert len(set(sentences)) == len(sentences)
        assert not re.search(r"\d", text)


def test_the_shortest_length_works_and_below_it_the_error_names_it(tokenizer: Any) -> None:
    for maker in makers(tokenizer):
        least = maker.minimum()
        for depth, trial in ((0.0, 0), (1.0, 1), (0.0, 2)):
            prompt = maker(Cell(least, depth, trial))
            assert least - 12 <= prompt.length <= least
            check_needle(tokenizer, prompt)
        with pytest.raises(LengthError, match=rf"30 tokens cannot hold.*the shortest is {least} "):
            maker(Cell(30, 0.5, 0))


def test_the_needle_alone_is_as_short_as_it_gets(tokenizer: Any) -> None:
    for maker in makers(tokenizer):
        prompt = maker(Cell(0, 0.0, 0, Control.NEEDLE_ONLY))
        assert not haystack_of(prompt).strip()
        assert prompt.length <= maker.minimum()
        assert prompt.depth == 0.0
        check_needle(tokenizer, prompt)


def test_distractors_are_in_the_text_and_named_with_the_prompt(tokenizer: Any) -> None:
    prompt = PromptMaker(Tokens(tokenizer), distractors=4)(Cell(900, 0.5, 0))
    assert len(set(prompt.distractors)) == 4
    for value in prompt.distractors:
        assert prompt.text.count(value) == 2
        assert value != prompt.value


def test_prompts_of_a_trial_share_all_that_stands_before_the_first_needle(
    tokenizer: Any,
) -> None:
    maker = PromptMaker(Tokens(tokenizer), 7)
    for trial in range(2):
        longest = maker(Cell(1500, 1.0, trial))
        for length, depth in product((500, 1000, 1500), (0.25, 0.5, 1.0)):
            prompt = maker(Cell(length, depth, trial))
            # The last sentences before the question fill the prompt to the token.
            same = min(prompt.needle_start, length - 150)
            assert prompt.token_ids[: same - 1] == longest.token_ids[: same - 1]
        other = maker(Cell(1500, 1.0, trial + 2)).token_ids
        assert shared_start(longest.token_ids, other) < 60


def test_trials_depths_lengths_and_seeds_differ_and_the_same_cell_does_not(
    tiny_maker: Callable[..., PromptMaker],
) -> None:
    maker = tiny_maker()
    asked = [Cell(400, 0.5, 0), Cell(400, 0.5, 1), Cell(400, 0.25, 0), Cell(401, 0.5, 0)]
    prompts = [maker(cell) for cell in asked] + [tiny_maker(seed=1)(asked[0])]
    assert len({p.text for p in prompts}) == len({p.value for p in prompts}) == len(prompts)
    assert maker(asked[0]) == tiny_maker()(asked[0]) == prompts[0]


SAME = """
import sys
from ropewalk.proof.cells import Cell
from ropewalk.proof.needles import Fact
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens
from transformers import AutoTokenizer
tokens = Tokens(AutoTokenizer.from_pretrained(sys.argv[1]))
for chat in (False, True):
    for trial in range(3):
        prompt = PromptMaker(tokens, 3, chat, 2)(Cell(600, 0.5, trial))
        print(repr(prompt.text), prompt.token_ids, prompt.depth)
"""


def test_another_process_lays_out_the_same_prompts(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: Callable[[str], Any]
) -> None:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = tiny_tokenizer("bos")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
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
    assert first == second
    assert first.count("\n") == 6


def test_the_users_text_comes_in_order_and_once(tiny_maker: Callable[..., PromptMaker]) -> None:
    prompt = tiny_maker(sentences=OWN_TEXT)(Cell(1500, 0.5, 0))
    found = [s for s in re.split(r"(?<=[.!])\s+", haystack_of(prompt).strip()) if s in OWN_TEXT]
    assert len(found) > 30
    assert len(set(found)) == len(found)
    places = [OWN_TEXT.index(sentence) for sentence in found]
    steps = [(b - a) % len(OWN_TEXT) for a, b in pairwise(places)]
    assert sum(steps) < len(OWN_TEXT)
    assert set(steps[:-3]) == {1}


def test_a_text_that_is_too_short_is_told_with_its_tokens(
    tiny_maker: Callable[..., PromptMaker],
) -> None:
    with pytest.raises(LengthError, match=r"holds \d+ tokens of sentences; a length of 900 needs"):
        tiny_maker(sentences=OWN_TEXT[:5])(Cell(900, 0.5, 0))


@pytest.mark.parametrize(
    "needle", [Fact(PASS_KEY, "Wool", "40718"), Fact(PASS_KEY, "Barcora", "40718")]
)
def test_a_text_that_names_key_or_value_itself_is_refused(
    tiny_maker: Callable[..., PromptMaker], monkeypatch: pytest.MonkeyPatch, needle: Fact
) -> None:
    monkeypatch.setattr("ropewalk.proof.needles.draw_needle", lambda *_: needle)
    text = tuple(part for sentence in OWN_TEXT for part in (sentence, "40718 were for wool."))
    with pytest.raises(LengthError, match="occur in the haystack by themselves"):
        tiny_maker(sentences=text)(Cell(1000, 0.5, 0))


def test_a_text_of_longer_words_and_numbers_names_neither_key_nor_value(
    tiny_maker: Callable[..., PromptMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ropewalk.proof.needles.draw_needle", lambda *_: Fact(PASS_KEY, "Wool", "40718")
    )
    text = tuple(f"{number} came from Woolchester, {number}40718 went." for number in range(90))
    prompt = tiny_maker(sentences=text)(Cell(1000, 0.5, 0))
    assert prompt.text.count("Woolchester") > 20


def test_what_is_drawn_again_is_another_needle_in_the_same_text(
    tiny_maker: Callable[..., PromptMaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = tiny_maker(sentences=OWN_TEXT)
    wanted = maker(Cell(1000, 0.5, 0))
    needles = iter([Fact(PASS_KEY, "Letter", "40718"), Fact(PASS_KEY, "Song", "12345")])
    real = draw_needle

    def draw(random: Random, others: list[Fact]) -> Fact:
        found = real(random, others)
        return next(needles, found)

    monkeypatch.setattr("ropewalk.proof.needles.draw_needle", draw)
    again = maker(Cell(1000, 0.5, 0))
    assert again.key not in ("Letter", "Song", wanted.key)
    assert again.text[:400].split("end.")[1] == wanted.text[:400].split("end.")[1]


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages[0].content | upper }}",
        "nothing",
        "{{ messages[0].content * 2 }}",
        "{{ raise_exception('no users here') }}",
    ],
)
def test_a_template_that_changes_what_the_user_says_cannot_be_used(
    tiny_tokenizer: Callable[[str], Any], template: str
) -> None:
    import copy

    tokenizer = copy.deepcopy(tiny_tokenizer("bos"))
    tokenizer.chat_template = template
    with pytest.raises(ModelFileError, match="chat template"):
        PromptMaker(Tokens(tokenizer), chat=True).minimum()
