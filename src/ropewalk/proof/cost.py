"""What a plan will take, before anything is asked: from the real prompts of its trials' kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Cell, Prompt, Sharing
from ropewalk.proof.laying import Laying
from ropewalk.proof.plan import CostModel, Plan
from ropewalk.proof.tree import paths, share
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Reading:
    """Prompt tokens of a plan: each prompt by itself, and with shared beginnings read once.

    `alone` and `pieces` say in what pieces: (tokens before it, tokens of it, how many times).
    """

    alone: tuple[tuple[int, int, int], ...] = ()
    pieces: tuple[tuple[int, int, int], ...] = ()

    @property
    def independent(self) -> int:
        """Tokens, each prompt by itself."""
        return sum(tokens * times for _, tokens, times in self.alone)

    @property
    def shared(self) -> int:
        """Tokens, shared beginnings once."""
        return sum(tokens * times for _, tokens, times in self.pieces)

    @property
    def saving(self) -> float:
        """How many times fewer tokens sharing reads; 1 for an empty plan."""
        return self.independent / self.shared if self.shared else 1.0

    def tokens(self, sharing: Sharing) -> int:
        """Tokens to read under a way of sharing."""
        return self.independent if sharing is Sharing.NONE else self.shared

    def seconds(self, sharing: Sharing, cost: CostModel) -> float:
        """What that should take."""
        pieces = self.alone if sharing is Sharing.NONE else self.pieces
        return sum(times * cost.seconds(tokens, start) for start, tokens, times in pieces)


def reading(plan: Plan, make_prompt: Callable[[Cell], Prompt]) -> Reading:
    """The prompt tokens of a plan whose prompts `make_prompt` lays out.

    One trial of each kind (with and without controls) is laid out and folded; others of its kind
    count the same. Trials differ by some tokens, where keys and values do. Tasks of a trial have
    no text in common. Cells that cannot be laid out cost nothing.
    """
    kinds: dict[tuple[Cell, ...], tuple[list[Cell], int]] = {}
    for cells in plan.by_trial():
        kind = tuple(replace(cell, trial=0) for cell in cells)
        first, times = kinds.get(kind, (cells, 0))
        kinds[kind] = first, times + 1
    alone: list[tuple[int, int, int]] = []
    pieces: list[tuple[int, int, int]] = []
    for cells, times in kinds.values():
        prompts = Laying(make_prompt).all(cells)
        alone += [(0, len(prompt.token_ids), times) for prompt in prompts]
        for node, start in paths(share(prompts)):
            end = start + len(node.ids)
            pieces.append((start, len(node.ids), times))
            pieces += [(end, len(leaf.ids), times) for leaf in node.leaves]
    return Reading(tuple(alone), tuple(pieces))


@short
@dataclass(frozen=True, slots=True)
class Budget:
    """What a run will take: prompts, tokens to read, and tokens without sharing (`independent`).

    `calibration` counts the tokens read besides, to ask cells both ways as `calibrate` says.
    `seconds` and `cache_bytes`, what the key-value cache takes at the longest prompt, are None
    where they are not known: at a server they are its own business.
    """

    sharing: Sharing
    prompts: int
    tokens: int
    independent: int
    seconds: float | None = None
    cache_bytes: int | None = None
    calibrate: Calibrate = Calibrate.OFF
    calibration: int = 0

    def lines(self, per_million: float | None = None) -> list[str]:
        """What is about to be spent, in one or two lines; with a price of a million tokens."""
        asked = f"{self.prompts:,} prompts, {self.tokens:,} tokens to read"
        if self.sharing is not Sharing.NONE:
            asked += (
                f" ({self.sharing.value} sharing: {self.saving:.1f} times fewer than "
                f"{self.independent:,})"
            )
        if self.calibration:
            asked += f", and {self.calibration:,} to calibrate ({self.calibrate.value})"
        elif self.sharing is Sharing.NESTED:
            asked += ", not calibrated"
        rest = []
        if self.seconds is not None:
            rest.append(f"about {_time(self.seconds)} at the pace of a short text")
        if self.cache_bytes is not None:
            rest.append(f"key-value cache: {self.cache_bytes / 2**20:,.0f} MiB")
        if per_million is not None:
            spent = (self.tokens + self.calibration) * per_million / 1e6
            alone = self.independent * per_million / 1e6
            rest.append(f"price: {spent:,.2f}; without sharing {alone:,.2f}")
        return [asked, ", ".join(rest)] if rest else [asked]

    @property
    def saving(self) -> float:
        """How many times fewer tokens are read."""
        return self.independent / self.tokens if self.tokens else 1.0


def default_calibrate(read: Reading, besides: int) -> Calibrate:
    """Whether nested prompts are calibrated where nobody said: `besides` tokens are its price.

    They are wherever that reads fewer tokens than nesting saves: below, the whole grid by prompts
    of its own would be no dearer.
    """
    return Calibrate.SHORT if besides < read.independent - read.shared else Calibrate.OFF


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:,.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:,.0f} minutes" if minutes < 90 else f"{minutes / 60:,.1f} hours"
