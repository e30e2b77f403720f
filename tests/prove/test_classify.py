from __future__ import annotations

import pytest

from ropewalk.prove.cells import Outcome
from ropewalk.prove.classify import classify, named_values, strip_thinking

HIT, MISS, WRONG = Outcome.HIT, Outcome.MISS, Outcome.WRONG
VALUE, OTHERS = "40718", ("52936", "81053")


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        (" 40718", HIT),
        ("40718. Remember that", HIT),
        ("\n40718", HIT),
        (" 40718 52936", HIT),
        (" 40718,5", HIT),
        (" 407185", MISS),
        (" 4071", MISS),
        (" 140718", MISS),
        (" 40,718", MISS),
        (" the number 40718", MISS),
        (": 40718", MISS),
        (" -40718", MISS),
        (" 52936", WRONG),
        (" 81053 40718", WRONG),
        (" 529361", MISS),
        ("", MISS),
        (" ", MISS),
        (" ４０７１８", MISS),
    ],
)
def test_a_base_answer_is_the_number_printed_first(printed: str, outcome: Outcome) -> None:
    assert classify(printed, VALUE, OTHERS, chat=False) is outcome


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ("40718", HIT),
        ("The pass key of Barcora is **40718**.", HIT),
        ("It is 40718, that is 40718!", HIT),
        ("Line 12 says 40718", HIT),
        ("Is it 40718 or 52936?", MISS),
        ("52936", WRONG),
        ("Either 52936 or 81053", WRONG),
        ("I found no pass key.", MISS),
        ("407181", MISS),
        ("40 718", MISS),
        ("", MISS),
        ("<think>Is it 52936? No.</think>40718", HIT),
        ("<think>It is 40718.</think>\n52936", WRONG),
        ("<think>It is 40718.</think>\nI cannot say.", MISS),
        ("<think>It must be 40718", MISS),
        ("40718 <think>or 52936", HIT),
        ("so 52936, hm</think>40718", HIT),
        ("<Thinking>52936</Thinking> 40718", HIT),
        ("<think>a</think>40718<think>52936</think>", HIT),
        ("<think>\n\n</think>\n\n40718", HIT),
        ("<thinking>52936 </think> 81053</thinking>40718", HIT),
    ],
)
def test_a_chat_answer_names_the_value_and_no_other(printed: str, outcome: Outcome) -> None:
    assert classify(printed, VALUE, OTHERS, chat=True) is outcome


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a\nb</think>\n\nc", "c"),
        ("<reasoning>a</reasoning>c<thought>b</thought>d", "cd"),
        ("a</think>b", "b"),
        ("a<think>b", "a"),
        ("a < b, <i>c</i>", "a < b, <i>c</i>"),
    ],
)
def test_thinking_is_taken_out(text: str, left: str) -> None:
    assert strip_thinking(text) == left


def test_numbers_are_whole_runs_of_digits() -> None:
    assert named_values("a12b 3.45, 6,789 -0") == ["12", "3", "45", "6", "789", "0"]
