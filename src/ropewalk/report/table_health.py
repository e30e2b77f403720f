"""The health of a table as a document: rows, norms, candidates, isotropy, drift, neighbours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ropewalk.report.document import (
    Block,
    Column,
    Detail,
    Details,
    Document,
    Heading,
    Prose,
    Table,
    in_terminal,
    on_page,
)
from ropewalk.report.table_words import LABEL, token_column
from ropewalk.report.text import clip

if TYPE_CHECKING:
    from ropewalk.tables.health.check import Health
    from ropewalk.tables.health.drift import HeadDrift
    from ropewalk.tables.health.isotropy import Isotropy
    from ropewalk.tables.health.nearest import Duplicates, Hubness, NearDuplicates
    from ropewalk.tables.health.scan import Norms, Ranked, RowStretch
    from ropewalk.tables.health.undertrained import Undertrained
    from ropewalk.tables.health.unused import RoundTrip

BAR = 40
RANGES = 8


def document(health: Health, title: str) -> Document:
    """The whole report of the table of a model called `title`."""
    question = f"What is in the embedding table of {title}?"
    blocks = tuple(_blocks(health))
    return Document(f"{title}: health", blocks, "ropewalk table health", question, width=100)


def _blocks(health: Health) -> Iterator[Block]:
    yield from _rows(health)
    if health.norms is None:
        yield from _section("norms", "no row has a direction and a token: nothing to measure")
    else:
        yield from _norms(health.norms)
    yield from _duplicates(health.duplicates)
    if health.round_trip is not None:
        yield from _round_trip(health.round_trip)
    if health.undertrained is not None:
        yield from _undertrained(health.undertrained, health.duplicates)
    if health.isotropy is not None:
        yield from _isotropy(health.isotropy, health.asked.seed)
    if health.drift is not None:
        yield from _drift(health.drift)
    if health.nearest is not None:
        yield from _near_duplicates(health.nearest.duplicates, health.asked.seed)
        yield from _hubs(health.nearest.hubness, health.asked.seed)


def _rows(health: Health) -> Iterator[Block]:
    yield from _section("rows", "", first=True)
    yield f"  {health.coverage}"
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
    yield _said(
        f"below, {health.counted:,} rows count: finite, not all zeros, {kept}; "
        f"{health.sampled:,} of them are sampled with seed {health.asked.seed}"
    )


def _stretch(name: str, rows: RowStretch, *, named: bool = True) -> Iterator[Block]:
    text = f"{rows.count:,}: {_ranges(rows)}" if rows.count else "none"
    details = [Detail(name, text, rows.count)]
    if named and rows.count:
        names = ", ".join(clip(one.label, LABEL) for one in rows.shown)
        details.append(Detail("", f"{names}{', ...' * (rows.count > len(rows.shown))}"))
    yield Details(tuple(details), 22, indent=2)


def _ranges(rows: RowStretch) -> str:
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in rows.ranges[:RANGES]]
    more = len(rows.ranges) - RANGES
    return "rows " + ", ".join(parts) + (f" and {more:,} stretches more" if more > 0 else "")


def _norms(norms: Norms) -> Iterator[Block]:
    yield from _section(
        "norms",
        "L2 norm of a row. Training moves rows; those it never touches stay where they began or "
        "shrink (Land & Bartolo, arXiv 2405.05417; Gao et al., arXiv 1907.12009).",
    )
    yield f"  {norms.count:,} rows, mean {norms.mean:.4g}, standard deviation {norms.deviation:.4g}"
    yield _quantiles("quantiles", norms.quantiles)
    edges = zip(norms.edges, norms.edges[1:], norms.counts, strict=False)
    most = max(norms.counts)
    # A row among a hundred thousand still shows.
    bars = [(a, b, n, "#" * max(round(BAR * n / most), int(n > 0))) for a, b, n in edges]
    histogram = (
        Column("norm from", 12, lambda row: row[0], "{:.4g}", ">"),
        Column("to", 12, lambda row: row[1], "{:.4g}"),
        Column("rows", 10, lambda row: row[2], "{:,}"),
        Column("", 0, lambda row: row[3], align="<", key="bar"),
    )
    yield Table(histogram, bars, less=("",), key="histogram")
    kinds = (
        Column("kind", 12, lambda one: one.kind),
        Column("rows", 10, lambda one: one.count, "{:,}"),
        Column("lowest", 12, lambda one: one.lowest, "{:.4g}"),
        Column("median", 12, lambda one: one.median, "{:.4g}"),
        Column("highest", 12, lambda one: one.highest, "{:.4g}"),
    )
    yield Table(kinds, norms.kinds, indent=2, key="kinds")
    for name, ranked in (("lowest", norms.lowest), ("highest", norms.highest)):
        yield f"  {name}"
        yield _ranked(ranked)


def _duplicates(found: Duplicates) -> Iterator[Block]:
    yield from _section(
        "equal rows",
        "Rows with the same bits, found by digests of all rows and confirmed; rows of zeros are "
        "above. A model cannot tell their tokens apart.",
    )
    if not found.groups:
        yield "  none"
        return
    yield f"  {found.groups:,} groups of {found.rows:,} rows"
    for group in found.largest:
        names = ", ".join(f"{clip(n.label, LABEL)} {n.row}" for n in group.shown)
        more = group.count - len(group.shown)
        yield _said(
            f"{group.count:,} rows: {names}" + (f" and {more:,} more" if more else ""), hang="  "
        )
    if len(found.largest) < found.groups:
        yield f"  and {found.groups - len(found.largest):,} groups more"


def _round_trip(trip: RoundTrip) -> Iterator[Block]:
    yield from _section(
        "decoded and encoded again",
        "Undecodable: the token's bytes are no UTF-8 by themselves, so that it is a part of "
        "characters. Unreachable: its text, alone and behind a few others, never becomes this "
        "token (Land & Bartolo, arXiv 2405.05417, section 3.1).",
    )
    yield from _stretch("undecodable", trip.undecodable)
    if trip.source is None:
        yield _said(f"unreachable tokens are unknown: {trip.why_not}")
        return
    yield f"  {'encoded again':<22}{trip.checked:,} tokens by {trip.source}"
    yield from _stretch("unreachable", trip.unreachable)


def _undertrained(found: Undertrained, equal: Duplicates) -> Iterator[Block]:
    yield from _section(
        "under-trained candidates",
        "Rows near the mean of rows that are known never to have been used, or with a small norm "
        '(Land & Bartolo, "Fishing for Magikarp", arXiv 2405.05417). ' + found.caveat + ".",
    )
    if found.unused:
        yield f"  {found.unused:,} known-unused rows"
        for source in found.sources:
            yield _said(
                f"{source.rows.count:,} {source.reason}: {_ranges(source.rows)}", "    ", "  "
            )
        cohesion = "has no direction" if found.cohesion is None else f"{found.cohesion:.4f}"
        yield f"  their mean cosine with their mean: {cohesion} (1: all point one way)"
        yield f"  distances in {found.tensor or ''}"
    else:
        yield _said(
            "no row is known to be unused (none without a token, none named unused or reserved, no "
            "impossible byte), so that only norms are left, which say little in a tied table. "
            "Name such rows: --unused 5,7-9" + _hint(equal)
        )
    yield _said(
        f"{found.ranked:,} tokens ranked by {found.ranked_by}; the lowest 2% are {found.lowest:,}, "
        f"and {found.agreed:,} of them are in the lowest 2% by every indicator"
    )
    for one in found.candidates:
        head = f"    {one.scores[0].share or 0.0:>9.3%}  "
        yield Prose(f"{clip(one.label, LABEL)}  row {one.row}  {one.kind}", head)
        yield Prose(one.reason, " " * 15)
        others = "; ".join(
            f"{s.indicator} {s.value:.4g} ({s.share:.2%})"
            for s in one.scores[1:]
            if s.value is not None and s.share is not None
        )
        if others:
            yield Prose(others, " " * 15)


def _hint(equal: Duplicates) -> str:
    if not equal.largest:
        return ""
    rows = ",".join(str(one.row) for one in equal.largest[0].shown)
    return f". Equal rows may be: --unused {rows}"


def _drift(drift: HeadDrift) -> Iterator[Block]:
    yield from _section(
        "input and output table",
        "Cosine of each token's row in the one with its row in the other (Press & Wolf, arXiv "
        "1608.05859, compare the two).",
    )
    yield _said(drift.sentence)
    if drift.head is None:
        return
    same = "equal bit for bit" if drift.equal else "not equal"
    yield f"  {same}; {drift.compared:,} rows compared"
    if drift.without_direction:
        yield f"  {drift.without_direction:,} rows have no direction in one of them"
    if drift.mean_cosine is None:
        return
    yield f"  mean cosine {drift.mean_cosine:.4f}, median |output| / |input| {drift.norm_ratio:.4g}"
    yield _quantiles("quantiles", drift.quantiles)
    yield "  most drifted"
    yield _ranked(drift.drifted)


def _isotropy(found: Isotropy, seed: int) -> Iterator[Block]:
    """Figures before and after the mean is taken off, side by side."""
    yield from _section(
        "isotropy",
        "How evenly rows point everywhere, as they are and without their mean, which makes most of "
        'what is called anisotropy (Mu & Viswanath, "All-but-the-top", arXiv 1702.01417).',
    )
    share = "" if found.mean_share is None else f", {found.mean_share:.1%} of all squares"
    yield f"  {found.rows:,} rows; the mean row has length {found.mean_norm:.4g}{share}"
    before, after = found.before, found.after
    rows: list[tuple[str, float | None, float | None]] = [
        ("mean cosine of random pairs", before.pair_cosine, after.pair_cosine),
        ("  its standard deviation", before.pair_deviation, after.pair_deviation),
    ]
    for at, (one, other) in enumerate(zip(before.shares, after.shares, strict=True), 1):
        rows.append((f"share of PC{at}", one, other))
    rows += [
        ("participation ratio", before.participation_ratio, after.participation_ratio),
        ("min Z / max Z", before.partition_ratio, after.partition_ratio),
        ("IsoScore", None, found.isoscore),
    ]
    columns = (
        Column("", 36, lambda row: row[0], key="figure"),
        Column("as they are", 16, lambda row: row[1], "{:.4f}"),
        Column("mean removed", 16, lambda row: row[2], "{:.4f}"),
    )
    yield Table(columns, rows, indent=2, key="isotropy")
    yield _said(
        f"{found.pairs:,} random pairs, seed {seed}. Shares: of the sum of squares, along the axes "
        "of most. Participation ratio: (sum of variances)^2 / sum of their squares, from 1 to "
        f"{found.width:,}. Z(a): the sum of exp(row . a) over {found.partition_rows:,} sampled "
        "rows, a each axis both ways (Arora et al., TACL 2016; Mu & Viswanath, section 2.2); 1 is "
        "isotropic. IsoScore: 0 for one axis, 1 for all alike (Rudman et al., arXiv 2108.07344); "
        "it removes the mean itself."
    )
    yield _said(
        "Frequent tokens come out less similar than they are by cosine (Zhou et al., ACL 2022)."
    )


def _near_duplicates(found: NearDuplicates, seed: int) -> Iterator[Block]:
    yield from _section(
        "near duplicates",
        f"The nearest other row, by cosine, of {found.queries:,} sampled rows (seed {seed}) among "
        f"{found.ranked:,}.",
    )
    share = found.near / found.queries
    yield (
        f"  {found.near:,} of {found.queries:,} ({share:.2%}) have one at cosine "
        f"{found.threshold} or more that is not the same bits"
    )
    yield _quantiles("nearest", found.quantiles)
    columns = (
        Column("", 14, lambda pair: pair.cosine, "{:.4f}", ">", key="cosine"),
        token_column(lambda pair: pair.label),
        Column("", 9, lambda pair: pair.row, key="row"),
        token_column(lambda pair: pair.other_label),
        Column("", 9, lambda pair: pair.other, key="other"),
    )
    yield Table(columns, found.pairs, key="near duplicates")


def _hubs(found: Hubness, seed: int) -> Iterator[Block]:
    yield from _section(
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
        yield _said(
            f"of {graph.rows:,} sampled rows among themselves: skewness of N_{graph.k} {skew}, "
            f"hubs {graph.hubs:.1%} with {graph.hub_share:.1%} of all places, anti-hubs "
            f"{graph.antihubs:.1%}, Robin Hood index {graph.robin_hood:.3f}"
        )
    yield _said(
        "share of the queries that have a row among their nearest; all alike, it would be "
        f"{found.k / found.ranked:.2g}:"
    )
    yield _ranked(found.busiest)


def _section(name: str, definition: str, *, first: bool = False) -> Iterator[Block]:
    """A section's name, and under it what its figures are and after whom."""
    yield in_terminal(*([] if first else [""]), name.upper())
    yield on_page(Heading(name.capitalize()))
    if definition:
        yield _said(definition)


def _said(text: str, indent: str = "  ", hang: str = "") -> Prose:
    return Prose(text, indent, indent + hang, hyphens=False)


def _ranked(rows: Sequence[Ranked]) -> Table:
    """Rows with their score, token, number and kind."""
    columns = (
        Column("", 14, lambda one: one.score, "{:.4f}", ">", key="score"),
        token_column(lambda one: one.label),
        Column("", 9, lambda one: one.row, key="row"),
        Column("", 0, lambda one: one.kind, align="<", key="kind"),
    )
    return Table(columns, rows)


def _quantiles(name: str, quantiles: Iterable[tuple[float, float]]) -> str:
    """Values at shares, in one line."""
    cells = "  ".join(f"{share:.0%} {value:.4g}" for share, value in quantiles)
    return f"  {name:<10} {cells}"
