"""Facts of model types that were measured on their own classes, a file for each release.

`make atlas` writes `atlas/5.24.json` and `atlas/4.57.json`: small instances of every type of
transformers are built, and what reaches their attention is observed. `families` has what cannot be
observed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ropewalk.dialects.hf.defaults import (
    AlibiFacts,
    BucketFacts,
    ContentFacts,
    Every,
    Facts,
    LearnedFacts,
    RotaryFacts,
    SinusoidalFacts,
    Switched,
    UnrotatedFacts,
    Windowed,
)

RELEASE = "5.24"
"""The release whose classes the reader follows."""

OLDER = "4.57"
"""The last release of version 4, which has a row among the engines."""


BASE = "base "
"""How an outcome begins that is the base a class takes in place of those that a file states."""


def measured_facts(model_type: str, release: str = RELEASE) -> Facts | None:
    """What was measured of a text model's type; None for a type that was not observed."""
    found = _atlas(release)["types"].get(model_type, {})
    facts = dict(found.get("facts", {}))
    match found.get("encoding"):
        case "rotary":
            return _rotary(facts, found.get("nested", ""))
        case "learned":
            return LearnedFacts(**facts)
        case "sinusoidal":
            return SinusoidalFacts(**facts)
        case "alibi":
            return AlibiFacts(**facts)
        case "buckets":
            return BucketFacts(**facts)
        case "content":
            return ContentFacts(**facts)
        case "none":
            return UnrotatedFacts(**facts)
        case _:
            return None


def text_type(model_type: str) -> str:
    """The type of the text model inside a model of this type; the type itself where it has none."""
    found: Mapping[str, str] = _atlas()["text"]
    return found.get(model_type, model_type)


def nested_outcome(model_type: str) -> str:
    """What the class makes of `rope_parameters` by kind of layer: "computed", the base that it
    takes in their place, or the error it stops with; "" where that was not observed.
    """
    outcome: str = _atlas()["types"].get(model_type, {}).get("nested", "")
    return outcome


def older_outcome(model_type: str) -> str:
    """As `nested_outcome`, of version 4's keys: a base beside a `rope_scaling`; "" for computed."""
    outcome: str = _atlas()["types"].get(model_type, {}).get("older", "")
    return outcome


def measured_sinks(model_type: str) -> bool:
    """Whether a type that does not rotate has sinks."""
    return bool(_atlas()["types"].get(model_type, {}).get("sinks"))


def unread_keys(model_type: str) -> frozenset[str]:
    """Keys of a class's own configuration that bear on position and that no code asks for."""
    return frozenset(_atlas()["types"].get(model_type, {}).get("unread", ()))


def _rotary(facts: dict[str, Any], nested: str) -> RotaryFacts:
    shape = facts.pop("pattern", None)
    # A rule of layers that no period tells: files of such a type list their layers.
    facts.pop("unfitted", None)
    if shape is not None:
        facts["pattern"] = _pattern(shape)
    if facts.get("partial_keys") == []:
        # A file's share is told all the same; the row of transformers says what its class does.
        facts["outer_share"] = False
        del facts["partial_keys"]
    for key in ("nope_kinds", "sink_kinds", "base_keys", "partial_keys"):
        if key in facts:
            facts[key] = tuple(facts[key])
    return RotaryFacts(**facts, nested=nested)


def adds_by_content(model_type: str) -> bool:
    """Whether a type adds a bias to its scores that goes by the query, beside its encoding."""
    return bool(_atlas()["types"].get(model_type, {}).get("content"))


def measured_softmax(model_type: str) -> float | None:
    """The softmax scale over head_dim^-0.5 of a type that does not rotate, where it is another."""
    found: float | None = _atlas()["types"].get(model_type, {}).get("softmax")
    return found


def _pattern(shape: dict[str, Any]) -> Every | Windowed | Switched:
    rule = {key: value for key, value in shape.items() if key not in ("kind", "keys")}
    match shape["kind"]:
        case "windowed":
            return Windowed(**rule)
        case "switched":
            return Switched()
        case _:
            return Every(**rule, keys=tuple(shape.get("keys", ())))


@cache
def _atlas(release: str = RELEASE) -> dict[str, Any]:
    place = files("ropewalk.dialects.hf").joinpath(f"atlas/{release}.json")
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return found
