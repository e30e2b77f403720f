"""Encodings, scalings and rules of a spec in short plain words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ropewalk.rope.schedules import LongRope, PairDivisors, Scaling, UnknownScaling, Unscaled
from ropewalk.rope.spec import (
    AlibiSpec,
    Encoding,
    IncompleteRotary,
    LearnedPositions,
    NoPositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
    SoftmaxRule,
)

MOST_RANGES = 4
"""More ranges of layers than this are shortened in the middle."""


def encoding_words(encoding: Encoding) -> str:
    """What kind of position a layer is told, with the numbers that shape it."""
    match encoding:
        case RotarySpec():
            last = "the last " if encoding.placement == "last" else ""
            words = (
                f"rotary, {last}{encoding.rotary_dim} of {encoding.head_dim} channels, "
                f"{encoding.layout} layout"
            )
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
    if rule.temperature is not None:
        floor, scale = rule.temperature
        words += f", queries grow with position (floor {floor:g}, scale {scale:g})"
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
