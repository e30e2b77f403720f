"""An audit as a document: lengths, a section for each group of layers, pairs, findings, engines.

Readable in 80 columns, without colour and in ASCII. Encodings, scalings and rules of a spec are put
into short plain words here.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

from ropewalk.findings import Audit, Finding, Horizon, RotaryAudit, to_json
from ropewalk.report.document import Block, Column, Detail, Details, Document, Heading, Prose, Table
from ropewalk.rope.diagnostics import PairRow
from ropewalk.rope.schedules import LongRope, PairDivisors, Scaling, UnknownScaling, Unscaled
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    Encoding,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    NoPositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SecondRotation,
    SinusoidalSpec,
    SoftmaxRule,
)

Pairs = Literal["digest", "all"]

ENOUGH = 8
"""Rows of a digest of pairs at least, where there are that many: evenly spread ones fill up."""
MOST_RANGES = 4
"""More ranges of layers than this are shortened in the middle."""

_LABEL = 16

values = to_json
"""Everything as plain JSON values."""


def document(audit: Audit, *, pairs: Pairs = "digest") -> Document:
    """The report of an audit, of what engines compute where it says that, and of a live model."""
    from ropewalk.report.engines import blocks as engine_blocks

    spec = audit.spec
    title = audit.name or spec.model_type or "model"
    blocks: list[Block] = [
        Prose(f"{title} ({spec.model_type}; {spec.format})", hyphens=False, tone="bold"),
        "",
        _details(
            _length("claimed length", spec.claimed),
            _length("trained length", audit.trained),
            *(_length("also named", other) for other in spec.other_lengths),
            Detail("how obtained", audit.origin.sentence),
        ),
    ]
    computed = {part.group: part for part in audit.rotary}
    for group in spec.groups:
        blocks += ["", *_group(audit, group, computed.get(group), pairs)]
    for second in spec.second:
        blocks += ["", *_second(second)]
    blocks += ["", *_findings(audit.findings)]
    if audit.live is not None:
        blocks += ["", Prose(audit.live.sentence)]
    if audit.engines is not None:
        blocks += engine_blocks(audit.engines)
    question = f"What does {title} say of position?"
    return Document(title, tuple(blocks), "ropewalk audit", question, width=10_000)


def _group(
    audit: Audit, group: LayerGroup, part: RotaryAudit | None, pairs: Pairs
) -> Iterator[Block]:
    yield Heading(f"{group.name}: {layers_words(group.layers)}")
    details = [Detail("encoding", encoding_words(group.encoding))]
    if group.window is not None:
        details.append(Detail("window", f"{group.window.size} tokens, {group.window.kind}"))
    rotary = group.encoding
    if isinstance(rotary, RotarySpec):
        details.append(
            Detail(
                "base", f"{rotary.rope_theta:,.10g}", rotary.rope_theta, rotary.rope_theta_source
            )
        )
        source = "" if rotary.scaling_source == "given" else rotary.scaling_source
        details.append(Detail("scaling", scaling_words(rotary.scaling), note=source))
    if part is not None:
        factor, rule = part.claim.attention_factor, part.claim.attention_rule
        details.append(Detail("on cos and sin", f"x {factor:.6g}", factor, rule))
    details.append(Detail("on the softmax", softmax_words(group.softmax), group.softmax.factor))
    if part is None:
        yield _details(*details)
        return
    yield _details(*details, *_limits(audit, part))
    yield ""
    rows = [(row, "") for row in part.pairs] if pairs == "all" else digest(part)
    yield pair_table(rows)
    if pairs == "digest" and len(rows) < len(part.pairs):
        yield Prose(f"{len(rows)} of {len(part.pairs)} pairs; --pairs all", "  ")


def _second(second: SecondRotation) -> Iterator[Block]:
    """A rotation beside that of the layers."""
    yield Heading(f"{second.part}: {layers_words(second.layers)}")
    rotary = second.rotary
    told = encoding_words(rotary) if rotary is not None else second.reason or "none"
    details = [Detail("encoding", told)]
    if rotary is not None:
        details.append(Detail("base", f"{rotary.rope_theta:,.10g}", rotary.rope_theta))
        details.append(Detail("scaling", scaling_words(rotary.scaling)))
    for name, number in (("heads", second.heads), ("keys kept", second.keeps),
                         ("tokens a key", second.rate)):  # fmt: skip
        if number is not None:
            details.append(Detail(name, str(number), number))
    if second.claimed is not None:
        details.append(_length("claimed length", second.claimed))
    if second.keys:
        details.append(Detail("from", ", ".join(second.keys)))
    yield _details(*details)


def _limits(audit: Audit, part: RotaryAudit) -> Iterator[Detail]:
    trained = audit.trained.tokens
    if part.critical_dimension is not None:
        yield Detail(
            "critical dim.",
            f"{part.critical_dimension} of {part.rotary.rotary_dim} channels: those below make a "
            f"full rotation within {trained} tokens at the base alone",
            part.critical_dimension,
        )
    if part.horizon is not None:
        yield Detail("horizon", _horizon_words(part.horizon), part.horizon.tokens)
    if trained is not None and audit.spec.claimed.tokens is not None:
        pairs = f"{part.unseen} of {len(part.pairs)} pairs at the claimed length"
        yield Detail("new angles", pairs, part.unseen)


def _horizon_words(horizon: Horizon) -> str:
    if horizon.tokens is None:
        return f"none below {horizon.searched} tokens, the farthest searched (a diagnostic)"
    return (
        f"{horizon.tokens} tokens: first distance where a like key is expected to score below a "
        "random one (a diagnostic)"
    )


def pair_table(rows: Sequence[tuple[PairRow, str]]) -> Table:
    """Rotary pairs, each with why it is shown; wavelength in tokens, rotations within the trained
    length. What other columns give by arithmetic is left out for want of room.
    """
    columns = (
        Column("pair", 5, lambda row: row[0].index, align=">"),
        Column("rad/token", 11, lambda row: row[0].unscaled, "{:.4e}"),
        Column("scaled", 11, lambda row: row[0].inv_freq, "{:.4e}"),
        Column("wavelength", 14, lambda row: row[0].wavelength, _wavelength),
        Column("divisor", 9, lambda row: row[0].divisor, "{:.5g}"),
        Column("rotations", 11, lambda row: row[0].rotations, _rotations, absent=""),
        Column("new", 5, lambda row: row[0].unseen, lambda new: "yes" if new else "no", absent=""),
        Column("", 0, lambda row: row[1], align="<", key="note"),
    )
    return Table(
        columns, rows, less=("", "rad/token", "rotations", "scaled"), head="dim", key="pairs"
    )  # fmt: skip


def _wavelength(tokens: float) -> str:
    return f"{tokens:,.1f}" if tokens < 1e9 else f"{tokens:.3e}"


def _rotations(count: float) -> str:
    """At most 10 characters, so that a space is left in the column."""
    if count < 99_999.9995:
        return f"{count:,.3f}"
    return f"{count:,.0f}" if count < 99_999_999.5 else f"{count:.3e}"


def _findings(findings: Sequence[Finding]) -> Iterator[Block]:
    if not findings:
        yield "Nothing to warn of."
    for heading, mark, tone, severity in (
        ("Warnings", "!", "yellow", "warning"),
        ("Notes", "-", "", "note"),
    ):
        group = [each for each in findings if each.severity == severity]
        if not group:
            continue
        yield Heading(f"{heading} ({len(group)})")
        for finding in group:
            yield Prose(finding.text, f"  {mark} ", hyphens=False, tone=tone)
            if finding.remedy:
                yield Prose(f"-> {finding.remedy}", "    ", " " * 7, hyphens=False)


def _length(name: str, length: Length) -> Detail:
    number = "unknown" if length.tokens is None else str(length.tokens)
    return Detail(name, number, length.tokens, length.source)


def _details(*details: Detail) -> Details:
    return Details(details, _LABEL, indent=2)


def digest(part: RotaryAudit) -> list[tuple[PairRow, str]]:
    """Rows with the reason each is shown: ends, ends of the ramp, critical pair, first new one.

    The ramp's ends are the last pair with the first pair's divisor and the first pair with the
    last one's. Of the critical pair its neighbours are shown too.
    """
    rows = part.pairs
    notes: dict[int, str] = {0: "fastest", len(rows) - 1: "slowest"}

    def add(index: int, note: str) -> None:
        if 0 <= index < len(rows) and not notes.get(index):
            notes[index] = note

    low, high = _ramp(rows)
    if low is not None and high is not None:
        add(low, "ramp begins")
        add(high, "ramp ends")
    first_new = next((row.index for row in rows if row.unseen), None)
    if first_new is not None:
        add(first_new, "first new")
    if part.critical_dimension is not None:
        critical = part.critical_dimension // 2
        add(critical, "critical")
        add(critical - 1, "")
        add(critical + 1, "")
    for sixteenths in (8, 4, 12, 2, 6, 10, 14):
        if len(notes) >= ENOUGH:
            break
        add(len(rows) * sixteenths // 16, "")
    return [(rows[index], notes[index]) for index in sorted(notes)]


def _ramp(rows: tuple[PairRow, ...]) -> tuple[int | None, int | None]:
    """Where the divisor leaves its first value and reaches its last; None where it is flat."""
    first, last = rows[0].divisor, rows[-1].divisor
    if math.isclose(first, last, rel_tol=1e-9):
        return None, None
    leaves = max(r.index for r in rows if math.isclose(r.divisor, first, rel_tol=1e-9))
    reaches = min(r.index for r in rows if math.isclose(r.divisor, last, rel_tol=1e-9))
    return (leaves, reaches) if leaves < reaches else (None, None)


def encoding_words(encoding: Encoding) -> str:
    """What kind of position a layer is told, with the numbers that shape it."""
    match encoding:
        case RotarySpec():
            last = "the last " if encoding.placement == "last" else ""
            layout = f"{encoding.layout} layout" if encoding.layout_known else "layout not known"
            words = f"rotary, {last}{encoding.rotary_dim} of {encoding.head_dim} channels, {layout}"
            if encoding.sections:
                words += f", sections {', '.join(map(str, encoding.sections))}"
                words += " in turns" if encoding.section_layout == "interleaved" else ""
            return words
        case IncompleteRotary(missing=missing):
            return f"rotary, incomplete: the file leaves out {', '.join(missing)}"
        case AlibiSpec(heads=heads, max_bias=bias):
            return f"ALiBi, {_count(heads, 'heads')}, largest bias {bias:g}"
        case LearnedPositions(rows=rows, offset=offset):
            reserved = f" behind {offset} reserved rows" if offset else ""
            return f"learned table, {_count(rows, 'positions')}{reserved}"
        case SinusoidalSpec(rows=rows):
            return f"sinusoidal, {_count(rows, 'positions')}"
        case RelativeBuckets(buckets=buckets, max_distance=distance):
            return f"relative, {buckets} buckets up to distance {distance}"
        case ContentBias(extent=extent, width=width):
            return (
                f"relative, a bias that each query mixes of {width} trained curves over the "
                f"last {extent} distances"
            )
        case NoPositionSpec():
            return "none: these layers are told no position"
        case Recurrent(kind=kind):
            return f"none: {kind} layers know order by their state"


def scaling_words(scaling: Scaling) -> str:
    """A scaling's name and the numbers of its formula; long lists by count and range."""
    match scaling:
        case Unscaled():
            return "none"
        case UnknownScaling(name=name, parameters=parameters):
            given = ", ".join(f"{key} {value}" for key, value in parameters)
            return f"{name} (unknown)" + (f": {given}" if given else "")
        case PairDivisors(divisors=divisors):
            return f"pair divisors: {_range(divisors)}"
        case _:
            return f"{scaling.name}: {', '.join(_numbers(scaling))}"


def softmax_words(rule: SoftmaxRule) -> str:
    """The factor on the softmax scale, its rule, and what else shapes the scores."""
    words = f"x {rule.factor:.6g} ({rule.rule})"
    if rule.softcap is not None:
        words += f", scores capped at {rule.softcap:g}"
    if rule.log_rule is not None:
        words += f", {rule.log_rule.on} x {rule.log_rule.formula}"
    if rule.sinks:
        words += ", a learned sink"
    return words


def layers_words(layers: tuple[int, ...]) -> str:
    """Layer indices as ranges and a count: "layers 0-5, 7 (7)"."""
    if not layers:
        return "layers not stated"
    ranges: list[list[int]] = []
    for layer in sorted(layers):
        if ranges and layer == ranges[-1][1] + 1:
            ranges[-1][1] = layer
        else:
            ranges.append([layer, layer])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in ranges]
    if len(shown) > MOST_RANGES:
        shown = [*shown[: MOST_RANGES - 1], "...", shown[-1]]
    return f"layers {', '.join(shown)} ({len(layers)} in all)"


def _numbers(scaling: Scaling) -> Iterator[str]:
    """Each parameter that is set, by its name."""
    for field in dataclasses.fields(scaling):
        value = getattr(scaling, field.name)
        name = field.name.replace("_", " ")
        if value is None:
            continue
        if isinstance(value, tuple):
            yield f"{name} {_range(value)}"
        elif isinstance(value, bool):
            yield f"{name} {'yes' if value else 'no'}"
        else:
            yield f"{name} {value:.10g}"
    if isinstance(scaling, LongRope) and scaling.short_factor == scaling.long_factor:
        yield "both lists equal"


def _range(values: tuple[float, ...]) -> str:
    if not values:
        return "no values"
    return f"{len(values)} values from {min(values):.5g} to {max(values):.5g}"


def _count(number: int | None, what: str) -> str:
    return f"{what} not stated" if number is None else f"{number} {what}"
