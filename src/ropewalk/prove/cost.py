"""What a plan will read, before anything is asked: from the real prompts of its trials' kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ropewalk.prove.cells import Cell, Prompt
from ropewalk.prove.plan import Plan
from ropewalk.prove.tree import share, tokens


@dataclass(frozen=True, slots=True)
class Reading:
    """Prompt tokens of a plan: each prompt by itself, and with shared beginnings read once."""

    independent: int
    shared: int

    @property
    def saving(self) -> float:
        """How many times fewer tokens sharing reads; 1 for an empty plan."""
        return self.independent / self.shared if self.shared else 1.0

    def price(self, per_million: float) -> tuple[float, float]:
        """What the prompts cost at a price a million tokens: (alone, shared)."""
        return self.independent * per_million / 1e6, self.shared * per_million / 1e6


def reading(plan: Plan, make_prompt: Callable[[Cell], Prompt]) -> Reading:
    """The prompt tokens of a plan whose prompts `make_prompt` lays out.

    One trial of each kind (with and without controls) is laid out and folded; others of its kind
    count the same. Trials differ by some tokens, where keys and values do. Tasks of a trial have
    no text in common. Raises LengthError as `make_prompt` does.
    """
    trials: dict[int, list[Cell]] = {}
    for cell in plan.cells:
        trials.setdefault(cell.trial, []).append(cell)
    kinds: dict[tuple[Cell, ...], tuple[list[Cell], int]] = {}
    for cells in trials.values():
        kind = tuple(replace(cell, trial=0) for cell in cells)
        first, times = kinds.get(kind, (cells, 0))
        kinds[kind] = first, times + 1
    alone = shared = 0
    for cells, times in kinds.values():
        prompts = [make_prompt(cell) for cell in cells]
        alone += times * sum(len(prompt.token_ids) for prompt in prompts)
        shared += times * tokens(share(prompts))
    return Reading(alone, shared)
