"""A table's health in the terminal: every section says what it measures and after whom.

Readable without colour and in ASCII but for tokens, which come in their display form and go
through `visible`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Drawn, Piece, Prose, Table, lines
from ropewalk.report.table_geometry import isotropy_lines, nearest_lines
from ropewalk.report.table_lines import (
    LABEL,
    WIDTH,
    label,
    quantile_line,
    ranked_line,
    section,
    wrapped,
)
from ropewalk.report.text import clip, visible

if TYPE_CHECKING:
    from ropewalk.tables.health.check import Health
    from ropewalk.tables.health.drift import HeadDrift
    from ropewalk.tables.health.nearest import Duplicates
    from ropewalk.tables.health.scan import Norms, RowStretch
    from ropewalk.tables.health.undertrained import Undertrained
    from ropewalk.tables.health.unused import RoundTrip

BAR = 40
RANGES = 8
_BEFORE_BAR = 37
"""Cells of a bar's edges and its count."""


def health_lines(health: Health, width: int = WIDTH) -> Iterator[str]:
    """The whole report, line by line, in `width` columns, WIDTH at most."""
    yield from lines(_pieces(health), min(width, WIDTH))


def _pieces(health: Health) -> Iterator[Piece]:
    yield from _rows(health)
    if health.norms is None:
        yield from section("norms", "no row has a direction and a token: nothing to measure")
    else:
        yield from _norms(health.norms)
    yield from _duplicates(health.duplicates)
    if health.round_trip is not None:
        yield from _round_trip(health.round_trip)
    if health.undertrained is not None:
        yield from _undertrained(health.undertrained, health.duplicates)
    if health.isotropy is not None:
        yield from isotropy_lines(health.isotropy, health.asked.seed)
    if health.drift is not None:
        yield from _drift(health.drift)
    if health.nearest is not None:
        yield from nearest_lines(health.nearest, health.asked.seed)


def _rows(health: Health) -> Iterator[Piece]:
    yield "ROWS"
    yield f"  {visible(health.coverage)}"
    token_less = health.without_token
    if token_less.count:
        yield from _stretch("without a token", token_less, named=False)
    if health.tokens_without_row:
        yield f"  {'tokens without a row':<22}{health.tokens_without_row:,}"
    yield from _stretch("all zeros", health.zero)
    yield from _stretch("NaN or infinity", health.not_finite)
    if health.oversized.count:
        yield from _stretch("beyond 1e17", health.oversized)
    kept = "rows without a token counted in" if health.asked.all_rows else "with a token"
    yield from wrapped(
        f"below, {health.counted:,} rows count: finite, not all zeros, {kept}; "
        f"{health.sampled:,} of them are sampled with seed {health.asked.seed}"
    )


def _stretch(name: str, rows: RowStretch, *, named: bool = True) -> Iterator[Piece]:
    if not rows.count:
        yield f"  {name:<22}none"
        return
    yield from wrapped(f"{name:<22}{rows.count:,}: {_ranges(rows)}", hang=" " * 22)
    if named:
        names = ", ".join(visible(clip(one.label, LABEL)) for one in rows.shown)
        yield from wrapped(f"{'':<22}{names}{', ...' * (rows.count > len(rows.shown))}")


def _ranges(rows: RowStretch) -> str:
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in rows.ranges[:RANGES]]
    more = len(rows.ranges) - RANGES
    return "rows " + ", ".join(parts) + (f" and {more:,} stretches more" if more > 0 else "")


def _norms(norms: Norms) -> Iterator[Piece]:
    yield from section(
        "norms",
        "L2 norm of a row. Training moves rows; those it never touches stay where they began or "
        "shrink (Land & Bartolo, arXiv 2405.05417; Gao et al., arXiv 1907.12009).",
    )
    yield f"  {norms.count:,} rows, mean {norms.mean:.4g}, standard deviation {norms.deviation:.4g}"
    yield quantile_line("quantiles", norms.quantiles)
    yield Drawn(lambda width: _histogram(norms, width))
    heads = (f"  {head:>10}" for head in ("lowest", "median", "highest"))
    table = [(f"  {'kind':<10}", f" {'rows':>9}", *heads)]
    for one in norms.kinds:
        numbers = (f"  {value:>10.4g}" for value in (one.lowest, one.median, one.highest))
        table.append((f"  {one.kind:<10}", f" {one.count:>9,}", *numbers))
    yield Table(table)
    for name, ranked in (("lowest", norms.lowest), ("highest", norms.highest)):
        yield f"  {name}"
        yield from map(ranked_line, ranked)


def _histogram(norms: Norms, width: int) -> Iterator[str]:
    """How many rows have which norm, with bars as far as there is room for them."""
    most, room = max(norms.counts), min(BAR, width - _BEFORE_BAR)
    for low, high, count in zip(norms.edges, norms.edges[1:], norms.counts, strict=False):
        # A row among a hundred thousand still shows.
        bar = "#" * max(round(room * count / most), int(count > 0))
        yield f"  {low:>10.4g} - {high:<10.4g} {count:>9,}  {bar}"


def _duplicates(found: Duplicates) -> Iterator[Piece]:
    yield from section(
        "equal rows",
        "Rows with the same bits, found by digests of all rows and confirmed; rows of zeros are "
        "above. A model cannot tell their tokens apart.",
    )
    if not found.groups:
        yield "  none"
        return
    yield f"  {found.groups:,} groups of {found.rows:,} rows"
    for group in found.largest:
        names = ", ".join(f"{visible(clip(n.label, LABEL))} {n.row}" for n in group.shown)
        more = group.count - len(group.shown)
        yield from wrapped(
            f"{group.count:,} rows: {names}" + (f" and {more:,} more" if more else ""), hang="  "
        )
    if len(found.largest) < found.groups:
        yield f"  and {found.groups - len(found.largest):,} groups more"


def _round_trip(trip: RoundTrip) -> Iterator[Piece]:
    yield from section(
        "decoded and encoded again",
        "Undecodable: the token's bytes are no UTF-8 by themselves, so that it is a part of "
        "characters. Unreachable: its text, alone and behind a few others, never becomes this "
        "token (Land & Bartolo, arXiv 2405.05417, section 3.1).",
    )
    yield from _stretch("undecodable", trip.undecodable)
    if trip.source is None:
        yield from wrapped(f"unreachable tokens are unknown: {visible(trip.why_not)}")
        return
    yield f"  {'encoded again':<22}{trip.checked:,} tokens by {visible(trip.source)}"
    yield from _stretch("unreachable", trip.unreachable)


def _undertrained(found: Undertrained, equal: Duplicates) -> Iterator[Piece]:
    yield from section(
        "under-trained candidates",
        "Rows near the mean of rows that are known never to have been used, or with a small norm "
        '(Land & Bartolo, "Fishing for Magikarp", arXiv 2405.05417). ' + found.caveat + ".",
    )
    if found.unused:
        yield f"  {found.unused:,} known-unused rows"
        for source in found.sources:
            yield from wrapped(
                f"{source.rows.count:,} {source.reason}: {_ranges(source.rows)}", "    ", "  "
            )
        cohesion = "has no direction" if found.cohesion is None else f"{found.cohesion:.4f}"
        yield f"  their mean cosine with their mean: {cohesion} (1: all point one way)"
        yield f"  distances in {visible(found.tensor or '')}"
    else:
        yield from wrapped(
            "no row is known to be unused (none without a token, none named unused or reserved, no "
            "impossible byte), so that only norms are left, which say little in a tied table. "
            "Name such rows: --unused 5,7-9" + _hint(equal)
        )
    yield from wrapped(
        f"{found.ranked:,} tokens ranked by {found.ranked_by}; the lowest 2% are {found.lowest:,}, "
        f"and {found.agreed:,} of them are in the lowest 2% by every indicator"
    )
    for one in found.candidates:
        share = one.scores[0].share or 0.0
        head = f"    {share:>9.3%}  "
        yield Prose(f"{label(one.label)} {one.row:>8}  {one.kind}", head, " " * len(head))
        yield from wrapped(one.reason, " " * 15)
        others = "; ".join(
            f"{s.indicator} {s.value:.4g} ({s.share:.2%})"
            for s in one.scores[1:]
            if s.value is not None and s.share is not None
        )
        yield from wrapped(others, " " * 15)


def _hint(equal: Duplicates) -> str:
    if not equal.largest:
        return ""
    rows = ",".join(str(one.row) for one in equal.largest[0].shown)
    return f". Equal rows may be: --unused {rows}"


def _drift(drift: HeadDrift) -> Iterator[Piece]:
    yield from section(
        "input and output table",
        "Cosine of each token's row in the one with its row in the other (Press & Wolf, arXiv "
        "1608.05859, compare the two).",
    )
    yield from wrapped(visible(drift.sentence))
    if drift.head is None:
        return
    same = "equal bit for bit" if drift.equal else "not equal"
    yield f"  {same}; {drift.compared:,} rows compared"
    if drift.without_direction:
        yield f"  {drift.without_direction:,} rows have no direction in one of them"
    if drift.mean_cosine is None:
        return
    yield f"  mean cosine {drift.mean_cosine:.4f}, median |output| / |input| {drift.norm_ratio:.4g}"
    yield quantile_line("quantiles", drift.quantiles)
    yield "  most drifted"
    yield from map(ranked_line, drift.drifted)
