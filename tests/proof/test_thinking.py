"""An answer is what follows the end of thinking, however a model marks that.

The marks are those of model cards and chat templates: DeepSeek-R1 and Qwen3 (<think>), Magistral
([THINK]), gpt-oss (harmony's channels), Gemma 4 (<|channel>thought), MedGemma (<unused94>), Granite
3.2 (headings), Seed-OSS (<seed:think>), Kimi-VL (◁think▷), OpenThinker (<|begin_of_thought|>),
Command A Reasoning (<|START_THINKING|>).
"""

from __future__ import annotations

import itertools

import pytest

from ropewalk.proof.cells import Outcome
from ropewalk.proof.classify import classify
from ropewalk.proof.thinking import spoken

MARKS = [
    ("<think>", "</think>"),
    ("<think>\n", "\n</think>\n\n"),
    ("<thinking>", "</thinking>"),
    ("<THOUGHT>", "</THOUGHT>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<｜think_start｜>", "<｜think_end｜>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
    ("Here is my thought process:\n\n", "\n\nHere is my response:\n\n"),
    ("**Reasoning:** ", "\n\n**Answer:** "),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<reflection>", "</reflection>"),
]
UNKNOWN = [
    (opening.format(name), closing.format(name))
    for (opening, closing), name in itertools.product(
        [
            ("<{}>", "</{}>"),
            ("[{}]", "[/{}]"),
            ("<|{}|>", "<|/{}|>"),
            ("<|{}_start|>", "<|{}_end|>"),
            ("⟦{}⟧", "⟦/{}⟧"),
            ("{{{}}}", "{{/{}}}"),
        ],
        ("MUSE", "workings", "draft2", "x:plan"),
    )
]
THOUGHTS = [
    "The report says 52936. Or is it 81053? ",
    "We need the key. The line reads 40718, but also 52936.\nSo 81053? ",
    "It is 40718. <b>Surely</b> not [1] or 52936 < 81053. ",
]
VALUE, OTHERS = "40718", ("52936", "81053")


@pytest.mark.parametrize(("opening", "closing"), MARKS + UNKNOWN)
def test_the_answer_is_what_follows_the_end_and_nothing_before_it(
    opening: str, closing: str
) -> None:
    for thought, (answer, outcome) in itertools.product(
        THOUGHTS,
        [
            ("The pass key is 40718.", Outcome.HIT),
            ("It is 52936.", Outcome.WRONG),
            ("No.", Outcome.MISS),
        ],
    ):
        said = f"{opening}{thought}{closing}{answer}"
        assert spoken(said).answer == answer
        assert classify(said, VALUE, OTHERS, chat=True) is outcome


@pytest.mark.parametrize(("opening", "closing"), MARKS + UNKNOWN)
def test_thinking_that_was_cut_off_is_no_answer_whatever_it_quotes(
    opening: str, closing: str
) -> None:
    for thought in THOUGHTS:
        found = spoken(f"{opening}{thought}", cut=True)
        assert (found.open, found.answer) == (True, "")
        assert classify(opening + thought, VALUE, OTHERS, chat=True, cut=True) is Outcome.THINKING
    # Nor is an end that has only begun.
    half = closing.strip()[: len(closing.strip()) // 2]
    assert spoken(f"{opening}It is 40718 {half}", cut=True).open


@pytest.mark.parametrize(("opening", "closing"), MARKS[:8] + UNKNOWN[:4])
def test_thinking_that_the_prompt_opened_goes_on_from_there(opening: str, closing: str) -> None:
    before = f"Which?<|im_end|>\n<|im_start|>assistant\n{opening}"
    assert spoken(f"40718? {closing}52936", before=before).answer == "52936"
    assert spoken("The line says 40718", before=before, cut=True).open
    closed = f"{before}\n{closing}\n"
    assert spoken("The key is 40718", before=closed, cut=True).answer == "The key is 40718"


@pytest.mark.parametrize(
    "text",
    [
        "40718",
        "The pass key of Torn is 40718.",
        "**40718**",
        "[40718]",
        "<b>40718</b> it is",
        "<answer>40718</answer>",
        "<key>40718</key>",
        "The key: 40718 [Source: report]",
        "Final answer: 40718",
        "final40718",
        "40718</s>",
        "I think it is 40718.",
        "Thinking of the report, 40718.",
        "<|channel|>final<|message|>40718<|return|>",
        "Answer:\n40718",
        "(see above) 40718 < 50000",
    ],
)
def test_an_answer_without_thinking_is_left_as_it_is(text: str) -> None:
    for cut in (False, True):
        assert not spoken(text, cut=cut).open
        assert classify(text, VALUE, OTHERS, chat=True, cut=cut) is Outcome.HIT


@pytest.mark.parametrize(
    "end", ["", "\n", "<|im_end|>", "<end_of_turn>\n", "[/INST]", "<|assistant|>"]
)
def test_the_end_of_a_prompt_without_thinking_opens_none(end: str) -> None:
    assert spoken("It is 40718", before=f"Which key?{end}", cut=True).answer == "It is 40718"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<reasoning>a</reasoning>c<thought>b</thought>d", "cd"),
        ("a</think>b", "b"),
        ("a</muse>b", "b"),
        ("a < b, <i>c</i>", "a < b, <i>c</i>"),
        ("<think>a</think>", ""),
    ],
)
def test_blocks_are_taken_out_one_by_one(text: str, left: str) -> None:
    assert spoken(text).answer == left


def test_a_base_answer_thinks_only_where_it_says_so_at_once() -> None:
    assert classify("<think>40718</think> 40718", VALUE, OTHERS, chat=False) is Outcome.HIT
    assert classify("[THINK] 40718", VALUE, OTHERS, chat=False) is Outcome.THINKING
    assert classify("40718 <thought> 52936", VALUE, OTHERS, chat=False) is Outcome.HIT
    assert classify("<muse> 40718", VALUE, OTHERS, chat=False, cut=True) is Outcome.MISS
