from __future__ import annotations

import pytest

from ropewalk.proof.cells import Outcome
from ropewalk.proof.classify import classify, credit

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
        (" ４０７１８", HIT),
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
        ("<think>It must be 40718", Outcome.THINKING),
        ("40718 <think>or 52936", Outcome.THINKING),
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
    ("printed", "value", "outcome"),
    [
        ("$38.50", "38.50", HIT),
        ("38.50.", "$38.50", HIT),
        ("March  14th", "March 14", MISS),
        ("march 14, he said", "March 14", HIT),
        ("“Violin”", "violin", HIT),
        ("violins", "violin", MISS),
        ("KX\u2013417\u2013QD", "KX-417-QD", HIT),
        ("three ships", "3", HIT),
        ("Three.", "3", HIT),
        ("30", "3", MISS),
        ("straße", "STRASSE", HIT),
    ],
)
def test_answers_are_equal_after_normalising(printed: str, value: str, outcome: Outcome) -> None:
    assert classify(printed, value, ("9",), chat=False) is outcome


@pytest.mark.parametrize(
    ("printed", "base", "chat", "share"),
    [
        ("12, 34, 56", HIT, HIT, 1),
        ("56, 12 and 34.\nQuestion: 99", HIT, MISS, 1),
        ("56; 34 & 12", HIT, HIT, 1),
        ("12, 34", MISS, MISS, 2 / 3),
        ("12, 34, 99", MISS, MISS, 2 / 3),
        ("12, 34, 56, 99", MISS, MISS, 1),
        ("12, 34, 56, 78", MISS, HIT, 1),
        ("99", WRONG, WRONG, 0),
        ("123, 345, 567", MISS, MISS, 0),
        ("", MISS, MISS, 0),
    ],
)
def test_several_values_are_a_set_and_right_only_as_a_whole(
    printed: str, base: Outcome, chat: Outcome, share: float
) -> None:
    assert classify(printed, "12, 34, 56", ("99",), chat=False) is base
    assert classify(printed, "12, 34, 56", ("99",), chat=True) is chat
    # Partial credit looks at what was named, in a base answer on its first line.
    assert credit(printed, "12, 34, 56", chat=False) == pytest.approx(share)


def test_a_count_must_be_the_only_number_named() -> None:
    others = tuple(str(n) for n in range(21) if n != 4)
    assert classify("There were four of them.", "4", others, chat=True) is HIT
    assert classify("Four or five.", "4", others, chat=True) is MISS
    assert classify("Five.", "4", others, chat=True) is WRONG


@pytest.mark.parametrize(
    ("printed", "outcome"),
    [
        ("There are 3 ships.", HIT),
        ("There are 3,000 ships.", MISS),
        ("There are 3.5 ships.", MISS),
        ("Between them 12.3 ships.", MISS),
        ("There are 9,000 ships.", MISS),
        ("9 ships", WRONG),
        ("1, 2, 3", HIT),
    ],
)
def test_a_number_is_not_said_by_a_longer_one(printed: str, outcome: Outcome) -> None:
    assert classify(printed, "3", ("9",), chat=True) is outcome


@pytest.mark.parametrize(
    ("printed", "value", "base", "chat"),
    [
        ("tramway", "tram", MISS, MISS),
        ("Leatramfield", "tram", MISS, MISS),
        ("cafe\u0301s", "cafe", MISS, MISS),
        ("रामायण", "राम", MISS, MISS),
        ("北京。", "北京", HIT, HIT),
        ("答案是北京。", "北京", MISS, HIT),
    ],
)
def test_a_word_is_not_said_by_a_longer_one_in_any_script(
    printed: str, value: str, base: Outcome, chat: Outcome
) -> None:
    assert classify(printed, value, (), chat=False) is base
    assert classify(printed, value, (), chat=True) is chat
    # What would not be right is no confusion either.
    assert (classify(printed, "x", (value,), chat=False) is WRONG) == (base is HIT)
