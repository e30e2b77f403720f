"""Whether what a dialect would be read back as is what was to be written, number by number.

Every writer of this package reads its own words again and comes here before it returns them, so
that a number which a dialect cannot hold is an error and never a silent change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ropewalk.errors import ScheduleError
from ropewalk.rope.angles import Schedule
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import LongRope, UnknownScaling
from ropewalk.rope.sections import used_sections
from ropewalk.rope.spec import Encoding, LayerGroup, PositionSpec, RotarySpec
from ropewalk.short import short

SINGLE = 2.5e-7
"""Relative room for a number that a file holds in single precision."""

_FP32 = 6e-8
"""What a fingerprint rounds off, relative."""

STILL = 1e-20
"""Radians a token; at a billion tokens such a pair has not moved."""


@short
@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect's name and what to do where it cannot hold a number.

    `tolerance` is relative; 0 asks for equal fingerprints. `most` bounds the lengths, in tokens,
    at which schedules are compared (None: also beyond the claim), for engines that fix the
    schedule when they load.
    """

    name: str
    remedy: str
    tolerance: float = 0.0
    most: int | None = None

    def refusal(self, field: str, value: object, why: str, remedy: str = "") -> ScheduleError:
        """The one kind of error, to be raised."""
        return ScheduleError(
            f"{self.name} cannot hold {field} {value}: {why}; {remedy or self.remedy}"
        )


def require_same(wanted: PositionSpec, found: PositionSpec, dialect: Dialect) -> None:
    """Raise ScheduleError unless `found` says of position all that `wanted` does.

    Compared are layers, windows, encodings, which channels are rotated and by which axis, the
    schedule's fingerprint at every length where it could differ, softmax rules, the claimed length,
    and the trained length where `wanted` states one. Not compared is the layout of channels: it
    belongs to the weights, and no dialect here writes weights.
    """
    if len(wanted.groups) != len(found.groups):
        raise dialect.refusal(
            "groups of layers", len(wanted.groups), f"it would hold {len(found.groups)}"
        )
    lengths = _lengths(wanted, dialect.most)
    for ours, theirs in zip(wanted.groups, found.groups, strict=True):
        if (ours.layers, ours.window) != (theirs.layers, theirs.window):
            raise dialect.refusal(
                "the layers of", ours.name, "other layers or windows would be read back"
            )
        _same_encoding(ours, theirs.encoding, lengths, dialect)
        _same_softmax(ours, theirs, dialect)
    if wanted.claimed.tokens != found.claimed.tokens:
        raise dialect.refusal(
            "the claimed length",
            wanted.claimed.tokens,
            f"{found.claimed.tokens} would be read back from {found.claimed.source}",
        )
    trained = wanted.trained
    if trained.stated and trained.tokens is not None and trained.tokens != found.trained.tokens:
        raise dialect.refusal(
            "the trained length", trained.tokens, f"{found.trained.tokens} would be read back"
        )


def require_one_list(spec: PositionSpec, served: int, dialect: Dialect) -> None:
    """Raise ScheduleError for longrope's two lists where an engine takes one for every prompt."""
    for _, rotary in spec.rotary_groups():
        match rotary.scaling:
            case LongRope(
                short_factor=short, long_factor=long, original_max_position_embeddings=switch
            ) if short != long and served > switch:
                raise dialect.refusal(
                    "longrope",
                    "of two lists",
                    "it takes one of them for every prompt, so that short ones would be rotated by "
                    "the long factors",
                    f"serve at most {switch} tokens, or choose a schedule that is the same for "
                    "every prompt",
                )
            case _:
                continue


def _lengths(spec: PositionSpec, most: int | None) -> list[int | None]:
    """Every length at which some schedule of the spec could change, and those around it."""
    anchors = {spec.claimed.tokens, spec.trained.tokens}
    for _, rotary in spec.rotary_groups():
        for name in ("max_position_embeddings", "original_max_position_embeddings"):
            anchors.add(getattr(rotary.scaling, name, None))
    found: set[int] = set()
    for anchor in anchors:
        if anchor is not None:
            found |= {anchor, anchor + 1, 2 * anchor}
    if most is not None:
        found = {min(length, most) for length in found}
    return [None, *sorted(found)]


def _same_encoding(
    group: LayerGroup, found: Encoding, lengths: list[int | None], dialect: Dialect
) -> None:
    wanted = group.encoding
    if not isinstance(wanted, RotarySpec) or not isinstance(found, RotarySpec):
        if wanted != found:
            raise dialect.refusal(
                "the encoding of", group.name, f"{_kind(found)} would be read back"
            )
        return
    for field, ours in _channels(wanted).items():
        theirs = _channels(found)[field]
        if ours != theirs:
            raise dialect.refusal(f"{field} of {group.name}", ours, f"{theirs} would be read back")
    if isinstance(wanted.scaling, UnknownScaling) or isinstance(found.scaling, UnknownScaling):
        if wanted != found:
            raise dialect.refusal(
                "scaling",
                repr(wanted.scaling.name),
                f"{found.scaling.name!r} would be read back",
            )
        return
    for length in lengths:
        ours, theirs = schedule(wanted, length), schedule(found, length)
        if not _equal(ours, theirs, dialect.tolerance):
            raise _schedule_refusal(group, (wanted, ours), (found, theirs), length, dialect)


def _channels(rotary: RotarySpec) -> dict[str, object]:
    """Which channels are rotated and by which axis; what says nothing is left alike."""
    return {
        "head_dim": rotary.head_dim,
        "rotary_dim": rotary.rotary_dim,
        "placement": rotary.placement if rotary.rotary_dim != rotary.head_dim else "first",
        "sections": used_sections(rotary.sections),
        "section_layout": rotary.section_layout,
    }


def _equal(ours: Schedule, theirs: Schedule, tolerance: float) -> bool:
    if tolerance == 0.0:
        return ours.fingerprint() == theirs.fingerprint()
    pairs = zip(ours.inv_freq, theirs.inv_freq, strict=True)
    return math.isclose(ours.attention_factor, theirs.attention_factor, rel_tol=tolerance) and all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=STILL) for a, b in pairs
    )


def _schedule_refusal(
    group: LayerGroup,
    wanted: tuple[RotarySpec, Schedule],
    found: tuple[RotarySpec, Schedule],
    length: int | None,
    dialect: Dialect,
) -> ScheduleError:
    """Name the number that differs: amplitude, base or a pair."""
    (ours, built), (_, other) = wanted, found
    at = "" if length is None else f" at {length} tokens"
    room = max(dialect.tolerance, _FP32)
    if not math.isclose(built.attention_factor, other.attention_factor, rel_tol=room):
        return dialect.refusal(
            f"attention_factor of {group.name}",
            f"{built.attention_factor:.10g}",
            f"{other.attention_factor:.10g} would multiply cos and sin{at}",
        )
    both = enumerate(zip(built.inv_freq, other.inv_freq, strict=True))
    apart = [i for i, (a, b) in both if not math.isclose(a, b, rel_tol=room, abs_tol=STILL)]
    pair = apart[0] if apart else 0
    return dialect.refusal(
        f"{ours.scaling.name} scaling of {group.name}, base",
        f"{ours.rope_theta:.10g}",
        f"pair {pair} would rotate {other.inv_freq[pair]:.7g} instead of "
        f"{built.inv_freq[pair]:.7g} radians per token{at}",
    )


def _same_softmax(wanted: LayerGroup, found: LayerGroup, dialect: Dialect) -> None:
    ours, theirs = (replace(group.softmax, rule="", factor=1.0) for group in (wanted, found))
    factors = wanted.softmax.factor, found.softmax.factor
    if ours != theirs or not math.isclose(*factors, rel_tol=max(dialect.tolerance, 1e-12)):
        raise dialect.refusal(
            f"the softmax factor of {wanted.name}",
            f"{factors[0]:.7g}",
            f"{factors[1]:.7g} would be read back",
        )


def _kind(encoding: Encoding) -> str:
    return type(encoding).__name__
