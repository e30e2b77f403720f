"""Kinds of facts: the words around a key and a value, and how a value of the kind looks.

A value is told by its form to be of its kind: a model that answers with another kind's value has
mixed up facts, not digits. Neighbouring digits differ, as in `ropewalk.prove.needle`: what could
be said by stuttering would not have been read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

_LETTERS = "ABCDEFGHJKLMNPRSTVWXYZ"
"""Without those that are read as digits."""
_MONTHS = "January February March April June July August September October November".split()
"""Not May, which is a word besides, and not December, to keep to ten."""
_COLOURS = """blue green red yellow black white orange purple pink brown silver golden scarlet
turquoise crimson violet""".split()
_PETS = """parrot rabbit hamster turtle ferret canary lizard monkey falcon donkey llama otter
squirrel peacock tortoise penguin""".split()
_INSTRUMENTS = """violin trumpet piano flute cello guitar clarinet accordion trombone harp
saxophone banjo tuba oboe bassoon mandolin""".split()
_DISHES = """pancakes spaghetti dumplings lasagna sushi tacos omelettes curry pizza ravioli
porridge burritos kebabs noodles waffles meatballs""".split()


@dataclass(frozen=True, slots=True)
class Kind:
    """`{key}` and `{value}` stand in the texts; `opening` is continued by a space and the value.

    `noun` names what is asked for.
    """

    noun: str
    saying: str
    asking: str
    opening: str
    draw: Callable[[Random], str]


def _digits(random: Random, count: int) -> str:
    value = str(random.randrange(1, 10))
    while len(value) < count:
        digit = str(random.randrange(10))
        value += digit if digit != value[-1] else ""
    return value


def _phone(random: Random) -> str:
    return f"{_digits(random, 3)}-{_digits(random, 4)}"


def _room(random: Random) -> str:
    return f"{random.choice(_LETTERS)}{_digits(random, 2)}"


def _year(random: Random) -> str:
    return f"1{random.choice('5678')}{_digits(random, 2)}"


def _price(random: Random) -> str:
    return f"${_digits(random, 2)}.{random.choice('123456789')}5"


def _time(random: Random) -> str:
    return f"{random.randrange(1, 13)}:{random.randrange(1, 60):02d}"


def _day(random: Random) -> str:
    return f"{random.choice(_MONTHS)} {random.randrange(2, 29)}"


def _plate(random: Random) -> str:
    letters = random.sample(_LETTERS, 4)
    return f"{letters[0]}{letters[1]}-{_digits(random, 3)}-{letters[2]}{letters[3]}"


def _weight(random: Random) -> str:
    return f"{_digits(random, 3)} pounds"


def _one_of(words: list[str]) -> Callable[[Random], str]:
    return lambda random: random.choice(words)


KINDS: tuple[Kind, ...] = (
    Kind(
        "pass key",
        "The pass key of {key} is {value}.",
        "What is the pass key of {key}?",
        "The pass key of {key} is",
        lambda random: _digits(random, 5),
    ),
    Kind(
        "phone number",
        "To call {key}, dial the number {value}.",
        "Which number must one dial to call {key}?",
        "To call {key}, dial the number",
        _phone,
    ),
    Kind(
        "colour",
        "The front door of the {key} hotel is painted {value}.",
        "What colour is the front door of the {key} hotel?",
        "The front door of the {key} hotel is painted",
        _one_of(_COLOURS),
    ),
    Kind(
        "year",
        "The ship {key} was built in the year {value}.",
        "In which year was the ship {key} built?",
        "The ship {key} was built in the year",
        _year,
    ),
    Kind(
        "pet",
        "For a pet, Professor {key} keeps a {value}.",
        "What does Professor {key} keep for a pet?",
        "For a pet, Professor {key} keeps a",
        _one_of(_PETS),
    ),
    Kind(
        "price",
        "A ticket to {key} island costs {value}.",
        "How much does a ticket to {key} island cost?",
        "A ticket to {key} island costs",
        _price,
    ),
    Kind(
        "time",
        "The night train to {key} leaves at {value}.",
        "At what time does the night train to {key} leave?",
        "The night train to {key} leaves at",
        _time,
    ),
    Kind(
        "instrument",
        "In the orchestra, Miss {key} plays the {value}.",
        "Which instrument does Miss {key} play in the orchestra?",
        "In the orchestra, Miss {key} plays the",
        _one_of(_INSTRUMENTS),
    ),
    Kind(
        "birthday",
        "The birthday of King {key} is {value}.",
        "When is the birthday of King {key}?",
        "The birthday of King {key} is",
        _day,
    ),
    Kind(
        "licence plate",
        "The taxi driver {key} has the licence plate {value}.",
        "Which licence plate does the taxi driver {key} have?",
        "The taxi driver {key} has the licence plate",
        _plate,
    ),
    Kind(
        "dish",
        "The restaurant {key} is famous for its {value}.",
        "What is the restaurant {key} famous for?",
        "The restaurant {key} is famous for its",
        _one_of(_DISHES),
    ),
    Kind(
        "weight",
        "The elephant {key} weighs {value}.",
        "How much does the elephant {key} weigh?",
        "The elephant {key} weighs",
        _weight,
    ),
    Kind(
        "room",
        "The {key} meeting takes place in room {value}.",
        "In which room does the {key} meeting take place?",
        "The {key} meeting takes place in room",
        _room,
    ),
)
"""In the order in which they take turns; neighbours differ in form as much as can be."""

SUBJECTS: tuple[str, ...] = tuple(
    """Adelaide Bermuda Columbus Dublin Egypt Florence Geneva Havana Iris Jupiter Kenya Lima
Madrid Nelson Oxford Panama Quincy Romeo Sahara Tokyo Uranus Vienna Wagner Xavier York Zurich
Amazon Bruno Chester Diana Everest Felix Gordon Hudson Isabel Jasmine Kyoto Lincoln Mozart
Naomi Orion Pearl Queen Rosa Saturn Trinity Ursula Venus Winston Yvonne Zelda Apollo Brazil
Cairo Dakota Emma Franklin Gloria Hector Ivan Java Karl Louis Mercury Newton Olive Phoenix
Ruby Sofia Titan Utah Victor Walter Alaska Boston Crystal Denver Edison Frida Grant Harvey
India Jordan Kansas Leo Milan Norman Oscar Prague Rex Stella Thor Verona Warsaw Atlas Berlin
Cleo Dexter Eden Fiji Ginger Hobart Igor Jonas Kelvin Luna Monaco Nina Otto Pablo Riga Scott
Tiger Umberto Vera Willow""".split()
)
"""Short well-known single words, so that a tokenizer takes one or two tokens for most."""
