"""From what a model printed to an outcome. Text only.

A base prompt ends in the beginning of the answer, so what is printed first is the answer. A
chat answer is free text: thinking is taken out, and the values named in the rest decide.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.prove.cells import Outcome

_THINKING = re.compile(r"<(think|thinking|thought|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.I)
_CLOSING = re.compile(r"\A.*</(think|thinking|thought|reasoning)>", re.DOTALL | re.I)


def strip_thinking(text: str) -> str:
    """The text without <think>...</think> and its kin.

    A block that never closes goes on to the end; one whose opening stood in the prompt, as some
    templates have it, goes from the start to its closing tag.
    """
    return _CLOSING.sub("", _THINKING.sub("", text)).strip()


def named_values(text: str) -> list[str]:
    """The runs of digits in a text, in order; separators inside a number are not looked through."""
    return re.findall(r"\d+", text)


def classify(printed: str, value: str, distractors: Sequence[str], *, chat: bool) -> Outcome:
    """HIT, WRONG or MISS for a decoded answer.

    A base answer is the first number printed, at the very start. A chat answer is right when,
    thinking taken out, it names the value and no other needle's value; it is WRONG when it
    names another needle's value and not the right one. Naming both is a MISS: a model that
    lists everything has not answered.
    """
    if chat:
        named = set(named_values(strip_thinking(printed)))
    else:
        start = re.match(r"\s*(\d+)", printed)
        named = {start.group(1)} if start else set()
    others = named & set(distractors)
    if value in named:
        return Outcome.MISS if others else Outcome.HIT
    return Outcome.WRONG if others else Outcome.MISS
