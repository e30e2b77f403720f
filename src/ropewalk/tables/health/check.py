"""All questions to one table, in order, each timed.

health = check_health(open_table("smollm2"))
health.isotropy.after.pair_cosine
health.undertrained.candidates[0].reason
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.kernels.arrays import as_tensor
from ropewalk.short import short, short_with
from ropewalk.tables.health.drift import HeadDrift, drift_of
from ropewalk.tables.health.isotropy import Isotropy, isotropy_of
from ropewalk.tables.health.nearest import (
    NEIGHBOURS,
    Duplicates,
    NearestRows,
    draw,
    duplicates_of,
    nearest_of,
)
from ropewalk.tables.health.scan import Norms, RowStretch, Scan, norms_of, scan, tile_rows
from ropewalk.tables.health.undertrained import Head, Undertrained, undertrained_of
from ropewalk.tables.health.unused import KnownUnused, RoundTrip, known_unused, round_trip
from ropewalk.tables.principal import Axes, Spread, spread_of
from ropewalk.tables.roles import output_biases

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.tables.open import EmbeddingTable

SAMPLE = 1024
TOP = 10

Tell = Callable[[str], None]
"""Takes a line for whoever waits."""


@short
@dataclass(frozen=True, slots=True)
class HealthOptions:
    """How to look: `top` rows named in each list, `sample` rows drawn with `seed`.

    `all_rows` counts rows without a token, too; `unused` are rows known never to have been used.
    Raises UsageError for numbers that cannot be.
    """

    top: int = TOP
    sample: int = SAMPLE
    seed: int = 0
    all_rows: bool = False
    unused: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, value in (("top", self.top), ("sample", self.sample)):
            if value < 1:
                raise UsageError(f"{name} is {value}; it is 1 or more")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"the seed is {self.seed}; it is from 0 to {2**63 - 1}")


@short_with("rows", "width", "tokens", "counted", "zero", "not_finite", "oversized", "duplicates")
@dataclass(frozen=True)
class Health:
    """Everything that was found. None stands where there was nothing to ask.

    `counted` rows went into norms, isotropy, neighbours and drift: with a direction, and with a
    token unless all rows were asked for; `sampled` of them were drawn. `tokens` is None without a
    vocabulary. `seconds` is the time of each part.
    """

    rows: int
    width: int
    tokens: int | None
    coverage: str
    asked: HealthOptions
    counted: int
    sampled: int
    without_token: RowStretch
    tokens_without_row: int
    zero: RowStretch
    not_finite: RowStretch
    oversized: RowStretch
    norms: Norms | None
    duplicates: Duplicates
    round_trip: RoundTrip | None
    undertrained: Undertrained | None
    isotropy: Isotropy | None
    drift: HeadDrift | None
    nearest: NearestRows | None
    seconds: dict[str, float] = field(compare=False)


def check_health(
    table: EmbeddingTable, asked: HealthOptions | None = None, tell: Tell | None = None
) -> Health:
    """Ask everything of an input table or an output head; `tell` gets a line on what takes long.

    Reads the table about five times from end to end, tile by tile, and the head three times where
    one is stored. Raises UsageError for a table of positions, RowError for unused rows that the
    table does not have, ConfigError for a tokenizer.json that cannot be brought up.
    """
    if table.role == "positions":
        raise UsageError(
            f"{table.name} is a table of positions, and health asks of tokens; its command is: "
            "ropewalk table MODEL positions"
        )
    return _Check(table, asked or HealthOptions(), tell or (lambda _: None)).all()


class _Check:
    """One table under question: what several answers share, and the clock."""

    def __init__(self, table: EmbeddingTable, asked: HealthOptions, tell: Tell) -> None:
        self.table, self.asked, self.tell = table, asked, tell
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add what is done inside to the seconds of a part."""
        start = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start

    def all(self) -> Health:
        """Ask in order."""
        table, top = self.table, self.asked.top
        with self.timed("rows and norms"):
            found = scan(table)
            counted = found.counted(all_rows=self.asked.all_rows)
            norms = norms_of(found, counted, top)
        with self.timed("duplicates"):
            duplicates = duplicates_of(found, top)
        with self.timed("round trip"):
            unused = known_unused(found, self.asked.unused, top)
            trip = round_trip(found, unused.mask, top)
        spread = self.spread(counted)
        with self.timed("drift"):
            drift, head = self.drift(found, counted)
        nearest = isotropy = undertrained = None
        drawn = draw(counted, self.asked.sample, self.asked.seed)
        if spread is not None:
            with self.timed("principal axes"):
                axes = spread.axes()
            with self.timed("under-trained"):
                undertrained = self.undertrained(found, unused, axes, head, trip)
            vectors = table[drawn.tolist()].float()
            with self.timed("isotropy"):
                isotropy = isotropy_of(table, spread, axes, counted, vectors, self.asked.seed)
            self.estimate(len(drawn), int(counted.sum()))
            with self.timed("near duplicates and hubs"):
                nearest = nearest_of(found, counted, drawn, vectors, top)
        return Health(
            rows=table.rows,
            width=table.width,
            tokens=table.tokens,
            coverage=table.coverage(),
            asked=self.asked,
            counted=int(counted.sum()),
            sampled=len(drawn),
            without_token=found.stretch(~found.tokened, top),
            tokens_without_row=max(0, (table.tokens or 0) - table.rows),
            zero=found.stretch(found.zero, top),
            not_finite=found.stretch(~found.finite, top),
            oversized=found.stretch(found.oversized, top),
            norms=norms,
            duplicates=duplicates,
            round_trip=trip,
            undertrained=undertrained,
            isotropy=isotropy,
            drift=drift,
            nearest=nearest,
            seconds=self.seconds,
        )

    def spread(self, counted: Tensor, of: EmbeddingTable | None = None) -> Spread | None:
        """The moments of the counted rows of the table, or of another; None of no row."""
        table = of or self.table
        if not bool(counted.any()):
            return None
        with self.timed("covariance"):
            return spread_of(table.tiles(tile_rows(table)), table.width, counted)

    def drift(self, found: Scan, counted: Tensor) -> tuple[HeadDrift | None, EmbeddingTable | None]:
        """The drift between the two tables, and the head where it is a table of its own."""
        tables, top = self.table.tables, self.asked.top
        if self.table.role != "input":
            return None, None
        try:
            sentence, name, tied = tables.tie.sentence, tables.tie.head, tables.tie.tied
        except ModelFileError as error:
            return HeadDrift(str(error), None, None, 0, 0, None, (), None, ()), None
        if name is None or name == self.table.name:
            return drift_of(found, None, counted, sentence, top), None
        try:
            head = tables.table("output", name)
        except UsageError as error:
            sentence += f"; it cannot be compared: {error}"
            return drift_of(found, None, counted, sentence, top), None
        if head.shape != self.table.shape:
            (rows, width), (own_rows, own_width) = head.shape, self.table.shape
            sentence += (
                f"; it is {rows:,} x {width:,} and the input table {own_rows:,} x {own_width:,}, "
                "so that rows cannot be compared"
            )
            return drift_of(found, None, counted, sentence, top), None
        drift = drift_of(found, head, counted, sentence, top)
        return drift, None if tied or drift.equal else head

    def undertrained(
        self,
        found: Scan,
        unused: KnownUnused,
        axes: Axes,
        head: EmbeddingTable | None,
        trip: RoundTrip | None,
    ) -> Undertrained | None:
        """The candidates, with distances in the head where it is a table of its own."""
        place = Head(self.table, axes.centre, axes.vectors[:, 0], bias=self.bias())
        if head is not None and unused.count:
            own = self.spread(found.counted(all_rows=False), head)
            axes = axes if own is None else own.axes(1)
            place = Head(head, axes.centre, axes.vectors[:, 0], own=True, bias=place.bias)
        missed = set() if trip is None else {
            row for first, last in trip.unreachable.ranges for row in range(first, last + 1)
        }  # fmt: skip
        return undertrained_of(found, place, unused, self.asked.top, missed)

    def bias(self) -> Tensor | None:
        """The output bias (rows,) fp32, None where none is stored that has a number per row."""
        checkpoint = self.table.tables.checkpoint
        names = output_biases(checkpoint, self.table.rows)
        return as_tensor(checkpoint.matrix(names[0]).whole()[0]).float() if names else None

    def estimate(self, queries: int, rows: int) -> None:
        """Say how long the neighbours take, by the rate at which the covariance was made."""
        width, done = self.table.width, self.seconds["covariance"]
        rate = 2 * rows * width**2 / done
        work = 2 * queries * rows * width
        whole = 2 * rows**2 * width
        self.tell(
            f"nearest {NEIGHBOURS} of {queries:,} sampled rows among {rows:,}: "
            f"{work / 1e12:.3g} TFLOP, about {work / rate:.0f} s; all rows would be "
            f"{whole / 1e12:.3g} TFLOP, about {whole / rate / 60:.0f} min"
        )
