"""From what a model printed to an outcome. Text only.

Answers are compared whole (`ropewalk.proof.naming`), never as pieces of longer words or
numbers. A base prompt ends in the beginning of the answer, so what is printed first is the
answer. A chat answer is free text: thinking is taken out, and the values named in the rest
decide. An answer of several values is a set: right when it holds all of them and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.proof.cells import Outcome
from ropewalk.proof.naming import begins_with, names, normalise

LIST = ", "
"""Between the values of an answer that has several."""
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


def named(text: str, values: Sequence[str]) -> set[str]:
    """Which of the values a text names, as whole words and numbers, after normalising."""
    return {value for value in values if names(text, value)}


def credit(printed: str, value: str, *, chat: bool) -> float:
    """The share of the values of an answer that were named, from 0 to 1."""
    values = value.split(LIST)
    text = strip_thinking(printed) if chat else _first_line(printed)
    return len(named(text, values)) / len(values)


def classify(printed: str, value: str, distractors: Sequence[str], *, chat: bool) -> Outcome:
    """HIT, WRONG or MISS for a decoded answer; `value` may be several, with LIST between.

    A base answer is what is printed at the very start: the value, or for several a list that
    ends with the line or the sentence. A chat answer is right when, thinking taken out, it names
    the value and no other needle's value; it is WRONG when it names another needle's value and
    not the right one. Naming both is a MISS: a model that lists everything has not answered. So
    is a part of several values.
    """
    values = value.split(LIST)
    if chat:
        text = strip_thinking(printed)
        right, others = named(text, values), named(text, distractors)
    elif len(values) > 1:
        items = [part for part in re.split(r",|;|&|\band\b", _first_line(printed)) if part.strip()]
        right = {each for each in values if any(_is(item, each) for item in items)}
        others = {each for each in distractors if any(_is(item, each) for item in items)}
        if len(items) > len(right) + len(others):
            return Outcome.WRONG if others and not right else Outcome.MISS
    else:
        right = {each for each in values if begins_with(printed, each)}
        others = {each for each in distractors if begins_with(printed, each)}
    if len(right) == len(set(values)):
        return Outcome.MISS if others else Outcome.HIT
    return Outcome.WRONG if others and not right else Outcome.MISS


def _is(item: str, value: str) -> bool:
    return normalise(item).strip(" .!?:()") == normalise(value)


def _first_line(printed: str) -> str:
    """Up to the end of the first line or sentence."""
    return re.split(r"\n|(?<=\w)[.!?](?=\s|$)", printed.lstrip(), maxsplit=1)[0]
