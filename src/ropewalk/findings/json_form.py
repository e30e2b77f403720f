"""An audit as pure JSON types, under a stable schema.

Top level::

    schema           "ropewalk.audit/1"; the number grows when a field changes its meaning
    name, model_type, format
    claimed, trained, stated_trained
                     {tokens | null, source, stated}; `trained` is the one computed with
    other_lengths    list of the same
    origin           {code, sentence}
    groups           list, in the model's order: name, layers, window {size, kind} | null,
                     softmax {factor, rule, softcap, log_rule {grows, on, of, start, scale, first,
                     keys} | null, sinks},
                     encoding {type, ...its fields; scaling {type, ...its fields}},
                     rotary | null: see below; null where no angle can be computed
    second           list of {part, layers, rotary: as encoding, or null, heads, keeps, rate,
                     claimed, keys, reason}: rotations beside those of the layers
    dual_chunk       {chunk_size, local_size, original, keys} | null
    axes             {sections, dealing, keys} | null: axes dealt out in a family's own way
    findings         list of {code, severity, text, remedy}
    engines          where asked for: see `engines_json`
    live             of a loaded model: {verdict, sentence, parts}

`rotary`: attention_factor, attention_rule, fingerprint (of the schedule at the claimed length),
fingerprint_short (of a short prompt), critical_dimension, horizon and trained_horizon
{tokens, searched} | null, unseen_pairs, pairs: every pair as {index, unscaled, inv_freq,
wavelength, divisor, rotations, unseen}. Frequencies in radians per token, lengths in tokens. A
number that JSON lacks (an infinite wavelength) is null.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ropewalk.dialects.engines import EngineView, partings
from ropewalk.findings.result import Audit, RotaryAudit
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    Encoding,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    NoPositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SecondRotation,
    SinusoidalSpec,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from ropewalk.findings.live import LiveCheck, PartCheck, TableCheck


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

SCHEMA = "ropewalk.audit/1"

ENCODINGS: dict[type[Encoding], str] = {
    RotarySpec: "Rotary",
    IncompleteRotary: "IncompleteRotary",
    AlibiSpec: "Alibi",
    LearnedPositions: "LearnedPositions",
    SinusoidalSpec: "Sinusoidal",
    RelativeBuckets: "RelativeBuckets",
    ContentBias: "ContentBias",
    NoPositionSpec: "NoPosition",
    Recurrent: "Recurrent",
}
"""What each encoding is called in a document."""


def to_json(audit: Audit) -> dict[str, Json]:
    """`audit` as a dictionary that `json.dumps(..., allow_nan=False)` accepts."""
    computed = {part.group: part for part in audit.rotary}
    return {
        "schema": SCHEMA,
        "name": audit.name,
        "model_type": audit.spec.model_type,
        "format": audit.spec.format,
        "claimed": _fields(audit.spec.claimed),
        "trained": _fields(audit.trained),
        "stated_trained": _fields(audit.spec.trained),
        "other_lengths": [_fields(length) for length in audit.spec.other_lengths],
        "origin": _fields(audit.origin),
        "groups": [_group(group, computed.get(group)) for group in audit.spec.groups],
        "second": [_second(each) for each in audit.spec.second],
        "dual_chunk": None if audit.spec.dual_chunk is None else _fields(audit.spec.dual_chunk),
        "axes": None if audit.spec.axes is None else _fields(audit.spec.axes),
        "findings": [_fields(finding) for finding in audit.findings],
        **({} if audit.engines is None else {"engines": engines_json(audit.engines)}),
        **({} if audit.live is None else {"live": _live(audit.live)}),
    }


def _live(check: LiveCheck) -> dict[str, Json]:
    """The verdict, and each table or other part that was compared."""
    compared: list[TableCheck | PartCheck] = [*check.tables, *check.parts]
    parts: list[Json] = [
        {"path": each.path, "agrees": each.agrees, "sentence": each.sentence} for each in compared
    ]
    return {"verdict": check.verdict, "sentence": check.sentence, "parts": parts}


def _encoding(encoding: Encoding) -> dict[str, Json]:
    """By its type; a scaling too."""
    found: dict[str, Json] = {"type": ENCODINGS[type(encoding)], **_fields(encoding)}
    if isinstance(encoding, RotarySpec | IncompleteRotary):
        scaling = encoding.scaling
        found["scaling"] = {**_fields(scaling), "type": scaling.kind, "name": scaling.name}
    return found


def _second(second: SecondRotation) -> dict[str, Json]:
    rotary = None if second.rotary is None else _encoding(second.rotary)
    return {**_fields(second), "rotary": rotary}


def _group(group: LayerGroup, part: RotaryAudit | None) -> dict[str, Json]:
    return {
        "name": group.name,
        "layers": list(group.layers),
        "window": None if group.window is None else _fields(group.window),
        "softmax": _fields(group.softmax),
        "encoding": _encoding(group.encoding),
        "rotary": None if part is None else _rotary(part),
    }


def _rotary(part: RotaryAudit) -> dict[str, Json]:
    return {
        "attention_factor": _plain(part.claim.attention_factor),
        "attention_rule": part.claim.attention_rule,
        "fingerprint": part.claim.fingerprint(),
        "fingerprint_short": part.start.fingerprint(),
        "critical_dimension": part.critical_dimension,
        "horizon": None if part.horizon is None else _fields(part.horizon),
        "trained_horizon": None if part.trained_horizon is None else _fields(part.trained_horizon),
        "unseen_pairs": part.unseen,
        "pairs": [_fields(row) for row in part.pairs],
    }


def _fields(value: DataclassInstance) -> dict[str, Json]:
    return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}


def _plain(value: object) -> Json:
    """A field's value in JSON types; tuples become lists, dataclasses objects."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    raise TypeError(f"{type(value).__name__} has no JSON form here")


def engines_json(views: Sequence[EngineView]) -> dict[str, Json]:
    """`views` and where every two of them part, for `json.dumps(..., allow_nan=False)`."""
    found = [*partings(views, short=True), *partings(views)]
    return {
        "views": [_view(view) for view in views],
        "partings": [{**dataclasses.asdict(each), "agree": each.agree} for each in found],
    }


def _view(view: EngineView) -> dict[str, Json]:
    prompt = () if view.prompt is None else view.prompt.inv_freq
    return {
        "engine": view.engine,
        "group": view.group,
        "rope_theta": view.rope_theta,
        "attention_factor": view.attention_factor,
        "softmax_factor": view.softmax_factor,
        "trained": view.trained,
        "ignored": list(view.ignored),
        "rules": list(view.rules),
        "claim_length": view.claim_length,
        "inv_freq": list(view.inv_freq) or None,
        "prompt_length": view.prompt_length,
        "inv_freq_prompt": list(prompt) or None,
    }
