"""How a table's rows lie to each other, in the terminal: isotropy, near duplicates, hubs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ropewalk.report.layout import Piece, Table
from ropewalk.report.table_lines import LABEL, quantile_line, ranked_line, section, wrapped
from ropewalk.report.text import clip, visible

if TYPE_CHECKING:
    from ropewalk.tables.health.isotropy import Isotropy
    from ropewalk.tables.health.nearest import Hubness, NearDuplicates, NearestRows


def isotropy_lines(found: Isotropy, seed: int) -> Iterator[Piece]:
    """Figures before and after the mean is taken off, side by side."""
    yield from section(
        "isotropy",
        "How evenly rows point everywhere, as they are and without their mean, which makes most of "
        'what is called anisotropy (Mu & Viswanath, "All-but-the-top", arXiv 1702.01417).',
    )
    share = "" if found.mean_share is None else f", {found.mean_share:.1%} of all squares"
    yield f"  {found.rows:,} rows; the mean row has length {found.mean_norm:.4g}{share}"
    table: list[tuple[str, ...]] = [(" " * 36, f"{'as they are':>16}", f"{'mean removed':>16}")]
    before, after = found.before, found.after
    table.append(_line("mean cosine of random pairs", before.pair_cosine, after.pair_cosine))
    table.append(_line("  its standard deviation", before.pair_deviation, after.pair_deviation))
    for at, (one, other) in enumerate(zip(before.shares, after.shares, strict=True), 1):
        table.append(_line(f"share of PC{at}", one, other))
    table.append(
        _line("participation ratio", before.participation_ratio, after.participation_ratio)
    )
    table.append(_line("min Z / max Z", before.partition_ratio, after.partition_ratio))
    table.append(_line("IsoScore", None, found.isoscore))
    yield Table(table)
    yield from wrapped(
        f"{found.pairs:,} random pairs, seed {seed}. Shares: of the sum of squares, along the axes "
        "of most. Participation ratio: (sum of variances)^2 / sum of their squares, from 1 to "
        f"{found.width:,}. Z(a): the sum of exp(row . a) over {found.partition_rows:,} sampled "
        "rows, a each axis both ways (Arora et al., TACL 2016; Mu & Viswanath, section 2.2); 1 is "
        "isotropic. IsoScore: 0 for one axis, 1 for all alike (Rudman et al., arXiv 2108.07344); "
        "it removes the mean itself."
    )
    yield from wrapped(
        "Frequent tokens come out less similar than they are by cosine (Zhou et al., ACL 2022)."
    )


def nearest_lines(found: NearestRows, seed: int) -> Iterator[Piece]:
    """Near duplicates, then hubs."""
    yield from _duplicates(found.duplicates, seed)
    yield from _hubs(found.hubness, seed)


def _line(name: str, before: float | None, after: float | None) -> tuple[str, ...]:
    cells = (f"{'-' if n is None else format(n, '.4f'):>16}" for n in (before, after))
    return (f"  {name:<34}", *cells)


def _duplicates(found: NearDuplicates, seed: int) -> Iterator[Piece]:
    yield from section(
        "near duplicates",
        f"The nearest other row, by cosine, of {found.queries:,} sampled rows (seed {seed}) among "
        f"{found.ranked:,}.",
    )
    share = found.near / found.queries
    yield (
        f"  {found.near:,} of {found.queries:,} ({share:.2%}) have one at cosine "
        f"{found.threshold} or more that is not the same bits"
    )
    yield quantile_line("nearest", found.quantiles)
    for pair in found.pairs:
        one, other = (visible(clip(text, LABEL)) for text in (pair.label, pair.other_label))
        yield f"    {pair.cosine:>10.4f}  {one} {pair.row}  ~  {other} {pair.other}"


def _hubs(found: Hubness, seed: int) -> Iterator[Piece]:
    yield from section(
        "hubness",
        "N_k: how often a row is among the k nearest of the others (Radovanovic et al., JMLR 11, "
        "2010). Hub: N_k of 2k or more; anti-hub: N_k of 0; Robin Hood index: the part of all "
        "neighbour places that would have to move for all N_k to be k (Feldbauer & Flexer, 2019).",
    )
    skewness = "unknown" if found.table_skewness is None else f"{found.table_skewness:.2f}"
    yield (
        f"  skewness of N_{found.k} over all {found.ranked:,} rows: {skewness}, estimated from "
        f"{found.queries:,} queries (seed {seed})"
    )
    graph = found.sampled
    if graph is not None:
        skew = "none" if graph.skewness is None else f"{graph.skewness:.2f}"
        yield from wrapped(
            f"of {graph.rows:,} sampled rows among themselves: skewness of N_{graph.k} {skew}, "
            f"hubs {graph.hubs:.1%} with {graph.hub_share:.1%} of all places, anti-hubs "
            f"{graph.antihubs:.1%}, Robin Hood index {graph.robin_hood:.3f}"
        )
    yield from wrapped(
        "share of the queries that have a row among their nearest; all alike, it would be "
        f"{found.k / found.ranked:.2g}:"
    )
    yield from map(ranked_line, found.busiest)
