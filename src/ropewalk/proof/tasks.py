"""What can be asked of a long text, by name: data of this project's own.

One fact, facts beside facts like them, facts that must be put together, and what only the whole
text answers. `ropewalk.proof.own` asks about the user's documents. A new task is a function here
that draws a `Problem`, under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import comb
from random import Random
from types import MappingProxyType

from ropewalk.errors import UsageError
from ropewalk.proof.needles import (
    Fact,
    Hidden,
    Problem,
    Task,
    at_depth,
    draw_needle,
    draw_needles,
    draw_words,
    listed,
)
from ropewalk.proof.words import VALUE_DIGITS

_CONSONANTS = "bdfghklmnprstvwz"
_REPORT = "A long report follows."
_ASKED_AT_END = "will be asked for at the end."
_KEYS = f"{_REPORT} Some lines in it give pass keys, which {_ASKED_AT_END}"
_SHIPS = f"{_REPORT} Some lines in it say that a ship has arrived. At the end it will be asked"

DECOYS, LIKE_IT, PEOPLE, CANDIDATES = 8, 3, 3, 7
"""Keys like the one asked for; values or keys asked for together; people in a join; candidates."""
CHAINS, HOPS = 3, 3
FEWEST, MOST = 2, 7
"""Ships to count."""
OFTEN = (8, 6, 4, 2, 1, 1)
"""How often each mark comes in a round: as often falls in a language."""
_ROUND = 1024
"""Tokens of text in which every candidate gets its votes once."""

_TASKS: dict[str, Task] = {}


def _task(name: str, introduction: str, chance: float) -> Callable[[_Draw], _Draw]:
    """Enter a function as the task of a name; `chance` is what one scores who guesses."""

    def enter(draw: _Draw) -> _Draw:
        _TASKS[name] = Task(name, introduction, chance, draw)
        return draw

    return enter


_Draw = Callable[[Random, float, int], Problem]


def single(distractors: int = 0) -> Task:
    """The pass key of one made-up word; `distractors` more of them stand at random depths."""
    return Task(
        "single",
        f"{_REPORT} One line in it gives a pass key, which {_ASKED_AT_END}",
        # Nine first digits, and nine others for each that follows: neighbours differ.
        9.0**-VALUE_DIGITS,
        lambda random, depth, _: _among(draw_needles(random, 1 + distractors), random, depth),
    )


_TASKS["single"] = single()


def _among(needles: list[Fact], random: Random, depth: float) -> Problem:
    """The first of some facts is asked for, at the cell's depth; the others stand anywhere."""
    target, others = needles[0], needles[1:]
    beside = [Hidden(other.sentence, random.random()) for other in others]
    return replace(
        target.problem(tuple(other.value for other in others)),
        hidden=at_depth(depth, target.sentence, beside),
        secret=_secret(needles),
    )


def _secret(needles: list[Fact]) -> tuple[str, ...]:
    return tuple(text for needle in needles for text in (needle.key, needle.value))


@_task("many-keys", _KEYS, 1 / (1 + DECOYS))
def many_keys(random: Random, depth: float, _length: int) -> Problem:
    """The pass key of one word among DECOYS whose words differ from it by one letter."""
    needles = [draw_needle(random)]
    while len(needles) <= DECOYS:
        other = draw_needle(random, needles)
        key = near_duplicate(random, needles[0].key)
        if all(key != needle.key for needle in needles):
            needles.append(replace(other, key=key))
    return _among(needles, random, depth)


def near_duplicate(random: Random, key: str) -> str:
    """The key with one consonant inside exchanged: Barcora, Barmora."""
    places = [i for i in range(1, len(key)) if key[i] in _CONSONANTS]
    place = random.choice(places)
    other = random.choice([c for c in _CONSONANTS if c != key[place]])
    return f"{key[:place]}{other}{key[place + 1 :]}"


@_task("many-values", _KEYS, 1 / comb(2 * LIKE_IT, LIKE_IT))
def many_values(random: Random, depth: float, _length: int) -> Problem:
    """All LIKE_IT pass keys of one word, with as many of another word anywhere beside."""
    needles = draw_needles(random, 2 * LIKE_IT)
    key, other = needles[0].key, needles[1].key
    said = [
        f"One of the pass keys of {key if i < LIKE_IT else other} is {needle.value}."
        for i, needle in enumerate(needles)
    ]
    # The answer is given in the order of the text, which a base model would follow.
    shares = [depth, *(random.random() for _ in said[1:])]
    asked = sorted(range(LIKE_IT), key=lambda i: shares[i])
    beside = [Hidden(text, share) for text, share in zip(said[1:], shares[1:], strict=True)]
    return Problem(
        hidden=at_depth(depth, said[0], beside),
        question=f"What are the {LIKE_IT} pass keys of {key}?",
        opening=f"The pass keys of {key} are",
        values=tuple(needles[i].value for i in asked),
        key=key,
        wrong=tuple(needle.value for needle in needles[LIKE_IT:]),
        secret=(key, other, *(needle.value for needle in needles)),
        noun=f"{LIKE_IT} pass keys",
    )


@_task("many-queries", _KEYS, 1 / comb(2 * LIKE_IT, LIKE_IT))
def many_queries(random: Random, depth: float, _length: int) -> Problem:
    """The pass keys of LIKE_IT words in one question, with as many words anywhere beside."""
    needles = draw_needles(random, 2 * LIKE_IT)
    asked = random.sample(needles[:LIKE_IT], LIKE_IT)
    keys = listed([needle.key for needle in asked])
    beside = [Hidden(needle.sentence, random.random()) for needle in needles[1:]]
    return Problem(
        hidden=at_depth(depth, needles[0].sentence, beside),
        question=f"What are the pass keys of {keys}?",
        opening=f"The pass keys of {keys} are",
        values=tuple(needle.value for needle in asked),
        key=keys,
        wrong=tuple(needle.value for needle in needles[LIKE_IT:]),
        secret=_secret(needles),
        noun="pass keys",
    )


@_task(
    "variables",
    f"{_REPORT} Some lines in it give values to variables, one of which {_ASKED_AT_END}",
    1 / CHAINS,
)
def variables(random: Random, depth: float, _length: int) -> Problem:
    """The value at the end of a chain of HOPS assignments, with CHAINS - 1 other chains anywhere.

    The last link stands at the cell's depth, earlier ones before it.
    """
    words = draw_words(random, CHAINS * (HOPS + 1))
    values = [needle.value for needle in draw_needles(random, CHAINS)]
    hidden: list[Hidden] = []
    for chain, value in enumerate(values):
        names = words[chain * (HOPS + 1) : (chain + 1) * (HOPS + 1)]
        links = [f"The variable {names[0]} is {value}."]
        links += [f"The variable {b} is equal to {a}." for a, b in pairwise(names)]
        end = depth if chain == 0 else random.random()
        shares = sorted(random.uniform(0, end) for _ in links[1:])
        hidden += [Hidden(link, share) for link, share in zip(links, shares, strict=False)]
        hidden.append(Hidden(links[-1], None if chain == 0 else end))
    asked = words[HOPS]
    return Problem(
        hidden=tuple(hidden),
        question=f"What number is the value of the variable {asked}?",
        opening=f"The value of the variable {asked} is the number",
        values=(values[0],),
        key=asked,
        wrong=tuple(values[1:]),
        secret=(*words, *values),
        noun="number",
    )


@_task(
    "common-words",
    f"{_REPORT} Some lines in it are votes for candidates. At the end it will be asked who got "
    "the most votes.",
    1 / CANDIDATES,
)
def common_words(random: Random, _depth: float, length: int) -> Problem:
    """Who got the most votes of all: three times as many as each of the others.

    The winner's middle vote stands at the cell's depth, all others anywhere; votes are in
    proportion to the length.
    """
    names = draw_words(random, CANDIDATES)
    rounds = _rounds(length)
    cast = [names[0]] * (3 * rounds - 1) + [n for n in names[1:] for _ in range(rounds)]
    beside = [Hidden(f"A vote was cast for {name}.", random.random()) for name in cast]
    return Problem(
        hidden=(Hidden(f"A vote was cast for {names[0]}."), *beside),
        question="For whom were the most votes cast?",
        opening="The most votes were cast for",
        values=(names[0],),
        key="the most votes",
        wrong=tuple(names[1:]),
        secret=tuple(names),
        noun="name",
    )


@_task(
    "frequent-words",
    f"{_REPORT} Some lines in it name the mark on a parcel. At the end the three marks that came "
    "most often will be asked for.",
    1 / comb(len(OFTEN), 3),
)
def frequent_words(random: Random, _depth: float, length: int) -> Problem:
    """The three marks that come most often, by the length; one stands at the cell's depth."""
    marks = draw_words(random, len(OFTEN))
    rounds = _rounds(length)
    said = [m for m, often in zip(marks, OFTEN, strict=True) for _ in range(often * rounds)]
    beside = [Hidden(f"Mark: {mark}.", random.random()) for mark in said[1:]]
    return Problem(
        hidden=(Hidden(f"Mark: {said[0]}."), *beside),
        question="Which three marks came most often?",
        opening="The three marks that came most often are",
        values=tuple(marks[:3]),
        key="the most frequent marks",
        wrong=tuple(marks[3:]),
        secret=tuple(marks),
        noun="three marks",
    )


def _rounds(length: int) -> int:
    return max(1, length // _ROUND)


@_task("order", f"{_SHIPS} which ship was the first.", 1 / 3)
def order(random: Random, depth: float, _length: int) -> Problem:
    """Which of three ships arrived first: it stands at the cell's depth, the others behind it."""
    ships = draw_words(random, 3)
    later = sorted(random.uniform(depth, 1) for _ in ships[1:])
    named = listed(random.sample(ships, 3))
    said = [f"The ship {ship} has arrived." for ship in ships]
    behind = (Hidden(text, share) for text, share in zip(said[1:], later, strict=True))
    return Problem(
        hidden=(Hidden(said[0]), *behind),
        question=f"Which of the ships {named} was the first to arrive?",
        opening="The first ship to arrive was the ship",
        values=(ships[0],),
        key=named,
        wrong=tuple(ships[1:]),
        secret=tuple(ships),
        noun="name",
    )


@_task("count", f"{_SHIPS} how many ships have.", 1 / (MOST - FEWEST + 1))
def count(random: Random, depth: float, _length: int) -> Problem:
    """How many ships arrived, of FEWEST to MOST: one at the cell's depth, the others anywhere."""
    ships = draw_words(random, random.randint(FEWEST, MOST))
    said = [f"The ship {ship} has arrived." for ship in ships]
    beside = [Hidden(text, random.random()) for text in said[1:]]
    return Problem(
        hidden=at_depth(depth, said[0], beside),
        question="How many ships have arrived?",
        opening="The number of ships that have arrived is",
        values=(str(len(ships)),),
        key="ships",
        wrong=tuple(str(n) for n in range(21) if n != len(ships)),
        secret=tuple(ships),
        noun="number",
    )


@_task(
    "join",
    f"{_REPORT} Some lines in it tell where people slept, and where houses stand, which "
    f"{_ASKED_AT_END}",
    1 / PEOPLE,
)
def join(random: Random, depth: float, _length: int) -> Problem:
    """A fact that shares no word with its question; lines of a table join the two.

    The table (which house stands in which town) is invented for each prompt and stated in it, so
    that nothing has to be known from elsewhere.
    """
    words = draw_words(random, 3 * PEOPLE)
    people, houses, towns = (words[i::3] for i in range(3))
    facts = [f"{p} slept at the {h} house." for p, h in zip(people, houses, strict=True)]
    table = [f"{t} is where one finds {h}." for t, h in zip(towns, houses, strict=True)]
    beside = [Hidden(text, random.random()) for text in (*facts[1:], *table)]
    return Problem(
        hidden=at_depth(depth, facts[0], beside),
        question=f"Who spent a night in {towns[0]}?",
        opening=f"The one who spent a night in {towns[0]} was",
        values=(people[0],),
        key=towns[0],
        wrong=tuple(people[1:]),
        secret=tuple(words),
        noun="name",
    )


@_task(
    "contradiction",
    f"{_REPORT} A line in it gives a pass key, and a later line changes it. The pass key that "
    "holds at the end will be asked for.",
    0.5,
)
def contradiction(random: Random, depth: float, _length: int) -> Problem:
    """A pass key that is given anywhere before it is changed, at the cell's depth: that holds."""
    first, second = draw_needles(random, 2)
    key = first.key
    return Problem(
        hidden=(
            Hidden(f"The pass key of {key} is {first.value}.", random.uniform(0, depth)),
            Hidden(f"The pass key of {key} was changed: the new one is {second.value}."),
        ),
        question=f"What is the new pass key of {key}?",
        opening=f"The new pass key of {key} is",
        values=(second.value,),
        key=key,
        wrong=(first.value,),
        secret=(key, first.value, second.value),
    )


TASKS: Mapping[str, Task] = MappingProxyType(_TASKS)
"""Every task that needs nothing of the user; that over own documents is made by `read_own`."""

SUITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "quick": ("single", "many-keys", "variables"),
        "standard": tuple(
            name for name in TASKS if name not in ("common-words", "frequent-words", "count")
        ),
        "full": tuple(TASKS),
    }
)
"""Quick: one of each kind of difficulty. Full: all."""


def parse_tasks(text: str) -> tuple[str, ...]:
    """Read "single,many-keys". Raises UsageError for an unknown or repeated name."""
    names = tuple(name.strip() for name in text.split(","))
    known = (*TASKS, "documents")
    for name in names:
        if name not in known:
            raise UsageError(f"there is no task {name!r}; the tasks are {', '.join(known)}")
        if names.count(name) > 1:
            raise UsageError(f"the task {name} is given twice: name each task once")
    return names


def suite(name: str) -> tuple[str, ...]:
    """The tasks of a suite. Raises UsageError for an unknown one."""
    if name not in SUITES:
        raise UsageError(f"there is no suite {name!r}; the suites are {', '.join(SUITES)}")
    return SUITES[name]
