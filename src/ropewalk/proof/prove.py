"""A whole proof, from a model's name to kept answers and their summary.

The order is the one in which things can go wrong: names and numbers are checked before torch is
imported, a named run folder is tried before weights are loaded or a server is asked for answers,
and the live model's frequencies are compared with the schedule before the first token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ropewalk.errors import LengthError, UsageError
from ropewalk.files import check_can_hold
from ropewalk.findings import Audit
from ropewalk.listener import Listener
from ropewalk.proof.ask import Asking, ask
from ropewalk.proof.calibration import ask_both_ways, calibration_plan
from ropewalk.proof.cells import Calibrate, Cell, Row, Sharing
from ropewalk.proof.endpoint.subject import PREFIX
from ropewalk.proof.facts import (
    RunFacts,
    folder_name,
    hash_by,
    with_plan,
    with_settings,
    with_sharing,
)
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.grid import lengths_of, planned
from ropewalk.proof.own import Texts
from ropewalk.proof.plan import (
    CostModel,
    Make,
    Plan,
    Prompts,
    check_lengths_hold,
    in_words,
)
from ropewalk.proof.progress import ASKING, RunResult
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Budget, ReadCost, default_calibrate, reading
from ropewalk.proof.settings import MOST_DOCUMENTS, RUNS, ProofSettings, go_on
from ropewalk.proof.statistics.tally import by_task, own_rows, summary_of
from ropewalk.proof.store import Store, try_folder
from ropewalk.proof.subject import NamedModel, OpenedModel, Subject
from ropewalk.proof.subjects.sharable import Sharable
from ropewalk.proof.summary import RunSummary
from ropewalk.short import short_with
from ropewalk.shown import Shown


@short_with("summary.effective", "result")
@dataclass(frozen=True, slots=True)
class Proof(Shown):
    """A proof that has run, or has been interrupted: where it lies and what it says."""

    folder: Path
    summary: RunSummary
    result: RunResult
    audit: Audit | None
    """None for a model at a server, whose files are not here."""
    rows: tuple[Row, ...]
    tasks: Mapping[str, RunSummary] = field(default_factory=dict)
    """The summary of each task that was asked."""


class DryRun(Exception):  # noqa: N818 - nothing went wrong
    """The plan has been told, and no more was asked for."""


def prove(settings: ProofSettings, listener: Listener | None = None) -> Proof:
    """Run a proof, or go on with the one that lies in its run folder.

    Raises DryRun where that is all that was asked for, and otherwise an error of
    `ropewalk.errors`; what was answered before it stays in the run folder.
    """
    tell = listener or Listener()
    deadline = None if settings.minutes is None else time.monotonic() + 60 * settings.minutes
    settings.check()
    check_can_hold(settings.out or RUNS, "--out")
    named = _named(settings)
    settings = named.settings
    texts = Texts.read(settings)
    if settings.out is not None:
        try_folder(settings.out)
    for line in named.asked_as:
        tell.note(line)
    with contextmanager(named.opened)(tell) as model:
        session = _Session.begun(settings, model, texts, tell)
        budget = session.budget(deadline)
        for line in budget.lines(settings.price):
            tell.note(line)
        if settings.dry_run:
            raise DryRun
        facts = replace(session.facts(texts), asked_as="; ".join(named.asked_as))
        folder = settings.out or RUNS / folder_name(model.title, facts)
        with Store.open(folder, facts) as store:
            tell.planned(session.plan, folder)
            result = session.run(budget, Asking(store, hash_by(facts), tell.event, deadline))
            rows, facts = store.rows(), store.facts()
    own = tuple(own_rows(rows, facts))
    summary, tasks = summary_of(rows, facts), by_task(rows, facts)
    return Proof(folder, summary, result, model.audit, own, tasks)


def _named(settings: ProofSettings) -> NamedModel:
    # Most proofs are of models that are run here, and need nothing of what servers need.
    if settings.model.startswith(PREFIX):
        from ropewalk.proof.served import NamedServer

        return NamedServer(settings)
    from ropewalk.proof.local import NamedFiles

    return NamedFiles(settings)


_IN_PIECES = 2.5
"""How many times longer a plan of branches takes than its tokens read in one piece."""


@dataclass(slots=True)
class _Session:
    """One proof of an opened model. `alone` and `gapped` lay out prompts by the two ways."""

    settings: ProofSettings
    model: OpenedModel
    tell: Listener
    plan: Plan
    alone: PromptMaker
    able: Sharable = field(default_factory=lambda: Sharable(Sharing.NONE))
    gapped: GappedMaker | None = None
    prompts: Prompts = field(init=False)
    """Of the way that the map is asked in."""
    most: int = field(default=0, init=False)
    """Tokens that a short calibration may read: as many as the branches."""
    apart: Prompts = field(init=False)
    """Of prompts with the needles of branches, each by itself."""

    @classmethod
    def begun(
        cls, settings: ProofSettings, model: OpenedModel, texts: Texts, tell: Listener
    ) -> _Session:
        """Plan what is asked, decide what prompts share, and check that every length holds some.

        Raises LengthError for lengths that hold no question.
        """
        alone = PromptMaker(
            model.tokens,
            settings.seed,
            model.chat,
            settings.distractors,
            settings.answer_tokens,
            texts.sentences,
            {} if texts.own is None else {"documents": texts.own.task},
        )
        texts.check(model.tokens, settings)
        lengths = settings.lengths or lengths_of(model.spec)
        found = cls(settings, model, tell, planned(settings, lengths, Sharing.NONE), alone)
        found._check_lengths()
        found._decide(lengths)
        check_lengths_hold(found.plan.cells, found.prompts)
        return found

    def _check_lengths(self) -> None:
        """Raise LengthError for lengths that cannot hold what a task of the plan hides and asks."""
        for task in self.plan.tasks:
            least = self.model.least(self.alone.minimum(task))
            too_short = [length for length in self.plan.lengths if length < least]
            if too_short:
                of = "" if task == "single" else f" of the task {task}"
                raise LengthError(
                    f"a length of {too_short[0]} tokens cannot hold needle, question and answer"
                    f"{of}: {self.model.whose} the shortest is {least} tokens"
                )

    def _decide(self, lengths: tuple[int, ...]) -> None:
        """Decide what prompts share, say why, and plan as many trials as that takes."""
        wanted = self.settings.sharing or Sharing.BRANCHES
        why = self.settings.not_branched() or self.model.no_branches
        if wanted is Sharing.BRANCHES and why:
            if self.settings.sharing is not None:
                raise UsageError(f"--sharing branches cannot be: {why}; leave it out")
            wanted = Sharing.PREFIX
        self.able = self.model.able(wanted, lengths)
        self._lay_out(lengths)
        if self.able.sharing is Sharing.NONE and self.able.reason:
            self.tell.note(f"nothing is shared between prompts: {self.able.reason}")
        elif self.settings.sharing is None or self.able.reason:
            self.tell.note(_sharing_line(self.able.sharing, self.able.reason or why))

    def _lay_out(
        self,
        lengths: tuple[int, ...],
        trials: int | None = None,
        most: int = MOST_DOCUMENTS,
    ) -> None:
        """The plan over these lengths, and what lays out its prompts."""
        self.plan = planned(self.settings, lengths, self.able.sharing, trials, most)
        make: Make = self.alone
        self.gapped = None
        if self.able.sharing is Sharing.BRANCHES:
            own = tuple(map(self.model.own, self.plan.lengths))
            make = self.gapped = GappedMaker(self.alone, own, self.plan.depths)
        self.prompts = Prompts(self.model.laid(make))

    def budget(self, deadline: float | None) -> Budget:
        """What the plan will take; a plan that may be shortened until it fits the time, is."""
        cost = self.model.cost()
        budget = self._budget(cost)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and self.able.sharing is Sharing.BRANCHES:
            budget = self._within(left, cost, budget)
        while (
            left is not None
            and self.settings.shorten
            and budget.seconds is not None
            and budget.seconds > left
            and len(self.plan.lengths) > 1
        ):
            *shorter, longest = self.plan.lengths
            self.tell.note(
                f"{longest:,} tokens are left out: with them this would take about "
                f"{budget.seconds:,.0f} seconds here"
            )
            self._lay_out(tuple(shorter), self.plan.trials)
            budget = self._budget(cost)
        return budget

    def _within(self, left: float, cost: CostModel | None, budget: Budget) -> Budget:
        """As many trials as fit the time that is left, where the user named none."""
        if self.settings.trials is not None:
            return budget
        tries = [(n, MOST_DOCUMENTS) for n in range(self.plan.trials - 1, 0, -1)]
        for trials, most in [*tries, (1, MOST_DOCUMENTS // 2)]:
            if budget.seconds is None or budget.seconds * _IN_PIECES <= left:
                break
            self._lay_out(self.plan.lengths, trials, most)
            budget = self._budget(cost)
        return budget

    def _budget(self, cost: CostModel | None) -> Budget:
        """What the plan takes, by the real prompts of a trial; seconds by a short text's pace."""
        sharing, asked = self.able.sharing, self.settings.calibrate
        read = reading(self.plan, self.prompts)
        mode, besides = Calibrate.OFF, ReadCost()
        if self.gapped is not None:
            self.most = read.shared
            part = calibration_plan(
                self.plan, asked or Calibrate.SHORT, self.settings.seed, self.most
            )
            self.apart = Prompts(self.gapped.independent)
            besides = reading(part, self.apart)
            mode = asked or default_calibrate(read, besides.shared)
        if mode is Calibrate.OFF:
            besides = ReadCost()
        seconds = None
        if cost is not None:
            seconds = read.seconds(sharing, cost) + besides.seconds(Sharing.PREFIX, cost)
        return Budget(
            sharing=sharing,
            prompts=len(self.plan.cells),
            tokens=read.tokens(sharing),
            independent=read.independent,
            seconds=seconds,
            cache_bytes=self.model.cache_bytes(max(self.plan.lengths), self.able.bytes),
            calibrate=mode,
            calibration=besides.shared,
        )

    def facts(self, texts: Texts) -> RunFacts:
        """What the run folder says before anything is asked."""
        settings, model, plan = self.settings, self.model, self.plan
        facts = with_settings(
            model.facts, settings, texts.sentences, texts.own, chat=model.chat, salted=model.salted
        )
        facts = with_plan(facts, plan, settings.threshold, model.spec, model.trained)
        own = tuple(map(model.own, plan.lengths))
        facts = with_sharing(facts, self.able.sharing, own, plan.depths)
        return replace(facts, not_shared=self.able.reason)

    def run(self, budget: Budget, asking: Asking) -> RunResult:
        """Calibrate branches, fall back from them if they are another test, and ask."""
        sharing, prompts, store = self.able.sharing, self.prompts, asking.store
        subject = self.model.subject(shared=sharing is not Sharing.NONE)
        if sharing is Sharing.BRANCHES:
            ended = self._calibrate(budget.calibrate, subject, asking)
            if ended is not None and ended.interrupted:
                return ended
            if store.facts().fallback is not None:
                sharing, prompts = Sharing.PREFIX, Prompts(self.model.laid(self.alone))
                # A needle by itself is the same prompt either way, and is asked for each.
                own = asking.hash_of
                asking = replace(asking, hash_of=lambda prompt: f"{Sharing.PREFIX}|{own(prompt)}")
        self.tell.say(ASKING)

        def ask_cells(cells: tuple[Cell, ...]) -> RunResult:
            return ask(replace(self.plan, cells=cells), prompts, subject, asking, sharing)

        result = self._further(ask_cells(self.plan.cells), ask_cells, store)
        if result.left_out:
            said = in_words(result.left_out)
            if not result.done and not result.remaining:
                raise LengthError(f"nothing is left to ask: {said}")
            self.tell.note(f"left out: {said}")
            store.note(store.facts().without(result.left_out))
        return result

    def _calibrate(self, mode: Calibrate, subject: Subject, asking: Asking) -> RunResult | None:
        """Ask some cells both ways and note what that says; how it ended before it could say."""
        facts = asking.store.facts()
        if mode is Calibrate.OFF:
            why = "as was asked for"
            if self.settings.calibrate is None:
                why = "it would read more than branches save"
            said = f"none, {why}; --calibrate short asks cells both ways"
            asking.store.note(replace(facts, calibration=said))
            return None
        self.tell.say(f"calibrating ({mode})")
        # Of a limited time the half at most: a map that is not calibrated is better than none.
        half = asking.deadline and (time.monotonic() + asking.deadline) / 2
        part = calibration_plan(self.plan, mode, self.settings.seed, self.most)
        found, ended = ask_both_ways(
            part,
            self.prompts,
            self.apart,
            subject,
            replace(asking, deadline=half),
            self.settings.seed,
        )
        if ended is not None and not ended.interrupted:
            said = "not finished in half of the time, so that branches are not calibrated"
            self.tell.note(f"calibration: {said}")
            asking.store.note(replace(facts, calibration=said))
        if found is not None:
            self.tell.note(found.sentence)
            fallback = Sharing.PREFIX if found.real else None
            asking.store.note(replace(facts, calibration=found.sentence, fallback=fallback))
        return ended

    def _further(
        self,
        first: RunResult,
        ask_cells: Callable[[tuple[Cell, ...]], RunResult],
        store: Store,
    ) -> RunResult:
        """Further trials, where they were asked for and can still change the verdict."""
        if self.settings.further is None:
            return first

        def further(cells: tuple[Cell, ...]) -> RunResult:
            lengths = ", ".join(f"{n:,}" for n in dict.fromkeys(cell.length for cell in cells))
            trials = sorted({cell.trial + 1 for cell in cells})
            self.tell.note(f"not certain yet at {lengths} tokens: {len(cells)} more prompts")
            # Which trials are this run's own is kept before they are: others may lie there already.
            store.note(store.facts().with_further(cells))
            self.tell.say(f"asking, document {' and '.join(map(str, trials))} of a length")
            return ask_cells(cells)

        def kept() -> tuple[RunSummary, list[Row]]:
            rows, facts = store.rows(), store.facts()
            return summary_of(rows, facts), own_rows(rows, facts)

        return go_on(self.settings.further, first, further, kept)


def _sharing_line(sharing: Sharing, why: str) -> str:
    """Which way of sharing was chosen where none was asked for, and why."""
    if sharing is Sharing.PREFIX:
        return f"prefix sharing: the beginnings of prompts are read once; no branches, as {why}"
    return (
        "branches: the haystack of a trial is read once, and each needle in a gap of it; --sharing "
        "none asks each prompt by itself"
    )
