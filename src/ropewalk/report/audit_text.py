"""An audit in the terminal: lengths, a block for each group of layers, pairs, findings.

Readable in 80 columns, without colour and in ASCII. Text from files goes through `visible`
and never through rich's markup, so it cannot paint or move anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from ropewalk.findings.result import Audit, Finding, Horizon, RotaryAudit
from ropewalk.report.audit_words import encoding_words, layers_words, scaling_words, softmax_words
from ropewalk.report.layout import NARROWEST, wrapped
from ropewalk.report.pair_digest import digest
from ropewalk.report.text import encodable, visible
from ropewalk.rope.spec import LayerGroup, Length, RotarySpec

if TYPE_CHECKING:
    from rich.console import Console

    from ropewalk.rope.diagnostics import PairRow

LABEL = 16

Line = tuple[str, str]
"""Text and its rich style ("" for none)."""


def print_audit(
    console: Console, audit: Audit, *, pairs: Literal["digest", "all"] = "digest"
) -> None:
    """Write `audit` to `console`, wrapped to its width."""
    from rich.text import Text

    for text, style in audit_lines(audit, pairs=pairs, width=console.width):
        line = Text(encodable(text, console.encoding), style=style, no_wrap=True, overflow="ignore")
        console.print(line, soft_wrap=True)


def audit_lines(
    audit: Audit, *, pairs: Literal["digest", "all"] = "digest", width: int = 80
) -> Iterator[Line]:
    """The lines of the report and their styles, each at most max(`width`, 40) characters."""
    room = max(width, NARROWEST)
    spec = audit.spec
    title = audit.name or spec.model_type or "model"
    yield from _wrapped(f"{title} ({spec.model_type}; {spec.format})", room, style="bold")
    yield "", ""
    yield from _length("claimed length", spec.claimed, room)
    yield from _length("trained length", audit.trained, room)
    for other in spec.other_lengths:
        yield from _length("also named", other, room)
    yield from _fact("how obtained", audit.origin.sentence, room)
    computed = {part.group: part for part in audit.rotary}
    for group in spec.groups:
        yield "", ""
        yield from _group(audit, group, computed.get(group), pairs, room)
    yield "", ""
    yield from _findings(audit.findings, room)


def _group(
    audit: Audit,
    group: LayerGroup,
    part: RotaryAudit | None,
    pairs: Literal["digest", "all"],
    room: int,
) -> Iterator[Line]:
    yield from _wrapped(f"{group.name}: {layers_words(group.layers)}", room, style="bold")
    yield from _fact("encoding", encoding_words(group.encoding), room)
    if group.window is not None:
        yield from _fact("window", f"{group.window.size} tokens, {group.window.kind}", room)
    rotary = group.encoding
    if isinstance(rotary, RotarySpec):
        yield from _fact("base", f"{rotary.rope_theta:,.10g} ({rotary.rope_theta_source})", room)
        source = "" if rotary.scaling_source == "given" else f" ({rotary.scaling_source})"
        yield from _fact("scaling", scaling_words(rotary.scaling) + source, room)
    if part is not None:
        times = f"x {part.claim.attention_factor:.6g} ({part.claim.attention_rule})"
        yield from _fact("on cos and sin", times, room)
    yield from _fact("on the softmax", softmax_words(group.softmax), room)
    if part is None:
        return
    yield from _limits(audit, part, room)
    yield "", ""
    rows = [(row, "") for row in part.pairs] if pairs == "all" else digest(part)
    yield from _table(rows, room)
    if pairs == "digest" and len(rows) < len(part.pairs):
        yield from _wrapped(f"{len(rows)} of {len(part.pairs)} pairs; --pairs all", room, "  ")


def _limits(audit: Audit, part: RotaryAudit, room: int) -> Iterator[Line]:
    trained = audit.trained.tokens
    if part.critical_dimension is not None:
        yield from _fact(
            "critical dim.",
            f"{part.critical_dimension} of {part.rotary.rotary_dim} channels: those below make a "
            f"full turn within {trained} tokens at the base alone",
            room,
        )
    if part.horizon is not None:
        yield from _fact("horizon", _horizon_words(part.horizon), room)
    if trained is not None and audit.spec.claimed.tokens is not None:
        yield from _fact(
            "new angles", f"{part.unseen} of {len(part.pairs)} pairs at the claimed length", room
        )


def _horizon_words(horizon: Horizon) -> str:
    if horizon.tokens is None:
        return f"none below {horizon.searched} tokens, the farthest searched (a diagnostic)"
    return (
        f"{horizon.tokens} tokens: first distance where a like key is expected to score below a "
        "random one (a diagnostic)"
    )


COLUMNS = (("pair", 5), ("rad/token", 11), ("scaled", 11), ("wavelength", 14), ("divisor", 9),
           ("turns", 11), ("new", 5))  # fmt: skip
"""Headings and widths; `wavelength` in tokens, `turns` within the trained length."""


def _table(rows: Sequence[tuple[PairRow, str]], room: int) -> Iterator[Line]:
    """Rows of pairs; what the other columns give by arithmetic is left out for want of room."""
    dropped = set() if room >= 66 else {"rad/token", "turns"}
    if room < 50:
        dropped.add("scaled")
    kept = [column for column in COLUMNS if column[0] not in dropped]
    noted = room >= 80
    yield "".join(f"{name:>{width}}" for name, width in kept), "dim"
    for row, note in rows:
        cells = _cells(row)
        line = "".join(f"{cells[name]:>{width}}" for name, width in kept)
        yield (f"{line}  {note}".rstrip() if noted else line), ""


def _cells(row: PairRow) -> dict[str, str]:
    new = "" if row.unseen is None else "yes" if row.unseen else "no"
    return {
        "pair": str(row.index),
        "rad/token": f"{row.unscaled:.4e}",
        "scaled": f"{row.inv_freq:.4e}",
        "wavelength": f"{row.wavelength:,.1f}" if row.wavelength < 1e9 else f"{row.wavelength:.3e}",
        "divisor": f"{row.divisor:.5g}",
        "turns": "" if row.turns is None else f"{row.turns:,.3f}",
        "new": new,
    }


def _findings(findings: Sequence[Finding], room: int) -> Iterator[Line]:
    warnings = [f for f in findings if f.severity == "warning"]
    notes = [f for f in findings if f.severity == "note"]
    if not findings:
        yield "Nothing to warn of.", ""
        return
    for heading, mark, style, group in (
        ("Warnings", "!", "yellow", warnings),
        ("Notes", "-", "", notes),
    ):
        if not group:
            continue
        yield f"{heading} ({len(group)})", "bold"
        for finding in group:
            yield from _wrapped(finding.text, room, f"  {mark} ", style)
            if finding.remedy:
                yield from _wrapped(f"-> {finding.remedy}", room, "    ", hang=7)


def _length(label: str, length: Length, room: int) -> Iterator[Line]:
    number = "unknown" if length.tokens is None else str(length.tokens)
    yield from _fact(label, f"{number} ({length.source})", room)


def _fact(label: str, value: str, room: int) -> Iterator[Line]:
    yield from _wrapped(value, room, f"  {label:<{LABEL}}", hang=2 + LABEL)


def _wrapped(
    text: str, room: int, start: str = "", style: str = "", hang: int | None = None
) -> Iterator[Line]:
    """`text` behind `start`, made safe and wrapped; later lines hang below the text."""
    rest = " " * (len(start) if hang is None else hang)
    for line in wrapped(visible(text), room, start, rest) or [start.rstrip()]:
        yield line, style
