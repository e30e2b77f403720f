"""When a value that was said needs nothing decoded behind it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from ropewalk.proof.cells import Cell, Prompt
from ropewalk.proof.subjects.calls import Judge

WORDS = ["</s>", "7", "s", ".", ",", " and", "\n", " The", "\u0301", "\ufffd"]


class Vocabulary:
    """Decodes ids of WORDS."""

    def decode(self, ids: list[int]) -> str:
        return "".join(WORDS[i] for i in ids)


def settled(value: str, follows: str, *, chat: bool = False) -> bool:
    prompt = Prompt(Cell(9, 0.0, 0), (1,), (1,), 0, 0.0, "key", value, (), "text")
    judge = Judge(cast("Any", Vocabulary()), frozenset({0}), chat=chat)
    logits = torch.zeros(2, len(WORDS))
    logits[0, 1] = logits[1, WORDS.index(follows)] = 5.0
    return judge.settled(judge.hear(logits, prompt))


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
    assert settled("violin", follows) is one
    assert settled("violin, flute", follows) is several
    assert settled("violin", follows, chat=True) is (follows == "</s>")
