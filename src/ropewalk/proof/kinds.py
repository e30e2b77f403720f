"""Kinds of facts: the words around a key and a value, and how a value of the kind looks.

A document takes each kind once before any comes again: two facts of a kind are what a model mixes
up (`benchmarks/needles.py`).

A value is told by its form, or by the kind of word it is, to be of its kind. Neighbouring digits
differ: what could be said by stuttering would not have been read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ropewalk.proof.words import WORDS
from ropewalk.short import short

_LETTERS = "ABCDEFGHJKLMNPRSTVWXYZ"
"""Without those that are read as digits."""


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
    return f"{random.choice(WORDS['month'].split())} {random.randrange(2, 29)}"


def _plate(random: Random) -> str:
    letters = random.sample(_LETTERS, 4)
    return f"{letters[0]}{letters[1]}-{_digits(random, 3)}-{letters[2]}{letters[3]}"


def _flight(random: Random) -> str:
    return f"{''.join(random.sample(_LETTERS, 2))}{_digits(random, 4)}"


def _email(random: Random) -> str:
    return f"{random.choice(_LETTERS).lower()}{_digits(random, 2)}@post.org"


def _of(unit: str, digits: int) -> Callable[[Random], str]:
    return lambda random: f"{_digits(random, digits)} {unit}"


def _one_of(name: str) -> Callable[[Random], str]:
    words = WORDS[name].split()
    return lambda random: random.choice(words)


@short
@dataclass(frozen=True, slots=True)
class FactKind:
    """`{key}` stands in the texts; `opening` is continued by a space and the value.

    `noun` names what is asked for.
    """

    noun: str
    asking: str
    opening: str
    draw: Callable[[Random], str]


def _kind(noun: str, asking: str, opening: str, draw: str | Callable[[Random], str]) -> FactKind:
    return FactKind(noun, asking, opening, _one_of(draw) if isinstance(draw, str) else draw)


# fmt: off
KINDS: tuple[FactKind, ...] = (
    _kind("pass key", "What is the pass key of {key}?",
          "The pass key of {key} is", lambda random: _digits(random, 5)),
    _kind("colour", "What colour is the front door of the {key} hotel?",
          "The front door of the {key} hotel is painted", "colour"),
    _kind("phone number", "Which number must one dial to call {key}?",
          "To call {key}, dial the number", _phone),
    _kind("pet", "What does Professor {key} keep for a pet?",
          "For a pet, Professor {key} keeps a", "pet"),
    _kind("year", "In which year was the ship {key} built?",
          "The ship {key} was built in the year", _year),
    _kind("instrument", "Which instrument does Miss {key} play in the orchestra?",
          "In the orchestra, Miss {key} plays the", "instrument"),
    _kind("price", "How much does a ticket to {key} island cost?",
          "A ticket to {key} island costs", _price),
    _kind("dish", "What is the restaurant {key} famous for?",
          "The restaurant {key} is famous for its", "dish"),
    _kind("departure", "At what time does the night train to {key} leave?",
          "The night train to {key} leaves at", _time),
    _kind("sport", "Which sport does the {key} club practise?",
          "The sport of the {key} club is", "sport"),
    _kind("birthday", "When is the birthday of King {key}?", "The birthday of King {key} is", _day),
    _kind("fruit", "Which fruit grows on the {key} plantation?",
          "The {key} plantation grows nothing but", "fruit"),
    _kind("licence plate", "Which licence plate does the taxi driver {key} have?",
          "The taxi driver {key} has the licence plate", _plate),
    _kind("language", "Which language does the nurse {key} speak at home?",
          "At home, the nurse {key} speaks", "language"),
    _kind("weight", "How much does the elephant {key} weigh?",
          "The elephant {key} weighs", _of("pounds", 3)),
    _kind("metal", "Which metal is dug up in the {key} mine?", "The {key} mine digs up", "metal"),
    _kind("hall", "In which hall does the {key} conference take place?",
          "The {key} conference takes place in hall", _room),
    _kind("drink", "What does Captain {key} always order to drink?",
          "To drink, Captain {key} always orders", "drink"),
    _kind("flight", "Which number has the flight to {key} airport?",
          "The flight to {key} airport has the number", _flight),
    _kind("flowers", "Which flowers did Lady {key} plant on the balcony?",
          "On the balcony, Lady {key} planted", "flower"),
    _kind("temperature", "How warm is the water of Lake {key}?",
          "The water of Lake {key} has a temperature of", _of("degrees", 2)),
    _kind("vehicle", "In what does Detective {key} travel?",
          "Detective {key} travels in a", "vehicle"),
    _kind("height", "How high is Mount {key}?", "The height of Mount {key} is", _of("feet", 4)),
    _kind("weekday", "On which day of the week is the museum of {key} closed?",
          "The museum of {key} is closed on", "weekday"),
    _kind("address", "Which e-mail address does the office of {key} use?",
          "The office of {key} uses the e-mail address", _email),
    _kind("country", "In which country was the singer {key} born?",
          "The singer {key} was born in", "country"),
    _kind("age", "How old is grandmother {key}?",
          "Grandmother {key} has reached the age of", _of("years", 2)),
    _kind("school subject", "Which school subject does Mr {key} teach?",
          "At school, Mr {key} teaches", "subject"),
    _kind("distance", "How far away is the planet {key}?",
          "The distance to the planet {key} is", _of("million miles", 3)),
    _kind("fabric", "What are the curtains in the {key} theatre made of?",
          "The curtains in the {key} theatre are made of", "fabric"),
    _kind("speed", "How fast does the racing horse {key} run?",
          "The racing horse {key} runs at a speed of", _of("miles per hour", 2)),
    _kind("illness", "From which illness did Queen {key} suffer?",
          "Queen {key} suffered from", "illness"),
    _kind("share", "What share of the votes did Senator {key} win?",
          "Of all votes, Senator {key} won", _of("percent", 2)),
    _kind("shape", "What shape has the {key} monument?",
          "The {key} monument has the shape of a", "shape"),
    _kind("length", "How long is the river {key}?",
          "The river {key} has a length of", _of("kilometres", 3)),
    _kind("dance", "Which dance did Prince {key} learn?",
          "Prince {key} learned to dance the", "dance"),
    _kind("visitors", "How many visitors did the zoo of {key} count?",
          "The zoo of {key} counted", _of("visitors", 5)),
    _kind("insect", "Which insect is on the {key} stamp?", "The {key} stamp shows a", "insect"),
    _kind("wage", "What does the cleaner {key} earn?",
          "The cleaner {key} earns", _of("dollars a month", 4)),
    _kind("spice", "What is the secret spice of chef {key}?",
          "The secret spice of chef {key} is", "spice"),
    _kind("battery", "How long does the battery of the robot {key} last?",
          "The battery of the robot {key} lasts", _of("minutes", 2)),
    _kind("gem", "Which gem is set in the {key} crown?",
          "The gem in the {key} crown is a beautiful", "gem"),
    _kind("injury", "Which part of the body did the footballer {key} injure?",
          "The footballer {key} had an injury of the", "body"),
    _kind("hobby", "What is the hobby of Judge {key}?", "The hobby of Judge {key} is", "art"),
    _kind("game", "Which game did the twins {key} win?",
          "The twins {key} won the championship in", "game"),
    _kind("tree", "Under which tree is the poet {key} buried?",
          "The poet {key} is buried under the big", "tree"),
    _kind("hiding place", "Where did the thief {key} hide the money?",
          "The thief {key} hid the money in the", "room"),
    _kind("profession", "What does young {key} want to become?",
          "When grown up, young {key} wants to become a", "job"),
    _kind("soup", "Which soup is cooked in the {key} canteen?",
          "The soup of the day in the {key} canteen is", "soup"),
    _kind("fish", "Which fish did uncle {key} catch?",
          "With bare hands, uncle {key} caught a", "fish"),
    _kind("research", "What does the {key} institute study?",
          "The {key} institute studies", "science"),
    _kind("present", "What did cousin {key} get for a wedding present?",
          "For a wedding present, cousin {key} got a", "gift"),
)
# fmt: on
"""In the order in which they take turns: numbers and words by turns as far as they go."""
