"""A plan run on a model of this machine: prompts by themselves, or sharing what they can.

Nested prompts are calibrated first where that is asked for: some cells are asked by prompts of
their own too, and if the answers differ the run falls back to prompts that share beginnings only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.models.rotary_tables import install, schedule_at
from ropewalk.prove.calibration import Calibrate, Calibration, Pair, judge, plan_calibration
from ropewalk.prove.cells import Answer, Cell, Prompt, Sharing
from ropewalk.prove.cost import reading
from ropewalk.prove.documents import DocumentMaker
from ropewalk.prove.plan import Plan
from ropewalk.prove.progress import Event, RunResult
from ropewalk.prove.prompt import PromptMaker
from ropewalk.prove.runner import run
from ropewalk.prove.store import Store
from ropewalk.prove.subjects.local import LocalSubject
from ropewalk.prove.subjects.sharing import BRANCH_ROOM, SharingLocal
from ropewalk.prove.tokens import Tokens
from ropewalk.prove.walk import run_shared
from ropewalk.rope.spec import LearnedPositions, PositionSpec

Make = Callable[[Cell], Prompt]

_PACED = 256
"""Tokens that are read to see how fast this machine is."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a plan will take. `tokens` are to be read, `independent` without sharing.

    `calibration` counts the tokens that are read besides, to ask cells both ways. `cache_bytes` is
    what the key-value cache takes at the longest prompt, None where that is not known.
    """

    sharing: Sharing
    prompts: int
    tokens: int
    independent: int
    seconds: float
    cache_bytes: int | None
    calibration: int = 0

    def lines(self, per_million: float | None = None) -> list[str]:
        """What is about to be spent, in a few plain lines; with a price of a million tokens."""
        asked = f"{self.prompts:,} prompts, {self.tokens:,} tokens to read"
        if self.sharing is not Sharing.NONE:
            asked += (
                f" ({self.sharing.value} sharing: {self.saving:.1f} times fewer than "
                f"{self.independent:,})"
            )
        if self.calibration:
            asked += f", and {self.calibration:,} to calibrate"
        lines = [asked, f"about {self.seconds / 60:,.1f} minutes at the pace of a short text"]
        if self.cache_bytes is not None:
            lines.append(f"key-value cache: {self.cache_bytes / 2**20:,.0f} MiB")
        if per_million is not None:
            spent = (self.tokens + self.calibration) * per_million / 1e6
            alone = self.independent * per_million / 1e6
            lines.append(f"price: {spent:,.2f}; without sharing {alone:,.2f}")
        return lines

    @property
    def saving(self) -> float:
        """How many times fewer tokens are read."""
        return self.independent / self.tokens if self.tokens else 1.0


@dataclass(frozen=True, slots=True)
class Asking:
    """Where answers go and who is told: what every run is given besides its prompts."""

    store: Store
    hash_of: Callable[[Prompt], str]
    on_event: Callable[[Event], None]
    deadline: float | None = None


class LocalRun:
    """Everything that asks a loaded `model`, once it is known to turn by `spec`."""

    def __init__(
        self, model: Any, tokens: Tokens, spec: PositionSpec, plan: Plan, single: PromptMaker
    ) -> None:
        self._model = model
        self._tokens = tokens
        self._spec = spec
        self._plan = plan
        self._single = single
        self._documents = DocumentMaker(single, plan.lengths, plan.depths)
        self._sharing: SharingLocal | None = None

    def check(self, sharing: Sharing) -> None:
        """Raise LengthError unless every length can hold what is hidden and asked."""
        if sharing is Sharing.NESTED:
            self._documents.check()

    def budget(
        self, sharing: Sharing, calibrate: Calibrate, seed: int, token_bytes: int | None
    ) -> Budget:
        """What the plan will take, by the real prompts of a trial; seconds by a guess."""
        read = reading(self._plan, self._maker(sharing))
        cells = plan_calibration(self._plan, calibrate, seed) if sharing is Sharing.NESTED else ()
        pace = self._pace()
        longest = max(self._plan.lengths)
        tokens = read.independent if sharing is Sharing.NONE else read.shared
        calibration = sum(cell.length for cell in cells)
        return Budget(
            sharing=sharing,
            prompts=len(self._plan.cells),
            tokens=tokens,
            independent=read.independent,
            seconds=pace * (tokens + calibration),
            cache_bytes=token_bytes and token_bytes * (longest + BRANCH_ROOM),
            calibration=calibration,
        )

    def run(self, sharing: Sharing, asking: Asking) -> RunResult:
        """Ask what has no answer yet."""
        return self._run(self._plan, sharing, self._maker(sharing), asking)

    def calibrate(
        self, mode: Calibrate, seed: int, asking: Asking
    ) -> tuple[Calibration | None, RunResult | None]:
        """Ask some cells both ways; what that says, or how it ended before it could say anything.

        What was asked is kept, so that nothing of it is asked again.
        """
        cells = plan_calibration(self._plan, mode, seed)
        if not cells:
            return None, None
        part = replace(self._plan, cells=cells)
        for sharing, make in (
            (Sharing.NONE, self._documents.independent),
            (Sharing.NESTED, self._documents),
        ):
            result = self._run(part, sharing, make, asking)
            if result.interrupted or result.out_of_time:
                return None, result
        answers: dict[Sharing, dict[Cell, Answer]] = {Sharing.NONE: {}, Sharing.NESTED: {}}
        for row in asking.store.rows():
            if row.sharing in answers:
                answers[row.sharing][row.cell] = row.answer
        nested, alone = answers[Sharing.NESTED], answers[Sharing.NONE]
        pairs = [
            Pair(cell, nested[cell], alone[cell])
            for cell in cells
            if cell in nested and cell in alone
        ]
        return judge(pairs, seed), None

    def _run(self, plan: Plan, sharing: Sharing, make: Make, asking: Asking) -> RunResult:
        given = (asking.store, asking.hash_of, asking.on_event, asking.deadline)
        if sharing is Sharing.NONE:
            return run(plan, make, self._subject(), *given)
        return run_shared(plan, make, self._sharing_subject(), *given, sharing=sharing)

    def _maker(self, sharing: Sharing) -> Make:
        return self._documents if sharing is Sharing.NESTED else self._single

    def _subject(self) -> LocalSubject:
        """Asks prompts by themselves."""
        return LocalSubject(
            self._model,
            self._tokens,
            chat=self._single.chat,
            set_length=self._install,
            position_limit=self._limit(),
        )

    def _sharing_subject(self) -> SharingLocal:
        """Asks prompts behind shared text; made once, for its cache is large."""
        if self._sharing is None:
            self._sharing = SharingLocal(
                self._model,
                self._tokens,
                chat=self._single.chat,
                set_length=self._install,
                position_limit=self._limit(),
                regime=lambda length: schedule_at(self._spec, length),
            )
        return self._sharing

    def _pace(self) -> float:
        """Seconds a token, from one short text read here and now."""
        import torch

        ids = torch.zeros((1, _PACED), dtype=torch.long, device=self._model.device)
        with torch.inference_mode():
            self._model(ids[:, :8], logits_to_keep=1)
            begun = time.perf_counter()
            float(self._model(ids, logits_to_keep=1).logits.sum())
        return (time.perf_counter() - begun) / _PACED

    def _install(self, length: int) -> None:
        install(self._model, self._spec, length)

    def _limit(self) -> int | None:
        rows = [
            encoding.rows
            for group in self._spec.groups
            if isinstance(encoding := group.encoding, LearnedPositions) and encoding.rows
        ]
        return min(rows) if rows else None
