"""What a spec gives reason to say, each with why and with what to do about it.

One small function a subject; each yields nothing where its subject does not arise. The readers'
own remarks come first. A code is not said twice: a reader's remark stands if it has a remedy,
and otherwise gives way to the finding of that code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropewalk.errors import ScheduleError
from ropewalk.findings.beside_findings import beside
from ropewalk.findings.origin import how_obtained
from ropewalk.findings.result import Audit, Horizon, Origin, RotaryAudit
from ropewalk.findings.schedule_findings import schedule_findings
from ropewalk.rope.diagnostics import pair_rows, similarity_horizon, trained_inv_freq
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import UnknownScaling
from ropewalk.rope.schedules.longrope import critical_dimension
from ropewalk.rope.spec import (
    Finding,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    PositionSpec,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
)

SENTINEL = 10**12
"""Tokenizers state lengths like 10^30 to mean "no limit"; such a number is no length."""


def find(
    spec: PositionSpec, trained: Length, rotary: tuple[RotaryAudit, ...], origin: Origin
) -> tuple[Finding, ...]:
    """All findings: the readers' remarks, then lengths, encodings and schedules."""
    own = (
        *_lengths(spec, trained),
        *_encodings(spec),
        *_windows(spec),
        *_log_rules(spec),
        *beside(spec),
        *schedule_findings(spec, trained, rotary, origin),
    )
    told = {finding.code for finding in own}
    found = [
        replace(r, text=_sentence(r.text), remedy=_sentence(r.remedy))
        for r in spec.findings
        if r.remedy or r.code not in told
    ]
    said = {finding.code for finding in found}
    if said & {"lengths-disagree", "tokenizer-length-beyond-claim"}:
        said.add("other-lengths")
    found.extend(finding for finding in own if finding.code not in said)
    return tuple(found)


def _sentence(text: str) -> str:
    """A remark as a sentence; a first word that names a field keeps its spelling."""
    if not text:
        return text
    first = text.split(maxsplit=1)[0]
    start = text if not first.isalpha() else text[0].upper() + text[1:]
    return start if start.endswith((".", "!", "?")) else start + "."


def _lengths(spec: PositionSpec, trained: Length) -> Iterator[Finding]:
    claimed = spec.claimed
    if claimed.tokens is None:
        bucketed = any(isinstance(g.encoding, RelativeBuckets) for g in spec.groups)
        why = "relative buckets have no last position" if bucketed else claimed.source
        yield Finding(
            "no-claimed-length",
            "note",
            f"No length is claimed: {why}.",
            "Prove the lengths you need; nothing in the files promises any.",
        )
    if not trained.stated and trained.tokens is not None:
        yield Finding(
            "trained-length-guessed",
            "note",
            f"The file states no trained length; {trained.tokens} is taken: {trained.source}.",
            "Look for the trained length in the model's report; the numbers here follow it.",
        )
    others = [
        length
        for length in spec.other_lengths
        if length.tokens not in (None, claimed.tokens, trained.tokens)
        and (length.tokens or 0) < SENTINEL
    ]
    if others and claimed.tokens is not None:
        listed = ", ".join(f"{length.tokens} ({length.source})" for length in others)
        yield Finding(
            "other-lengths",
            "note",
            f"Claimed is {claimed.tokens} ({claimed.source}); other fields say {listed}.",
            "Take none for true before it is proved; engines differ in which one they obey.",
        )


def _encodings(spec: PositionSpec) -> Iterator[Finding]:
    for group in spec.groups:
        match group.encoding:
            case IncompleteRotary(missing=missing, reason=reason):
                because = f" ({reason})" if reason else ""
                guess = "rope_theta" in missing
                yield Finding(
                    "incomplete-rotary",
                    "warning",
                    f"{group.name}: rotary, but the file leaves out {', '.join(missing)}{because}.",
                    "Look in the model's code or report for them, and whether it rotates at all; a "
                    "base put in by guess makes engines rotate what was never trained to be."
                    if guess
                    else "Add what is missing from the model's whole configuration; without it no "
                    "angle can be stated.",
                )
            case RotarySpec(scaling=UnknownScaling(name=name)):
                yield Finding(
                    "unknown-scaling-type",
                    "warning",
                    f"{group.name}: scaling type {name!r} is not known, so its angles are not.",
                    "Known: default, linear, dynamic, yarn, llama3, longrope; see whether the "
                    "type is another name of one of them.",
                )
            case LearnedPositions(rows=rows) if rows is not None:
                yield _table_end(spec, group.name, "learned", rows)
            case SinusoidalSpec(rows=rows) if rows is not None:
                yield _table_end(spec, group.name, "sinusoidal", rows)
            case _:
                continue


def _table_end(spec: PositionSpec, group: str, kind: str, usable: int) -> Finding:
    """A table's end; a warning when the claim passes it."""
    claimed = spec.claimed.tokens
    past = claimed is not None and claimed > usable
    also = f", and the file claims {claimed}" if past else ""
    return Finding(
        "hard-limit",
        "warning" if past else "note",
        f"{group}: the {kind} position table serves {usable} tokens{also}; no later row exists.",
        "Cut prompts to it, or train a longer table; rope scaling cannot help.",
    )


def _windows(spec: PositionSpec) -> Iterator[Finding]:
    claimed = spec.claimed.tokens
    windows = [group.window for group, _ in spec.rotary_groups()]
    if claimed is None or not windows:
        return
    sizes = sorted({window.reach for window in windows if window is not None})
    if None not in windows and sizes[-1] < claimed:
        listed = " or ".join(str(size) for size in sizes)
        yield Finding(
            "window-below-claim",
            "note",
            f"Every rotary layer sees at most {listed} tokens back, of {claimed} claimed: farther "
            "text arrives only through several layers.",
            f"Prove retrieval beyond {sizes[-1]} tokens before relying on it.",
        )


def _log_rules(spec: PositionSpec) -> Iterator[Finding]:
    """Factors that grow with the logarithm of position or length, with what they come to."""
    found: dict[LogRule, list[str]] = {}
    for group in spec.groups:
        if group.softmax.log_rule is not None:
            found.setdefault(group.softmax.log_rule, []).append(group.name)
    claimed, texts = spec.claimed.tokens, []
    for rule, names in found.items():
        last = None if claimed is None else claimed - 1 if rule.of == "position" else claimed
        factor = None if last is None else rule.factor(last)
        grown = "" if factor is None else f", {factor:.4g} at {claimed} tokens"
        keys = f" ({', '.join(rule.keys)})" if rule.keys else ""
        texts.append(f"{', '.join(names)}: {rule.on} x {rule.formula}{grown}{keys}")
    if texts:
        yield Finding(
            "log-rule",
            "note",
            f"{'; '.join(texts)}.",
            "Ask of an engine that it computes this factor: where it does not, long prompts are "
            "read with scores that were never trained.",
        )


HORIZON_SEARCH = 1 << 18
"""The longest distance searched for a horizon, in tokens; `Horizon.searched` says how far.

A window ends the search earlier: no score of its layer spans more.
"""


def audit(spec: PositionSpec, *, name: str = "") -> Audit:
    """Read `spec` into numbers, an origin and findings. `name` is what to call the model.

    A group whose schedule cannot be computed becomes a finding, not an error: the rest of the
    model is still described.
    """
    trained = trained_length(spec)
    groups: list[RotaryAudit] = []
    impossible: list[Finding] = []
    for group, rotary in spec.rotary_groups():
        if isinstance(rotary.scaling, UnknownScaling):
            continue
        try:
            groups.append(_read_group(group, rotary, trained.tokens, spec.claimed.tokens))
        except ScheduleError as error:
            text = f"{group.name}: no schedule can be built: {error}."
            remedy = "Correct the value in the file, then audit again."
            impossible.append(Finding("schedule-impossible", "warning", text, remedy))
    rotary_groups = tuple(groups)
    origin = how_obtained(spec, trained)
    findings = (*impossible, *find(spec, trained, rotary_groups, origin))
    return Audit(name, spec, trained, rotary_groups, origin, findings)


def _read_group(
    group: LayerGroup, rotary: RotarySpec, trained: int | None, claimed: int | None
) -> RotaryAudit:
    claim = frequencies(group, claimed)
    still = (rotary.head_dim - rotary.rotary_dim) // 2

    def horizon(inv_freq: tuple[float, ...], length: int | None) -> Horizon | None:
        if length is None or length < 1:
            return None
        limit = min(length, HORIZON_SEARCH, group.window.reach if group.window else length)
        return Horizon(similarity_horizon(inv_freq, limit, still), limit)

    in_training, critical = None, None
    if trained is not None and trained >= 1:
        in_training = horizon(trained_inv_freq(rotary, trained, claimed), trained)
        critical = critical_dimension(rotary.rotary_dim, rotary.rope_theta, trained)
    return RotaryAudit(
        group=group,
        rotary=rotary,
        start=frequencies(group),
        claim=claim,
        pairs=pair_rows(rotary, trained, claimed, group.window),
        critical_dimension=critical,
        horizon=horizon(claim.inv_freq, claimed),
        trained_horizon=in_training,
    )
