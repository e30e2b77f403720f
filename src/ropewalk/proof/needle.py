"""What is hidden and asked for: a random key, a random value, and the words around them.

The question repeats the key and nothing else of the needle, and the key is a made-up word, so
that only the needle can answer it. Digits of the value differ from their neighbours: a value
like 77777 would be right by stuttering.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from ropewalk.short import short

_SYLLABLES = """bar bel cor dan del dor fal fen gal gor han hel jor kal kel lan lor mar mel mir
mor nal nor pel ral ren sal sel sor tal tan tor val vel ver wen zan zel""".split()
_TAILS = ("a", "o", "ia", "in", "us", "et", "is", "ona", "eth", "ik")
VALUE_DIGITS = 5


@short
@dataclass(frozen=True, slots=True)
class Needle:
    """A fact to find: `value` is what `key` asks for; `sentence` is what is hidden.

    It is said twice in the same words, which a small model far within its length finds more
    surely: what is missed should be missed for the distance, not for the wording.
    """

    key: str
    value: str

    @property
    def sentence(self) -> str:
        """The text that goes into the haystack."""
        fact = f"The pass key of {self.key} is {self.value}."
        return f"{fact} Remember it. {fact}"

    @property
    def question(self) -> str:
        """What is asked at the end."""
        return f"What is the pass key of {self.key}?"

    @property
    def opening(self) -> str:
        """The beginning of the answer, which a base model continues with the value."""
        return f"The pass key of {self.key} is"


def draw_needle(random: Random, others: Sequence[Needle] = ()) -> Needle:
    """A needle that can be told from `others`: no key begins another, and no value is another's."""
    while True:
        key = "".join(random.sample(_SYLLABLES, 2)).capitalize() + random.choice(_TAILS)
        value = str(random.randrange(1, 10))
        while len(value) < VALUE_DIGITS:
            digit = str(random.randrange(10))
            value += digit if digit != value[-1] else ""
        if not any(
            value == other.value or key.startswith(other.key) or other.key.startswith(key)
            for other in others
        ):
            return Needle(key, value)
