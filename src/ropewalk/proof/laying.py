"""Cells that cannot be laid out: they are left out and named, and a run goes on without them.

What makes one prompt impossible, such as a text that names what is hidden or ends too early, says
nothing about the next. What makes all prompts of a length impossible is said before a run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from ropewalk.errors import LengthError
from ropewalk.proof.cells import Cell, Control, Prompt

Make = Callable[[Cell], Prompt]
"""Lays out the prompt of a cell. Raises LengthError for one that cannot be."""
LEFT_OUT = "left_out"
"""The fact of a run folder that holds the cells left out, to be read back."""
_NAMED = 3
"""Cells that are named one by one where some are left out."""


class Laying:
    """Lays out cells one after the other; `left_out` says why some could not be."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.left_out: dict[Cell, str] = {}

    def __call__(self, cell: Cell) -> Prompt | None:
        """The prompt of a cell, None for one that cannot be laid out."""
        try:
            return self._make(cell)
        except LengthError as error:
            self.left_out[cell] = str(error)
            return None

    def all(self, cells: Iterable[Cell]) -> list[Prompt]:
        """The prompts of those cells that can be laid out."""
        return [prompt for prompt in map(self, cells) if prompt is not None]


def lay_first(make: Make, cells: Sequence[Cell]) -> Prompt | None:
    """The first prompt that can be laid out, None without cells.

    Raises the LengthError of the first cell when none can be.
    """
    errors = []
    for cell in cells:
        try:
            return make(cell)
        except LengthError as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return None


def check_lengths_hold(cells: Iterable[Cell], make: Make) -> None:
    """Raise LengthError for a task that cannot be laid out at one of the lengths of `cells`.

    One prompt that can be is enough; controls do not count.
    """
    fields: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.control is Control.NONE:
            fields[cell.task, cell.length].append(cell)
    for each in fields.values():
        lay_first(make, each)


def in_words(left_out: Mapping[Cell, str]) -> str:
    """How many prompts are left out, which the first of them are, and why."""
    count = len(left_out)
    named = [f"{_place(cell)}: {why}" for cell, why in list(left_out.items())[:_NAMED]]
    more = [f"and {count - _NAMED} more"] if count > _NAMED else []
    prompts = "prompt that" if count == 1 else "prompts that"
    return f"{count} {prompts} could not be laid out ({'; '.join([*named, *more])})"


def written(left_out: Mapping[Cell, str]) -> str:
    """The cells left out, and why, as a text for a run folder."""
    return json.dumps(
        [[c.length, c.depth, c.trial, c.control.value, c.task, why] for c, why in left_out.items()]
    )


def read_left_out(facts: Mapping[str, str]) -> dict[Cell, str]:
    """The cells that a run folder says were left out. Raises ValueError for what are none."""
    try:
        return {
            Cell(int(length), float(depth), int(trial), Control(control), str(task)): str(why)
            for length, depth, trial, control, task, why in json.loads(facts.get(LEFT_OUT, "[]"))
        }
    except TypeError as error:
        raise ValueError(f"cells left out that are none: {error}") from error


def _place(cell: Cell) -> str:
    task = "" if cell.task == "single" else f"{cell.task}, "
    control = "" if cell.control is Control.NONE else f"{cell.control} control, "
    depth = f"{cell.depth:.0%}"
    return f"{task}{control}{cell.length:,} tokens, {depth}, trial {cell.trial + 1}"
