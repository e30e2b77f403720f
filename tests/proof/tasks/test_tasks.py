"""Every task: one right answer, told by what is hidden and by nothing else; chance simulated."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.errors import UsageError
from ropewalk.proof.cells import Cell, Control, Outcome
from ropewalk.proof.classify import classify
from ropewalk.proof.needles import Problem, Task, corrected
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tasks.suite import SUITES, TASKS, parse_tasks, suite
from ropewalk.proof.tokens import Tokens

EACH = pytest.mark.parametrize("name", list(TASKS))
DEPTHS = st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0])


def text_of(problem: Problem, depth: float) -> str:
    """The hidden sentences in the order of their places, as a reader meets them."""
    places = [depth if each.share is None else each.share for each in problem.hidden]
    order = sorted(range(len(places)), key=lambda i: places[i])
    return " ".join(problem.hidden[i].sentence for i in order)


def solve(name: str, text: str, problem: Problem) -> list[str]:
    """The answer by the task's own rule from the text and the question alone."""
    keys = dict(re.findall(r"pass key of (\w+) is (\d+)", text))
    asked = re.findall(r"[A-Z]\w+", problem.question)[1:]
    if name in ("single", "many-keys", "many-queries"):
        return [keys[key] for key in asked]
    if name == "many-values":
        return re.findall(rf"One of the pass keys of {asked[0]} is (\d+)", text)
    if name == "variables":
        is_value = dict(re.findall(r"variable (\w+) is (\d+)", text))
        is_name = dict(re.findall(r"variable (\w+) is equal to (\w+)", text))
        at = asked[0]
        while at in is_name:
            at = is_name[at]
        return [is_value[at]]
    if name == "common-words":
        return [Counter(re.findall(r"cast for (\w+)", text)).most_common(1)[0][0]]
    if name == "frequent-words":
        return [mark for mark, _ in Counter(re.findall(r"Mark: (\w+)", text)).most_common(3)]
    if name == "count":
        return [str(len(re.findall(r"ship \w+ has arrived", text)))]
    if name == "order":
        return re.findall(r"ship (\w+) has arrived", text)[:1]
    if name == "join":
        house = dict(re.findall(r"(\w+) is where one finds (\w+)", text))[asked[0]]
        return re.findall(rf"(\w+) slept at the {house} house", text)
    changed = re.findall(r"pass key of \w+ was changed: the new one is (\d+)", text)
    return [changed[-1]]


@EACH
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), depth=DEPTHS, length=st.sampled_from([0, 512, 4096]))
def test_the_right_answer_follows_from_what_is_hidden(
    name: str, seed: int, depth: float, length: int
) -> None:
    problem = TASKS[name].draw(Random(seed), depth, length)
    assert [each.share for each in problem.hidden].count(None) == 1
    assert all(each.share is None or 0 <= each.share <= 1 for each in problem.hidden)
    text = text_of(problem, depth)
    assert set(solve(name, text, problem)) == set(problem.values)
    assert not set(problem.values) & set(problem.wrong)
    assert len(set(problem.values)) == len(problem.values)
    for chat in (False, True):
        assert classify(problem.value, problem.value, problem.wrong, chat=chat) is Outcome.HIT
        if problem.wrong:
            said = ", ".join(problem.wrong[: len(problem.values)])
            assert classify(said, problem.value, problem.wrong, chat=chat) is Outcome.WRONG
    if name != "count":
        assert set(problem.values) <= set(problem.secret)
        for value in (*problem.values, *problem.wrong):
            assert value in text
    assert problem == TASKS[name].draw(Random(seed), depth, length)


@EACH
def test_chance_is_what_a_guesser_scores(name: str) -> None:
    task, random = TASKS[name], Random(11)
    if name == "single":
        # Counted: every number of five digits whose neighbours differ.
        numbers = [n for n in map(str, range(10000, 100000)) if not re.search(r"(.)\1", n)]
        assert task.chance == pytest.approx(1 / len(numbers))
        return
    rounds = 4000
    hits = 0
    for _ in range(rounds):
        problem = task.draw(random, random.random(), 0)
        answers = [*problem.values, *problem.wrong]
        if name == "count":
            answers = [str(n) for n in range(2, 8)]
        guess = set(random.sample(answers, len(problem.values)))
        hits += guess == set(problem.values)
    spread = (task.chance * (1 - task.chance) / rounds) ** 0.5
    assert abs(hits / rounds - task.chance) < 4.5 * spread


def test_correcting_for_chance_gives_nothing_for_guessing_and_all_for_all_right() -> None:
    assert corrected(0.25, 0.25) == 0
    assert corrected(1.0, 0.25) == 1
    assert corrected(0.625, 0.25) == 0.5
    assert corrected(0.0, 0.5) == -1
    with pytest.raises(ValueError, match="nothing to measure"):
        corrected(1.0, 1.0)


@given(st.integers(0, 10**6), DEPTHS)
def test_the_joined_fact_shares_no_word_with_its_question(seed: int, depth: float) -> None:
    problem = TASKS["join"].draw(Random(seed), depth, 0)
    fact = next(each.sentence for each in problem.hidden if each.share is None)
    words = {word.casefold() for word in re.findall(r"\w+", problem.question)}
    assert not words & {word.casefold() for word in re.findall(r"\w+", fact)}


@given(st.integers(0, 10**6))
def test_near_duplicates_differ_from_the_key_by_one_letter(seed: int) -> None:
    problem = TASKS["many-keys"].draw(Random(seed), 0.5, 0)
    keys = {re.findall(r"pass key of (\w+) is", each.sentence)[0] for each in problem.hidden}
    assert len(keys) == len(problem.hidden)
    for key in keys - {problem.key}:
        assert len(key) == len(problem.key)
        assert sum(a != b for a, b in zip(key, problem.key, strict=True)) == 1


@EACH
@pytest.mark.parametrize("kind", ["bos", "metaspace"])
def test_prompts_of_a_task_have_their_length_and_the_answer_follows_from_their_text(
    name: str, kind: str, tiny_tokenizer: Callable[[str], Any]
) -> None:
    make = PromptMaker(Tokens(tiny_tokenizer(kind)))
    for depth in (0.0, 0.5, 1.0):
        prompt = make(Cell(1600, depth, 0, task=name))
        assert prompt.length == 1600
        problem = Problem((), prompt.text.split("Question: ")[1], "", (), prompt.key)
        question = problem.question.split("\n")[0]
        body = prompt.text.split("\n\n")[1]
        found = solve(name, body, Problem((), question, "", (), prompt.key))
        assert set(found) == set(prompt.value.split(", "))
        if name not in ("order", "variables", "many-values"):
            assert abs(prompt.depth - depth) < 0.25
    bare = make(Cell(0, 0.0, 0, Control.NEEDLE_ONLY, task=name))
    assert bare.length <= make.minimum(name)


@EACH
def test_without_its_needle_a_prompt_does_not_tell_the_answer(
    name: str, tiny_tokenizer: Callable[[str], Any]
) -> None:
    make = PromptMaker(Tokens(tiny_tokenizer("bos")))
    prompt = make(Cell(1600, 0.0, 0, Control.NO_NEEDLE, name))
    assert prompt.length == 1600
    body = prompt.text.split("\n\n")[1]
    question = prompt.text.split("Question: ")[1].split("\n")[0]
    if name == "count":
        assert solve(name, body, Problem((), question, "", (), "")) != [prompt.value]
    else:
        assert not [value for value in prompt.value.split(", ") if value in body]


def test_suites_hold_known_tasks_and_grow() -> None:
    quick, standard, full = (set(suite(name)) for name in ("quick", "standard", "full"))
    assert quick < standard < full == set(TASKS)
    assert set(SUITES) == {"quick", "standard", "full"}
    assert parse_tasks("single, order") == ("single", "order")
    with pytest.raises(UsageError, match="no task 'orders'"):
        parse_tasks("orders")
    with pytest.raises(UsageError, match="order is given twice"):
        parse_tasks("order,order")
    with pytest.raises(UsageError, match="no suite 'all'"):
        suite("all")


def test_a_task_is_one_of_the_protocol() -> None:
    task: Task
    for name, task in TASKS.items():
        assert task.name == name
        assert 0 <= task.chance <= 0.5
