"""Which questions to ask, in which order, and their prompts, each laid out once.

The order is trial by trial, shortest lengths first: a run that is cut off early still leaves a
whole map, thinner than planned.

Cells that cannot be laid out are left out and named, and a run goes on without them. What makes one
prompt impossible, such as a text that names what is hidden or ends too early, says nothing about
the next. What makes all prompts of a length impossible is said before a run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ropewalk.errors import LengthError
from ropewalk.lengths import MOST_TOKENS, SYNTAX, read_length
from ropewalk.proof.cells import Cell, Control, Prompt
from ropewalk.short import short

MOST_DEPTHS = 101
"""One a percent."""


@short
@dataclass(frozen=True, slots=True)
class Plan:
    """An ordered run over a grid. `cells` holds the controls too."""

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    trials: int
    cells: tuple[Cell, ...]
    tasks: tuple[str, ...] = ("single",)
    more: Mapping[int, int] = field(default_factory=dict)
    """How many trials the lengths have that have more than `trials`."""

    @property
    def control_trials(self) -> int:
        """How many trials have controls."""
        return len({cell.trial for cell in self.cells if cell.control is not Control.NONE})

    @property
    def tokens(self) -> int:
        """Prompt tokens of the whole plan; needle-only prompts count as none."""
        return sum(cell.length for cell in self.cells)

    def by_trial(self) -> list[list[Cell]]:
        """The cells trial by trial, each in the plan's order."""
        trials: dict[int, list[Cell]] = defaultdict(list)
        for cell in self.cells:
            trials[cell.trial].append(cell)
        return [trials[trial] for trial in sorted(trials)]


def make_plan(
    lengths: Sequence[int],
    depths: Sequence[float],
    trials: int,
    control_trials: int = 1,
    tasks: Sequence[str] = ("single",),
    more: Mapping[int, int] | None = None,
) -> Plan:
    """Every task at every length and depth `trials` times, `control_trials` of each control.

    `more` names the lengths that have more trials, and how many.

    Controls: the needle alone (length 0: as short as it gets), a prompt without a needle at the
    shortest length, and one with the needle at the end at every length. The last is left out
    where depth 1 is in the grid, because it would be the same prompt. Raises LengthError for
    empty, repeated or impossible values.
    """
    _check_lengths(lengths)
    _check_depths(depths)
    if trials < 1:
        raise LengthError(f"{trials} trials is impossible: at least 1 per cell.")
    if not 0 <= control_trials <= trials:
        raise LengthError(f"{control_trials} control trials is impossible: 0 to {trials} can be.")
    ladder, steps = tuple(sorted(lengths)), tuple(sorted(depths))
    cells: list[Cell] = []
    for trial in range(trials):
        for task in tasks:
            cells.extend(
                _one_trial(ladder, steps, trial, task, with_controls=trial < control_trials)
            )
    further = {length: count for length, count in (more or {}).items() if count > trials}
    for trial in range(trials, max(further.values(), default=0)):
        some = tuple(length for length in ladder if further.get(length, 0) > trial)
        for task in tasks:
            cells.extend(_one_trial(some, steps, trial, task, with_controls=False))
    return Plan(ladder, steps, trials, tuple(cells), tuple(tasks), further)


def spread_trials(lengths: Sequence[int], trials: int, most: int) -> dict[int, int]:
    """Trials of each length where the longest has `trials`: about as many tokens for each length.

    At most `most`, and at least `trials`.
    """
    longest = max(lengths)
    return {
        length: min(max(most, trials), max(trials, round(trials * longest / length)))
        for length in lengths
    }


def _one_trial(
    lengths: tuple[int, ...],
    depths: tuple[float, ...],
    trial: int,
    task: str,
    *,
    with_controls: bool,
) -> list[Cell]:
    """One task's cells of one trial, shortest lengths first."""
    cells: list[Cell] = []
    if with_controls:
        cells.append(Cell(0, 0.0, trial, Control.NEEDLE_ONLY, task))
    for length in lengths:
        cells.extend(Cell(length, depth, trial, task=task) for depth in depths)
        if with_controls and length == lengths[0]:
            cells.append(Cell(length, 0.0, trial, Control.NO_NEEDLE, task))
        if with_controls and 1.0 not in depths:
            cells.append(Cell(length, 1.0, trial, Control.END, task))
    return cells


def parse_lengths(text: str) -> tuple[int, ...]:
    """Read "2048,8000" or "4k,1M" (`ropewalk.lengths`), ascending.

    Raises LengthError for anything else, for repeats, and outside 1 to MOST_TOKENS.
    """
    lengths: list[int] = []
    for item in text.split(","):
        length = read_length(item)
        if length is None:
            raise LengthError(
                f"length {item.strip()!r} in {text!r} is not understood: write whole tokens with "
                f"commas between, like 2048,8000 or 4k,1M, where {SYNTAX}."
            )
        lengths.append(length)
    _check_lengths(lengths)
    return tuple(sorted(lengths))


def parse_depths(text: str) -> tuple[float, ...]:
    """Read percents "0,25,50" or "50%", or a count: "5" is 0, 25, 50, 75 and 100 %.

    A lone whole number is a count, evenly spaced with both ends; a percent sign makes it one
    depth. Returns shares from 0 to 1, ascending. Raises LengthError for anything else, for
    repeats, and outside 0 to 100 %.
    """
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        count = int(text)
        if not 2 <= count <= MOST_DEPTHS:
            raise LengthError(
                f"{count} evenly spaced depths is impossible: 2 to {MOST_DEPTHS} can be; a single "
                "depth is written with a percent sign, like 50%."
            )
        return tuple(step / (count - 1) for step in range(count))
    depths: list[float] = []
    for item in text.split(","):
        match = re.fullmatch(r"\s*(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%?\s*", item)
        if match is None:
            raise LengthError(
                f"depth {item.strip()!r} in {text!r} is not understood: write percents from 0 to "
                "100 with commas between, like 0,25,50,75,100, or a count, like 5."
            )
        depths.append(float(match[1]) / 100)
    _check_depths(depths)
    return tuple(sorted(depths))


@short
@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds of a prompt of L tokens: per_token * L + per_token_squared * L^2.

    The defaults are a guess, about a model of 135 million parameters on two CPU cores; they
    only serve until the first answer.
    """

    per_token: float = 1e-3
    per_token_squared: float = 2.5e-8

    def seconds(self, length: int, start: int = 0) -> float:
        """Expected seconds of `length` tokens that go on behind `start` others read before."""
        end = start + length
        return self.per_token * length + self.per_token_squared * (end * end - start * start)

    def fit(self, seen: Sequence[tuple[int, float]]) -> CostModel:
        """`fit_work` to whole prompts: (length, seconds) pairs."""
        return self.fit_work([(0, length, seconds) for length, seconds in seen])

    def fit_work(self, seen: Sequence[tuple[int, int, float]]) -> CostModel:
        """The non-negative model nearest to what was seen: (start, tokens, seconds).

        Nearest in seconds a token, least squares, so that short prompts count as much as long
        ones: tokens from s to s + t take per_token + per_token_squared * (2 s + t) each. With one
        reach seen this model's shape is kept and scaled to it; with none it is returned as it is.
        Work without tokens says nothing and is left out.
        """
        points = [
            (float(2 * start + tokens), seconds / tokens)
            for start, tokens, seconds in seen
            if tokens > 0
        ]
        if not points:
            return self
        mean_reach = sum(reach for reach, _ in points) / len(points)
        mean_pace = sum(pace for _, pace in points) / len(points)
        scatter = sum((reach - mean_reach) ** 2 for reach, _ in points)
        if scatter == 0:
            scale = mean_pace / (self.per_token + self.per_token_squared * mean_reach)
            return CostModel(self.per_token * scale, self.per_token_squared * scale)
        slope = sum((reach - mean_reach) * (pace - mean_pace) for reach, pace in points) / scatter
        if slope <= 0:
            return CostModel(mean_pace, 0.0)
        if slope * mean_reach > mean_pace:
            squares = sum(reach * reach for reach, _ in points)
            return CostModel(0.0, sum(reach * pace for reach, pace in points) / squares)
        return CostModel(mean_pace - slope * mean_reach, slope)


def _check_lengths(lengths: Sequence[int]) -> None:
    if not lengths:
        raise LengthError("no lengths were given: name at least one, like 2048.")
    for length in lengths:
        if not 1 <= length <= MOST_TOKENS:
            raise LengthError(
                f"a length of {length} tokens is impossible: 1 to {MOST_TOKENS} can be."
            )
        if lengths.count(length) > 1:
            raise LengthError(f"the length {length} is given twice: name each length once.")


def _check_depths(depths: Sequence[float]) -> None:
    if not depths:
        raise LengthError("no depths were given: name at least one, like 50%.")
    for depth in depths:
        if not 0 <= depth <= 1:
            raise LengthError(
                f"a depth of {depth * 100:g} % is impossible: 0 (the needle comes first) to 100 % "
                "(it comes last) can be."
            )
        if depths.count(depth) > 1:
            raise LengthError(f"the depth {depth * 100:g} % is given twice: name each depth once.")


Make = Callable[[Cell], Prompt]
"""Lays out the prompt of a cell. Raises LengthError for one that cannot be."""
_NAMED = 3
"""Cells that are named one by one where some are left out."""


class Prompts:
    """The prompts that `make` lays out, each of them once; `left_out` says why some cannot be.

    A prompt is held until it is forgotten, and the first trial's are then too: what later trials
    cost is expected by them. `keys` is for whoever asks: under what each prompt's answer is kept.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._laid: dict[Cell, Prompt] = {}
        self.left_out: dict[Cell, str] = {}
        self.keys: dict[Cell, str] = {}

    def __call__(self, cell: Cell) -> Prompt:
        """The prompt of a cell. Raises LengthError for one that cannot be laid out."""
        if cell in self.left_out:
            raise LengthError(self.left_out[cell])
        if cell not in self._laid:
            try:
                self._laid[cell] = self._make(cell)
            except LengthError as error:
                self.left_out[cell] = str(error)
                raise
        return self._laid[cell]

    def get(self, cell: Cell) -> Prompt | None:
        """The prompt of a cell, None for one that cannot be laid out."""
        try:
            return self(cell)
        except LengthError:
            return None

    def all(self, cells: Iterable[Cell]) -> list[Prompt]:
        """The prompts of those cells that can be laid out."""
        return [prompt for prompt in map(self.get, cells) if prompt is not None]

    def forget(self, cell: Cell) -> None:
        """Let go of a prompt that was answered: those of a large plan would fill the memory."""
        if cell.trial:
            self._laid.pop(cell, None)


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


def _place(cell: Cell) -> str:
    task = "" if cell.task == "single" else f"{cell.task}, "
    control = "" if cell.control is Control.NONE else f"{cell.control} control, "
    depth = f"{cell.depth:.0%}"
    return f"{task}{control}{cell.length:,} tokens, {depth}, trial {cell.trial + 1}"
