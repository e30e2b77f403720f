"""Whether the facts that name a run hold all that its prompts depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from ropewalk.proof.cells import Cell, Prompt, Sharing
from ropewalk.proof.facts import RunFacts, folder_name, hash_by, with_settings, with_sharing
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.plan import make_plan
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.tokens import Tokens

CHAT = (
    "{% for message in messages %}<|{{ message.role }}|>\n{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
TEXT = tuple(
    f"{what} {how} the {where}, as the keeper wrote in that {when}."
    for what in ("Rain", "Wood", "Bread", "Salt")
    for how in ("came before", "stood behind", "was worth more than", "lay beneath")
    for where in ("gate", "mill", "harbour", "old road", "well")
    for when in ("spring", "autumn", "winter")
)


@dataclass(frozen=True)
class Way:
    """Everything that a proof can be told about its prompts, and some things that are not."""

    sharing: Sharing = Sharing.BRANCHES
    lengths: tuple[int, ...] = (400, 640)
    depths: tuple[float, ...] = (0.0, 0.5, 1.0)
    trials: int = 2
    controls: int = 1
    seed: int = 0
    chat: bool = False
    answer_tokens: int = 24
    distractors: int = 0
    tasks: tuple[str, ...] = ("single",)
    text: tuple[str, ...] | None = None


OTHERS: list[dict[str, Any]] = [
    {"lengths": (640,)},
    {"lengths": (400,)},
    {"lengths": (400, 500, 640)},
    {"depths": (0.0, 0.5)},
    {"depths": (0.0, 0.25, 0.5, 1.0)},
    {"trials": 3},
    {"controls": 0},
    {"controls": 2},
    {"seed": 1},
    {"chat": True},
    {"chat": True, "answer_tokens": 40},
    {"answer_tokens": 40},
    {"distractors": 2},
    {"tasks": ("single", "order")},
    {"text": TEXT},
    {"text": TEXT[1:]},
]


def facts_of(way: Way, tokens: Tokens) -> RunFacts:
    settings = ProofSettings(
        "m",
        seed=way.seed,
        distractors=way.distractors,
        answer_tokens=way.answer_tokens,
        tasks=way.tasks,
    )
    style = "chat template" if way.chat else "base prompt"
    facts = RunFacts(tokenizer=tokens.fingerprint(), chat=style)
    facts = with_settings(facts, settings, way.text, None, chat=way.chat)
    return with_sharing(facts, way.sharing, way.lengths, way.depths)


def prompts_of(way: Way, tokens: Tokens) -> dict[Cell, Prompt]:
    """Every prompt of a way of asking."""
    alone = PromptMaker(
        tokens, way.seed, way.chat, way.distractors, way.answer_tokens, sentences=way.text
    )
    nested = way.sharing is Sharing.BRANCHES
    make = GappedMaker(alone, way.lengths, way.depths) if nested else alone
    plan = make_plan(way.lengths, way.depths, way.trials, way.controls, way.tasks)
    return {cell: make(cell) for cell in plan.cells}


@pytest.fixture(scope="module")
def tokens(tiny_tokenizer: Callable[[str], Any]) -> Tokens:
    made = tiny_tokenizer("bare")
    made.chat_template = CHAT
    return Tokens(made)


@pytest.mark.parametrize("sharing", [Sharing.BRANCHES, Sharing.PREFIX])
def test_runs_of_one_name_ask_a_cell_by_one_prompt_and_other_prompts_make_another_name(
    sharing: Sharing, tokens: Tokens
) -> None:
    """A sweep over neighbours: what decides a prompt is in the name, whatever the plan is."""
    ways = [replace(Way(sharing), **other) for other in ({}, *OTHERS)]
    if sharing is Sharing.BRANCHES:
        ways = [way for way in ways if not way.distractors]
    facts = [facts_of(way, tokens) for way in ways]
    prompts = [prompts_of(way, tokens) for way in ways]
    names = [folder_name("m", each) for each in facts]
    met = 0
    for (i, one), (j, other) in product(enumerate(prompts), repeat=2):
        both = one.keys() & other.keys()
        if names[i] == names[j]:
            assert all(one[cell] == other[cell] for cell in both), (ways[i], ways[j])
            assert all(
                hash_by(facts[i])(one[cell]) == hash_by(facts[j])(other[cell]) for cell in both
            )
            met += i != j and bool(both)
    # Trials and controls never make another run; lengths and depths do where they share a document.
    assert met >= 12
    names_of = dict(zip(ways, names, strict=True))
    base = Way(sharing)
    longer = replace(base, lengths=(640,)), replace(base, depths=(0.0, 0.5))
    assert {names_of[base] == names_of[each] for each in longer} == {sharing is Sharing.PREFIX}
