"""Text to hide a needle in: sentences from a seeded grammar, or from the user's own files.

The grammar's sentences are plain English about people and places that do not exist, so no
model has seen them, and no sentence comes twice in one haystack. They hold no digits: a number
in the finished prompt is a needle's.

A haystack is an iterator of sentences, each without surrounding white space, plus a way to get
one of an exact number of tokens, so that a prompt can be filled to the token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Protocol

from ropewalk.errors import LengthError, UsageError
from ropewalk.proof.naming import gives_away

Count = Callable[[str], int]
"""How many tokens a sentence takes in the middle of a text."""

LONGEST_SENTENCE = 400
"""Characters; a text without full stops, such as a table or code, is cut into such pieces."""

_PIECES_TRIED = 8
"""Pieces of one size that are looked at for one that gives nothing away."""


class Haystack(Protocol):
    """Sentences to lay around a needle. A new one is made for every cell."""

    def sentences(self) -> Iterator[str]:
        """Sentences in reading order; ends when the source has no more."""

    def filler(self, tokens: int, count: Count) -> str | None:
        """A further sentence, or some, of `tokens` tokens; None when there are none.

        Not to be called while a loop over `sentences` is going on.
        """


_ONSETS = "b br c d dr f g gr h k l m n p r s st t th tr v w y z".split()
_VOWELS = ("a", "a", "e", "e", "i", "o", "o", "u", "ai", "ea")
_CODAS = ("", "l", "n", "r", "s", "m", "nd", "rt", "lk", "th", "sh")
_ENDINGS = ("ton", "by", "wick", "ford", "mere", "stead", "holm", "dale", "port", "field", "gate")

_ROLES = """baker carpenter teacher sailor gardener clerk doctor weaver miller painter farmer
judge cook driver librarian mason fisherman tailor surveyor musician potter shepherd porter
chemist innkeeper glazier saddler printer nurse ferryman locksmith beekeeper""".split()
_ADJECTIVES = """old quiet narrow bright heavy crooked gentle wooden early broad rusty pale
careful muddy cheerful distant hollow plain sudden familiar stubborn warm faded steep
patient polished empty curious grey tidy modest restless""".split()
_THINGS = """ladder lantern barrel letter bridge basket cart kettle fence window drum
table rope wheel mirror bench saddle bucket map clock chair blanket ledger hammer oven
shelf boat whistle curtain trunk harness loom""".split()
_PLURALS = """apples boxes coats tools stones candles sheep chairs bottles ribbons planks
books goats shutters plates lamps nails crates onions geese tiles buttons carpets pots
pears reeds feathers spoons sacks hinges""".split()
_VERBS = """repaired carried painted measured borrowed moved cleaned sold found lifted
examined wrapped forgot described admired counted stored returned sketched weighed
tied guarded emptied raised covered traded fetched sorted polished lent""".split()
_PLACES = """harbour market orchard mill chapel quarry station meadow workshop courtyard
cellar bakery stable tower garden dock valley kitchen library schoolhouse ferry inn
granary forge warehouse lighthouse square pond attic""".split()
_TIMES = """before breakfast|late in the evening|on market day|during the storm|after the harvest
in early spring|at the end of the week|while it was still dark|for most of the morning
on the first warm day|just after the bells|in the middle of winter|when the tide was low
on a windy afternoon|shortly before noon|without any hurry|as the snow began to melt
during the long drought|once the guests had left|on the way home""".replace("\n", "|").split("|")
_WEATHER = """fog rain wind frost sunlight dust smoke snow mist thunder""".split()
_FEELINGS = (
    """pleased worried surprised tired grateful doubtful amused proud nervous calm""".split()
)
_REASONS = """nobody else had the time|the road was closed|the price had fallen again
a neighbour had asked for it|the roof was leaking|there was little else to do
the old one had broken|the river was rising|winter was near|it had always been done that way
the children wanted to help|the council had agreed|a stranger offered to pay|the bread had burned
no one could remember why|the key turned only halfway""".replace("\n", "|").split("|")

WORD_LISTS = (_ROLES, _ADJECTIVES, _THINGS, _PLURALS, _VERBS, _PLACES, _WEATHER, _FEELINGS)
"""Words that stand in the same places of sentences, list by list."""

_TEMPLATES = (
    "{name} the {role} {verb} the {adj} {thing} {time}.",
    "The {role} of {town} {verb} a {thing} and two {adj} {plural} {time}.",
    "{Time}, {name} and {name2} walked from {town} to the {adj} {place}.",
    "Nobody in {town} noticed that the {thing} near the {place} was missing.",
    "There was {weather} over the {place}, and the {role} felt {feeling}.",
    "The {adj} {place} at {town} was known for its {plural} and its {plural2}.",
    "{name} {verb} the {plural} because {reason}.",
    "A {adj} {role} from {town} asked whether the {thing} could be mended.",
    "{Time}, the {weather} reached {town} and the {place} was closed.",
    "When {name} came back to the {place}, the {adj} {thing} stood by the door.",
    "The {role} told {name} that the {plural} belonged to the {place}.",
    "It took {name} all day to bring the {plural} to the {place} in {town}.",
    "{name} wrote a long letter to {name2} about the {adj} {plural}.",
    "Between the {place} and the {place2} lay a {adj} path that few people used.",
    "The {thing} was {adj}, but the {role} {verb} it all the same.",
    "Since {reason}, {name} {verb} the {thing} {time}.",
    "In {town} they say that {weather} brings a {adj} {role} to the {place}.",
    "{name} was {feeling} when the {role} {verb} the last of the {plural}.",
    "Two of the {plural} were {adj}, so {name2} took them to the {place}.",
    "The people of {town} met at the {place} {time}, although {reason}.",
    "Without a word, {name} put the {thing} behind the {adj} {place}.",
    "The {adj} {thing} had once belonged to a {role} called {name}.",
    "{name2} said that {town} looked {adj} in the {weather}.",
    "Every {role} in {town} had heard of the {thing} in the {adj} {place}.",
    "They left {town} {time}, with the {plural} on a {adj} cart.",
    "{name} could not say why the {role} {verb} the {plural2} {time}.",
    "Around the {place} grew {adj} bushes, and the {weather} made them shine.",
    "The {role} smiled, {verb} the {thing}, and went on towards {town}.",
    "From the {place} one could see the {adj} roofs of {town} through the {weather}.",
    "{Time}, a {role} named {name} opened the {place} to visitors.",
)

_SHORT_TEMPLATES = (
    "It rained.",
    "Snow fell.",
    "The bells rang.",
    "Nobody came at all.",
    "The {place} was {adj}.",
    "The {role} went home.",
    "They sold the {plural}.",
    "The {thing} was still there.",
    "There was {weather} all day.",
    "The {adj} {place} stayed empty.",
    "A {role} {verb} the {plural}.",
    "{Time}, the {role} came back.",
    "The {role} {verb} a {adj} {thing}.",
    "It was {adj} in the old {place}.",
    "The {role} was {feeling} about the {plural}.",
)
"""Only to fill what is left of a prompt, when it is less than any sentence above takes."""
_SHORT = 12
"""Tokens below which the short templates are used."""


class GeneratedHaystack:
    """An endless haystack from the grammar; the same `random` state gives the same text."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._seen: set[str] = set()
        # A cast of its own for each haystack: names recur as they do in a real report.
        self._towns = [self._word().capitalize() + random.choice(_ENDINGS) for _ in range(60)]
        self._names = [self._word().capitalize() for _ in range(160)]

    def sentences(self) -> Iterator[str]:
        """Sentences without end, none twice."""
        while True:
            yield self._fresh()

    def filler(self, tokens: int, count: Count) -> str | None:
        """A sentence of exactly `tokens` tokens among many fresh ones, or None."""
        if tokens < _SHORT:
            return self._search(_SHORT_TEMPLATES, tokens, count)[0]
        found, fewest = self._search(_TEMPLATES, tokens, count)
        if found is None and fewest > tokens + 4:
            # A tokenizer that cuts small, such as one of bytes, takes as much for the short ones.
            found, _ = self._search(_SHORT_TEMPLATES, tokens, count)
        return found

    def _search(
        self, templates: tuple[str, ...], tokens: int, count: Count
    ) -> tuple[str | None, int]:
        """The first of 400 sentences with exactly `tokens` tokens; the fewest that one had."""
        fewest = 1 << 30
        for _ in range(400):
            sentence = self._sentence(templates)
            if sentence in self._seen:
                continue
            self._seen.add(sentence)
            size = count(sentence)
            if size == tokens:
                return sentence, size
            fewest = min(fewest, size)
        return None, fewest

    def _fresh(self) -> str:
        while True:
            sentence = self._sentence(_TEMPLATES)
            if sentence not in self._seen:
                self._seen.add(sentence)
                return sentence

    def _sentence(self, templates: tuple[str, ...]) -> str:
        pick = self._random.choice
        time = pick(_TIMES)
        text = pick(templates).format(
            name=pick(self._names),
            name2=pick(self._names),
            town=pick(self._towns),
            role=pick(_ROLES),
            adj=pick(_ADJECTIVES),
            thing=pick(_THINGS),
            plural=pick(_PLURALS),
            plural2=pick(_PLURALS),
            verb=pick(_VERBS),
            place=pick(_PLACES),
            place2=pick(_PLACES),
            weather=pick(_WEATHER),
            feeling=pick(_FEELINGS),
            reason=pick(_REASONS),
            time=time,
            Time=time[0].upper() + time[1:],
        )
        return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)

    def _word(self) -> str:
        pick = self._random.choice
        first = pick(_ONSETS) + pick(_VOWELS)
        return first + pick(_ONSETS) + pick(_VOWELS) + pick(_CODAS)


class TextHaystack:
    """The user's own text, from a random sentence on, each sentence at most once.

    Without a `random` from the first sentence on.
    """

    def __init__(self, sentences: tuple[str, ...], random: Random | None) -> None:
        start = random.randrange(len(sentences)) if random is not None else 0
        self._ring = sentences[start:] + sentences[:start]
        self._next = 0

    def sentences(self) -> Iterator[str]:
        """The text's sentences, round from the starting point, once.

        The sentence at which a loop breaks off counts as not read: it can still be cut to size.
        """
        while self._next < len(self._ring):
            yield self._ring[self._next]
            self._next += 1

    def filler(self, tokens: int, count: Count) -> str | None:
        """Further sentences of `tokens` tokens together, the last one cut at a word; or None."""
        begun = self._next
        taken: list[str] = []
        left = tokens
        for sentence in self.sentences():
            size = count(sentence)
            if size == left or size < left - 2:
                piece: str | None = sentence
            else:
                # One that would leave next to nothing is cut so that it leaves a few words.
                piece = _beginning(sentence, left if size > left else left - 6, count)
            if piece is not None:
                taken.append(piece)
                left -= count(piece)
            if left == 0:
                self._next += 1
                return " ".join(taken)
        # Nothing of that size here; the text is still there for another.
        self._next = begun
        return None


class Without:
    """Another haystack without the sentences that give one of `secret` away."""

    def __init__(self, haystack: Haystack, secret: tuple[str, ...]) -> None:
        self._haystack = haystack
        self._secret = secret

    def sentences(self) -> Iterator[str]:
        """The sentences that are left, in their order."""
        return (s for s in self._haystack.sentences() if not gives_away(s, self._secret))

    def filler(self, tokens: int, count: Count) -> str | None:
        """As the haystack has it; None where all of a few pieces give something away."""
        for _ in range(_PIECES_TRIED):
            piece = self._haystack.filler(tokens, count)
            if piece is None or not gives_away(piece, self._secret):
                return piece
        return None


def _beginning(sentence: str, tokens: int, count: Count) -> str | None:
    """The first words of a sentence, of exactly `tokens` tokens with a full stop; or None.

    A sentence without spaces, as Chinese has it, is cut at a character.
    """
    space = " " if " " in sentence else ""
    words = sentence.rstrip(".!?").split(" ") if space else list(sentence)
    for end in range(len(words), 0, -1):
        piece = space.join(words[:end]).rstrip(",;:") + "."
        size = count(piece)
        if size <= tokens:
            return piece if size == tokens else None
    return None


def read_sentences(path: Path) -> tuple[str, ...]:
    """The sentences of a UTF-8 text file, or of every .txt and .md file below a folder.

    Files are read in sorted order, so that the same folder gives the same haystack anywhere.
    What has no full stop for more than LONGEST_SENTENCE characters is cut there, at a space if
    there is one.

    Raises UsageError for a path that cannot be read as text, LengthError for one without any.
    """
    files = [path]
    if path.is_dir():
        found = (p for p in path.rglob("*") if p.suffix.lower() in {".txt", ".md"} and p.is_file())
        files = sorted(found, key=lambda file: file.relative_to(path).as_posix())
    sentences: list[str] = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{file} is not UTF-8 text (byte {error.start}); convert it or leave it out"
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"the haystack {file} cannot be read ({reason}); give a text file or a folder"
            ) from error
        flat = re.sub(r"\s+", " ", text).strip()
        for sentence in re.split(r"(?<=[.!?])\s+|(?<=[。！？])\s*", flat):
            sentences.extend(_cut(sentence))
    if not sentences:
        raise LengthError(
            f"the haystack {path} holds no text; give a .txt or .md file, or a folder with some"
        )
    return tuple(sentences)


def _cut(sentence: str) -> Iterator[str]:
    """A sentence in pieces of at most LONGEST_SENTENCE characters; none for an empty one."""
    while len(sentence) > LONGEST_SENTENCE:
        end = sentence.rfind(" ", 1, LONGEST_SENTENCE + 1)
        end = end if end > 0 else LONGEST_SENTENCE
        yield sentence[:end]
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence
