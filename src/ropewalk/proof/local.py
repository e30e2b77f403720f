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
from ropewalk.proof.ask import run, run_shared
from ropewalk.proof.calibration import (
    Calibrate,
    Calibration,
    CalibrationPair,
    judge,
    plan_calibration,
)
from ropewalk.proof.cells import Answer, Cell, Prompt, Sharing
from ropewalk.proof.documents import DocumentMaker
from ropewalk.proof.plan import CostModel, Make, Plan, check_lengths_hold, in_words
from ropewalk.proof.progress import Event, RunResult
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Budget, ReadCost, default_calibrate, reading
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.branches import Sharable, sharable
from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.proof.subjects.local import BRANCH_ROOM, LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import LearnedPositions, PositionSpec
from ropewalk.short import short

_PACED = 512
"""Tokens that are read to see how fast this machine is."""


@short
@dataclass(frozen=True, slots=True)
class Asking:
    """Where answers go and who is told: what every run is given besides its prompts."""

    store: Store
    hash_of: Callable[[Prompt], str]
    on_event: Callable[[Event], None]
    deadline: float | None = None


class _BothWays:
    """Events of two passes over the same cells, told as those of one: its counts only grow."""

    def __init__(self, cells: int, on_event: Callable[[Event], None]) -> None:
        self._cells, self._on_event = cells, on_event
        self._begun = time.monotonic()

    def first(self, event: Event) -> None:
        """An event of the first pass."""
        self._tell(event, 0, 0)

    def second(self, event: Event) -> None:
        """An event of the second pass, behind all of the first."""
        self._tell(event, self._cells, event.tokens_total)

    def _tell(self, event: Event, cells: int, tokens: int) -> None:
        done, total = tokens + event.tokens_done, 2 * event.tokens_total
        passed = time.monotonic() - self._begun
        # In proportion: what is left of this pass says nothing of the other.
        left = passed * (total - done) / done if done else event.eta_seconds
        told = replace(
            event,
            done=cells + event.done,
            total=2 * self._cells,
            tokens_done=done,
            tokens_total=total,
            eta_seconds=left,
        )
        self._on_event(told)


class LocalRun:
    """Everything that asks a loaded `model`, once it is known to turn by `spec`."""

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        spec: PositionSpec,
        plan: Plan,
        single: PromptMaker,
        seconds: float | None = None,
    ) -> None:
        # Measured once: a second look at a busy machine may say something else.
        self._seconds = seconds
        self._model = model
        self._tokens = tokens
        self._spec = spec
        self._plan = plan
        self._single = single
        self._documents = DocumentMaker(single, plan.lengths, plan.depths)
        self._sharing: SharingLocal | None = None

    @property
    def plan(self) -> Plan:
        """What is asked."""
        return self._plan

    def with_plan(self, plan: Plan) -> LocalRun:
        """The same model, asked another plan of the same lengths and depths."""
        return LocalRun(self._model, self._tokens, self._spec, plan, self._single, self._seconds)

    def able(self, wanted: Sharing) -> Sharable:
        """What the prompts of the plan may share on this model."""
        return sharable(self._model, self._spec, self._plan.lengths, wanted)

    def check(self, sharing: Sharing) -> None:
        """Raise LengthError unless every length can hold a document's facts, where they nest."""
        if sharing is Sharing.NESTED:
            self._documents.check()

    def check_rest(self, sharing: Sharing) -> None:
        """Raise LengthError for a length at which not one prompt of a task can be laid out.

        What a document holds is `check`'s.
        """
        nested = sharing is Sharing.NESTED
        cells = (cell for cell in self._plan.cells if not (nested and cell.task == "single"))
        check_lengths_hold(cells, self._single)

    def budget(
        self, sharing: Sharing, calibrate: Calibrate | None, seed: int, token_bytes: int | None
    ) -> Budget:
        """What the plan will take, by the real prompts of a trial; seconds by a short text's pace.

        `calibrate` None: see `default_calibrate`.
        """
        read = reading(self._plan, self._maker(sharing))
        mode, besides = Calibrate.OFF, ReadCost()
        if sharing is Sharing.NESTED:
            part = self._calibration(calibrate or Calibrate.SHORT, seed)
            besides = reading(part, self._documents.independent)
            mode = calibrate or default_calibrate(read, besides.shared)
        if mode is Calibrate.OFF:
            besides = ReadCost()
        if self._seconds is None:
            # The better of two: what disturbs a look makes it slower, never faster.
            self._seconds = min(self._pace(), self._pace())
        cost = CostModel().fit([(_PACED, self._seconds)])
        return Budget(
            sharing=sharing,
            prompts=len(self._plan.cells),
            tokens=read.tokens(sharing),
            independent=read.independent,
            seconds=read.seconds(sharing, cost) + besides.seconds(Sharing.PREFIX, cost),
            cache_bytes=token_bytes and token_bytes * (max(self._plan.lengths) + BRANCH_ROOM),
            calibrate=mode,
            calibration=besides.shared,
        )

    def run(
        self, sharing: Sharing, asking: Asking, cells: tuple[Cell, ...] | None = None
    ) -> RunResult:
        """Ask what has no answer yet: of the plan's cells, or of these instead."""
        plan = self._plan if cells is None else replace(self._plan, cells=cells)
        return self._run(plan, sharing, self._maker(sharing), asking)

    def calibrate(
        self, mode: Calibrate, seed: int, asking: Asking
    ) -> tuple[Calibration | None, RunResult | None]:
        """Ask some cells both ways; what that says, or how it ended before it could say anything.

        What was asked is kept, so that nothing of it is asked again. Also what prompts of their
        own share is read once: their answers are those that they would get alone.
        """
        part = self._calibration(mode, seed)
        cells = part.cells
        if not cells:
            return None, None
        both = _BothWays(len(cells), asking.on_event)
        # A fact may be all that a document holds up to a length: then both ways ask one prompt.
        apart = replace(
            asking,
            hash_of=lambda prompt: f"alone|{asking.hash_of(prompt)}",
            on_event=both.first,
        )
        left_out: dict[Cell, str] = {}
        for sharing, make, given in (
            (Sharing.NONE, self._documents.independent, apart),
            (Sharing.NESTED, self._documents, replace(asking, on_event=both.second)),
        ):
            result = self._shared(part, sharing, make, given)
            if result.interrupted or result.out_of_time:
                return None, result
            left_out.update(result.left_out)
        answers: dict[Sharing, dict[Cell, Answer]] = {Sharing.NONE: {}, Sharing.NESTED: {}}
        for row in asking.store.rows():
            if row.sharing in answers:
                answers[row.sharing][row.cell] = row.answer
        nested, alone = answers[Sharing.NESTED], answers[Sharing.NONE]
        pairs = [
            CalibrationPair(cell, nested[cell], alone[cell])
            for cell in cells
            if cell in nested and cell in alone
        ]
        return judge(pairs, seed, in_words(left_out) if left_out else ""), None

    def _calibration(self, mode: Calibrate, seed: int) -> Plan:
        """The cells to ask both ways: those that a document holds a fact for."""
        single = tuple(cell for cell in self._plan.cells if cell.task == "single")
        plan = replace(self._plan, cells=single)
        return replace(plan, cells=plan_calibration(plan, mode, seed))

    def _run(self, plan: Plan, sharing: Sharing, make: Make, asking: Asking) -> RunResult:
        if sharing is not Sharing.NONE:
            return self._shared(plan, sharing, make, asking)
        given = (asking.store, asking.hash_of, asking.on_event, asking.deadline)
        return run(plan, make, self._subject(), *given)

    def _shared(self, plan: Plan, sharing: Sharing, make: Make, asking: Asking) -> RunResult:
        given = (asking.store, asking.hash_of, asking.on_event, asking.deadline)
        return run_shared(plan, make, self._sharing_subject(), *given, sharing=sharing)

    def _maker(self, sharing: Sharing) -> Make:
        return self._documents if sharing is Sharing.NESTED else self._single

    def _subject(self) -> LocalSubject:
        """Asks prompts by themselves."""
        return LocalSubject(self._model, self._tokens, **self._told())

    def _sharing_subject(self) -> SharingLocal:
        """Asks prompts behind shared text; made once, for its cache is large."""
        if self._sharing is None:
            regime = lambda length: schedule_at(self._spec, length)  # noqa: E731
            self._sharing = SharingLocal(self._model, self._tokens, **self._told(), regime=regime)
        return self._sharing

    def _told(self) -> dict[str, Any]:
        """What either subject is told beside the model."""
        return {
            "chat": self._single.chat,
            "set_length": self._install,
            "position_limit": self._limit(),
        }

    def _pace(self) -> float:
        """Seconds that _PACED tokens take, read here and now."""
        import torch

        calls = ModelCalls(self._model)
        ids = torch.zeros((1, _PACED), dtype=torch.long, device=calls.device)
        with torch.inference_mode():
            calls.call(ids[:, :8], None, 1)
            begun = time.perf_counter()
            logits, _ = calls.call(ids, None, 1)
            float(logits.sum())
        return time.perf_counter() - begun

    def _install(self, length: int) -> None:
        install(self._model, self._spec, length)

    def _limit(self) -> int | None:
        rows = [
            encoding.rows
            for group in self._spec.groups
            if isinstance(encoding := group.encoding, LearnedPositions) and encoding.rows
        ]
        return min(rows) if rows else None
