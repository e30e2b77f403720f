"""One hidden fact, and the question for it: a made-up word's pass key, with other keys beside."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ropewalk.proof.needle import VALUE_DIGITS, Needle, draw_needle
from ropewalk.proof.tasks.base import Hidden, Problem
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Single:
    """The pass key of one made-up word; `distractors` more of them stand at random depths."""

    distractors: int = 0
    name: str = "single"
    introduction: str = (
        "A long report follows. One line in it gives a pass key, which will be asked for at the "
        "end."
    )
    # Nine first digits, and nine others for each that follows: neighbours differ.
    chance: float = 9.0**-VALUE_DIGITS

    def draw(self, random: Random, depth: float, _length: int, /) -> Problem:
        """One needle at the cell's depth, the distractors anywhere."""
        needles: list[Needle] = []
        for _ in range(1 + self.distractors):
            needles.append(draw_needle(random, needles))
        target, others = needles[0], needles[1:]
        beside = [Hidden(other.sentence, random.random()) for other in others]
        here = Hidden(target.sentence)
        return Problem(
            # First at depth 0 and last at depth 1, also where another shares the place.
            hidden=(*beside, here) if depth > 0.5 else (here, *beside),
            question=target.question,
            opening=target.opening,
            values=(target.value,),
            key=target.key,
            wrong=tuple(other.value for other in others),
            secret=tuple(text for needle in needles for text in (needle.key, needle.value)),
        )
