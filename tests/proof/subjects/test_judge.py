"""When a value that was said needs nothing decoded behind it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from ropewalk.proof.cells import Cell, Outcome, Prompt
from ropewalk.proof.subjects.calls import Greedy, Judge, TeacherForced

WORDS = ["</s>", "7", "s", ".", ",", " and", "\n", " The", "\u0301", "\ufffd"]


class Vocabulary:
    """Decodes ids of WORDS."""

    def decode(self, ids: list[int]) -> str:
        return "".join(WORDS[i] for i in ids)


def is_hit(value: str, follows: str, *, chat: bool = False) -> bool:
    prompt = Prompt(Cell(9, 0.0, 0), (1,), (1,), 0, 0.0, "key", value, (), "text")
    judge = Judge(cast("Any", Vocabulary()), frozenset({0}), chat=chat)
    logits = torch.zeros(2, len(WORDS))
    logits[0, 1] = logits[1, WORDS.index(follows)] = 5.0
    return judge.is_hit(judge.teacher_forced(logits, prompt))


@pytest.mark.parametrize(
    ("follows", "one", "several"),
    [
        ("</s>", True, True),
        (".", True, True),
        ("\n", True, True),
        ("7", False, False),
        ("s", False, False),
        ("\u0301", False, False),
        ("\ufffd", False, False),
        (",", True, False),
        (" and", True, False),
        (" The", True, False),
    ],
)
def test_a_value_ends_where_no_letter_digit_or_further_item_follows(
    follows: str, one: bool, several: bool
) -> None:
    assert is_hit("violin", follows) is one
    assert is_hit("violin, flute", follows) is several
    assert is_hit("violin", follows, chat=True) is (follows == "</s>")


MARKED = [
    "</s>",
    "[THINK]",
    "[/THINK]",
    "52936",
    "40718",
    " It is ",
    "analysis",
    "assistant",
    "final",
]
SPECIAL = {0, 1, 2}


class Marked:
    """Decodes ids of MARKED; as transformers does, without special tokens where they are no use."""

    def decode(self, ids: list[int], *, special: bool = False) -> str:
        return "".join(MARKED[i] for i in ids if special or i not in SPECIAL)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ([1, 3, 5, 4, 2, 5, 4, 0], Outcome.HIT),
        ([1, 5, 4, 2, 5, 3, 0], Outcome.WRONG),
        ([1, 3, 5, 4, 5, 4, 5, 4], Outcome.THINKING),
        ([6, 5, 3, 7, 8, 5, 4, 0], Outcome.HIT),
        ([6, 5, 3, 5, 4, 5, 4, 5], Outcome.THINKING),
        ([5, 4, 0], Outcome.HIT),
    ],
)
def test_a_model_run_here_may_think_in_special_tokens(said: list[int], outcome: Outcome) -> None:
    prompt = Prompt(Cell(9, 0.0, 0), (1,), (4,), 0, 0.0, "key", "40718", ("52936",), "text", 8)
    judge = Judge(cast("Any", Marked()), frozenset({0}), chat=True)
    forced = TeacherForced(prompt, -1.0, (said[0], 0), 0)
    answer = judge.answer(forced, Greedy(said, 8, frozenset({0})), 0.0)
    assert answer.outcome is outcome
    assert "</s>" not in answer.printed
