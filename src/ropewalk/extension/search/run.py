"""A whole search on a loaded model: seeds, children, and the test on prompts it has not seen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.extension.choose import TOLERANCE, paired
from ropewalk.extension.methods import (
    CLOSED_FORMS,
    HEADROOMS,
    Method,
    Stretch,
    Stretches,
    against,
    extended,
    searched,
    trained_length,
)
from ropewalk.extension.score import SHIPPED, Bench, Candidate, Grid
from ropewalk.extension.search.candidate import DivisorCandidate, fitted
from ropewalk.extension.search.evolve import evolve
from ropewalk.extension.search.log import SearchLog, Tried
from ropewalk.extension.search.verdict import Verdict, agreement, gap_difference
from ropewalk.extension.skip import DEPTHS, Gap, SkipProbe
from ropewalk.models.rotary_tables import install, schedule_fingerprint
from ropewalk.proof.cells import Row
from ropewalk.proof.prompt import PromptMaker
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

HELD_OUT = 10
"""Prompts of the search's test, which the search has not seen."""
SEARCH_SHARE = 0.5
"""Of the time: the rest is for whole prompts."""
LEADING = 3
"""Prompts by which the search is led."""

Tell = Callable[[str], None]


@short
@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to: the closed form it had to beat, its best, and the test of the two."""

    closed: Stretch
    best: Tried
    tries: int
    verdict: Verdict
    table: tuple[tuple[str, float, float], ...]
    """Name, score by gaps in nats and loss of short text of every closed form and headroom."""


class Search:
    """Looks for divisors on a bench, for a context of `target` tokens.

    `forms` are the closed forms that it starts from and has to beat.
    """

    def __init__(
        self,
        bench: Bench,
        stretches: Stretches,
        *,
        seed: int = 0,
        leading: int = LEADING,
        forms: Sequence[Method] = CLOSED_FORMS,
    ) -> None:
        self._bench = bench
        self._stretches, target = stretches, stretches.target
        self._seed = seed
        self._forms = forms
        self._leading = range(leading)
        self._probe = SkipProbe(bench.model, bench.maker, bench.spec, target)
        held_out = PromptMaker(bench.tokens, bench.maker.seed + 1)
        self._unseen = SkipProbe(bench.model, held_out, bench.spec, target)
        # The space has to hold the closed forms with all their headroom.
        self._s = HEADROOMS[-1] * target / trained_length(bench.spec)
        self._before = bench.short_loss(Candidate(SHIPPED, bench.spec))

    def run(
        self,
        folder: Path,
        grid: Grid,
        *,
        tries: int | None,
        deadline: float | None,
        tell: Tell,
        tried: Tell = lambda _: None,
    ) -> Found:
        """Search until `tries` tries or its share of the time, then put the best to the test.

        `tell` is told what begins, and `tried` what came of each try.
        Raises StoreError for a log that cannot be written or is another search's.
        """
        closed_forms = [Stretch(form, room) for form in self._forms for room in HEADROOMS]
        ends = None
        if deadline is not None:
            now = time.monotonic()
            ends = now + SEARCH_SHARE * (deadline - now)
        tell("searching divisors")
        with SearchLog(folder, self._identity()) as log:
            best = evolve(
                log,
                self._seeds(closed_forms),
                self._score,
                self._s,
                seed=self._seed,
                most_loss=(1 + TOLERANCE) * self._before,
                tries=tries,
                deadline=ends,
                tell=lambda made, n: tried(
                    f"try {n} ({made.source}): {made.score:.2f} nats, short text {made.loss:.4f}"
                ),
            )
            count = len(log.tried)
        tell("scoring the closed forms as engines have them")
        table = [(each.name, *self._measured(self._stretches.by(each))) for each in closed_forms]
        by_name = {each.name: each for each in closed_forms}
        able = [row for row in table if row[2] <= (1 + TOLERANCE) * self._before] or table
        closed = by_name[max(able, key=lambda row: row[1])[0]]
        worst = by_name[min(table, key=lambda row: row[1])[0]]
        verdict = self._verdict(best.candidate, closed, worst, grid, deadline, tell)
        return Found(closed, best, count, verdict, tuple(table))

    def stretch(self, found: Found, *, force: bool = False) -> Stretch:
        """What is to be written: the closed form unless it was beaten, or `force` is given."""
        if not (found.verdict.wins or force):
            return found.closed
        return Stretch(searched(found.best.candidate.divisors, found.best.candidate.amplitude))

    def _seeds(self, closed_forms: Sequence[Stretch]) -> dict[str, DivisorCandidate]:
        """The closed forms, as far as the space holds them."""
        (_, plain), *_ = self._bench.spec.rotary_groups()
        seeds = {}
        for each in closed_forms:
            (_, changed), *_ = self._stretches.by(each).rotary_groups()
            divisors, amplitude = against(plain, changed, self._stretches.target)
            seeds[each.name] = fitted(divisors, amplitude, self._s)
        return seeds

    def _spec(self, candidate: DivisorCandidate) -> PositionSpec:
        # Each is tried once, and there are thousands: nothing is kept.
        method = searched(candidate.divisors, candidate.amplitude)
        return extended(self._bench.spec, self._stretches.target, method)

    def _score(self, candidate: DivisorCandidate) -> tuple[float, float]:
        return self._measured(self._spec(candidate))

    def _measured(self, spec: PositionSpec) -> tuple[float, float]:
        """The mean over gaps, and the loss of short text."""
        install(self._bench.model, spec, self._stretches.target)
        gaps = self._probe(self._leading)
        score = math.fsum(gap.log_probability for gap in gaps) / len(gaps)
        return score, self._bench.short_loss(Candidate("search", spec))

    def _gaps(self, spec: PositionSpec) -> list[Gap]:
        install(self._bench.model, spec, self._stretches.target)
        return self._unseen(range(HELD_OUT))

    def _verdict(
        self,
        candidate: DivisorCandidate,
        closed: Stretch,
        worst: Stretch,
        grid: Grid,
        deadline: float | None,
        tell: Tell,
    ) -> Verdict:
        """Gaps and whole prompts that the search has not seen, under four schedules.

        The closed form that did worst and the model as it is are there for the contrast.
        """
        tag = schedule_fingerprint(self._spec(candidate))[:8]
        specs = {
            closed.name: self._stretches.by(closed),
            f"search {tag}": self._spec(candidate),
            SHIPPED: self._bench.spec,
            worst.name: self._stretches.by(worst),
        }
        gaps: dict[str, list[Gap]] = {}
        whole: dict[str, tuple[Row, ...]] = {}
        for name, spec in specs.items():
            tell(f"held-out prompts: {name}")
            gaps[name] = self._gaps(spec)
            whole[name] = self._bench.needles(Candidate(name, spec), grid, deadline)
        shared = [depth for depth in grid.depths if depth in DEPTHS]
        apart = paired(whole[f"search {tag}"], whole[closed.name])
        if apart is None:
            raise UsageError(
                "no whole prompt was answered under both schedules in time, so that nothing can "
                "be said of the search; what it has tried is kept: give more --minutes"
            )
        return Verdict(
            closed.name,
            gap_difference(gaps[f"search {tag}"], gaps[closed.name]),
            apart,
            agreement(gaps, whole, shared),
        )

    def _identity(self) -> dict[str, object]:
        return {
            "model": self._bench.identity,
            "schedule": schedule_fingerprint(self._bench.spec),
            "target": self._stretches.target,
            "seed": self._seed,
            "prompts": [self._bench.maker.seed, len(self._leading)],
            "forms": [form.name for form in self._forms],
            "short loss": round(self._before, 3),
        }
