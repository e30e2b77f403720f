"""Schedules measured on the model itself: facts found at the new length, and what short text costs.

Every candidate is asked the very same prompts, one document a trial, which is read once. Answers
are kept as they come, in a folder for each candidate, so that the same command goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.errors import UsageError
from ropewalk.extension import neighbour
from ropewalk.extension.methods import Stretch, Stretches, trained_length
from ropewalk.extension.skip import SkipProbe, why_not
from ropewalk.models.rotary_tables import install, schedule_fingerprint
from ropewalk.proof.ask import Asking, ask
from ropewalk.proof.cells import Control, Outcome, Row, Sharing
from ropewalk.proof.facts import (
    RECIPE,
    RunFacts,
    folder_name,
    hash_by,
    with_plan,
    with_sharing,
)
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.local import LocalModel
from ropewalk.proof.loss_by_position import Reader, whole
from ropewalk.proof.loss_run import generated
from ropewalk.proof.plan import Prompts, make_plan
from ropewalk.proof.progress import Event
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.statistics.verdicts import RelativeThreshold
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.branches import sharable
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

SHIPPED = "as shipped"
GAP_PROMPTS = 3
"""Short prompts with gaps by which schedules are compared before whole documents are read."""
SHORT = 1024
"""Tokens of short text; never more than the trained length."""


@short
@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that reads: a schedule that can be written, or a way of reading that cannot.

    `stretch` made the schedule; `how` is the way of reading, `note` says why a file cannot hold it.
    """

    name: str
    spec: PositionSpec
    how: neighbour.SelfExtend | None = None
    note: str = ""
    stretch: Stretch | None = None

    @property
    def writable(self) -> bool:
        """Whether a checkpoint can carry it to the new length."""
        return self.how is None and self.name != SHIPPED

    def reading(self, model: Any) -> AbstractContextManager[None]:
        """The model reads this way until the block ends; its schedule is installed besides."""
        return nullcontext() if self.how is None else neighbour.reading(model, self.spec, self.how)

    def fingerprint(self) -> str:
        """What tells two candidates apart."""
        schedule = schedule_fingerprint(self.spec)
        if self.how is None:
            return schedule
        return f"{schedule}, groups of {self.how.group} from {self.how.window} on"


@short
@dataclass(frozen=True, slots=True)
class Score:
    """What a candidate does. `rows` are its answers at the new length, the same prompts for all.

    `short` is the mean loss of short text in nats per token, `change` its share of the loss of the
    model as it is, less 1; `stopped` says why it was asked no further, "" where it was not stopped.
    """

    candidate: Candidate
    rows: tuple[Row, ...]
    short: float
    change: float
    stopped: str = ""

    @property
    def name(self) -> str:
        """The candidate's."""
        return self.candidate.name

    @property
    def asked(self) -> int:
        """Prompts that were answered one way or the other."""
        return len(self.rows)

    @property
    def hits(self) -> int:
        """Prompts whose fact was found."""
        return sum(row.answer.outcome is Outcome.HIT for row in self.rows)

    @property
    def share(self) -> float:
        """Hits by what was asked; 0 where nothing was."""
        return self.hits / self.asked if self.rows else 0.0

    @property
    def log_probability(self) -> float | None:
        """The mean log-probability of the true value, nats; None where none was computed."""
        values = [row.answer.log_probability for row in self.rows]
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if known else None


@short
@dataclass(frozen=True, slots=True)
class Grid:
    """Where facts are asked for: lengths in tokens, depths as shares, documents of their own."""

    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    trials: int
    seed: int = 0


@short
@dataclass(frozen=True, slots=True)
class Facts:
    """What every candidate's run folder says of the run, beside its schedule."""

    name: str
    model: str
    dtype: str
    command: str = ""


class Bench:
    """A loaded model on which candidates are measured, one after the other.

    `folder` keeps the answers, `text` are ids of short text without what the tokenizer puts
    before one (generated from the haystack's grammar where None), `sharing` how prompts are
    related, `on_event` hears of every answer.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        spec: PositionSpec,
        facts: Facts,
        folder: Path,
        *,
        seed: int = 0,
        text: Sequence[int] | None = None,
        sharing: Sharing = Sharing.BRANCHES,
        on_event: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.model = model
        self.spec = spec
        self.tokens = tokens
        self.maker = PromptMaker(tokens, seed)
        self.facts = facts
        self._folder = folder
        self._sharing = sharing
        self._on_event = on_event
        self._gaps: dict[tuple[PositionSpec, int], float] = {}
        self._losses: dict[tuple[PositionSpec, neighbour.SelfExtend | None], float] = {}
        size = min(SHORT, trained_length(spec)) - len(tokens.opening)
        self._text = generated(tokens, size, f"{seed}/short") if text is None else text[:size]
        if len(tokens.opening) + len(self._text) < 2:
            raise UsageError("the short text has fewer than 2 tokens, and so no loss; give more")

    @property
    def identity(self) -> str:
        """Names the weights."""
        return self.facts.model[:16]

    def needles(self, candidate: Candidate, grid: Grid, deadline: float | None) -> tuple[Row, ...]:
        """Ask what has no answer yet; every answer that this grid has by then.

        Answers that say nothing of retrieval (an error, no memory) are left out. Raises as
        `ropewalk.proof.prove.prove`, and KeyboardInterrupt when the user ends it.
        """
        plan = make_plan(grid.lengths, grid.depths, grid.trials, 0)
        install(self.model, candidate.spec, max(grid.lengths))
        with candidate.reading(self.model):
            able = sharable(self.model, candidate.spec, plan.lengths, self._sharing)
            facts = with_plan(
                self._store_facts(candidate), plan, RelativeThreshold(), candidate.spec
            )
            facts = with_sharing(facts, able.sharing, plan.lengths, plan.depths)
            if able.sharing is Sharing.BRANCHES:
                prompts = Prompts(GappedMaker(self.maker, plan.lengths, plan.depths))
            else:
                prompts = Prompts(self.maker)
            model = LocalModel(model=self.model, tokens=self.tokens, spec=candidate.spec)
            subject = model.subject(shared=able.sharing is not Sharing.NONE)
            with Store.open(self._folder / folder_name(candidate.name, facts), facts) as store:
                asking = Asking(store, hash_by(facts), self._on_event, deadline)
                result = ask(plan, prompts, subject, asking, able.sharing)
                rows = tuple(store.rows())
        if result.interrupted:
            raise KeyboardInterrupt
        wanted = {(c.length, c.depth, c.trial) for c in plan.cells if c.control is Control.NONE}
        return tuple(
            row
            for row in rows
            if (row.cell.length, row.cell.depth, row.cell.trial) in wanted
            and row.answer.outcome in (Outcome.HIT, Outcome.MISS, Outcome.WRONG)
        )

    def gaps(self, candidate: Candidate, target: int) -> float:
        """The mean log-probability of GAP_PROMPTS needles over gaps in positions, nats.

        Minus infinity for a way of reading that a gap says nothing of, and for a model of which it
        says nothing. Measured once for a schedule and a length.
        """
        if candidate.how is not None or why_not(self.model, self.spec) is not None:
            return -math.inf
        key = (candidate.spec, target)
        if key not in self._gaps:
            install(self.model, candidate.spec, target)
            found = SkipProbe(self.model, self.maker, self.spec, target)(range(GAP_PROMPTS))
            self._gaps[key] = math.fsum(gap.log_probability for gap in found) / len(found)
        return self._gaps[key]

    def short_loss(self, candidate: Candidate) -> float:
        """The mean loss of a token of short text, nats; the schedule is that of a short text.

        Measured once for a candidate.
        """
        key = (candidate.spec, candidate.how)
        if key not in self._losses:
            reader = Reader(
                self.model,
                lambda length: install(self.model, candidate.spec, length),
                opening=self.tokens.opening,
            )
            with candidate.reading(self.model):
                self._losses[key] = whole(reader, self._text).mean
        return self._losses[key]

    def _store_facts(self, candidate: Candidate) -> RunFacts:
        return RunFacts(
            name=self.facts.name,
            model=self.facts.model[:16],
            schedule=candidate.fingerprint(),
            rope=candidate.name,
            tokenizer=self.tokens.fingerprint(),
            seed=self.maker.seed,
            recipe=f"{RECIPE}, distractors 0",
            dtype=self.facts.dtype,
            command=self.facts.command,
        )


def stretched(stretches: Stretches, stretch: Stretch) -> Candidate:
    """A schedule to be measured. Raises ScheduleError where its formula has no value."""
    return Candidate(stretch.name, stretches.by(stretch), stretch=stretch)


def candidates(model: Any, stretches: Stretches, chosen: Iterable[Stretch]) -> Iterator[Candidate]:
    """Everything that is measured: the model as it is, those chosen, and Self-Extend."""
    spec = stretches.spec
    yield Candidate(SHIPPED, spec, note="does not claim the length")
    for stretch in chosen:
        yield stretched(stretches, stretch)
    # How its keys rotate is seen on the model's own schedule, and another may be installed by now.
    install(model, spec, None)
    if neighbour.why_not(model, spec) is None:
        how = neighbour.SelfExtend.reaching(trained_length(spec), stretches.target)
        yield Candidate(how.name, spec, how, neighbour.ENGINES)
