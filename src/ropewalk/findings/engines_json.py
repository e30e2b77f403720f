"""What the engines compute, in JSON types: the part "engines" of an audit's document.

`views`: one object for each engine and group of layers, with engine, group, base,
attention_factor, softmax_factor, trained, ignored, rules, claim_length and inv_freq at it,
prompt_length and inv_freq_prompt at that. Null where an engine computes nothing. `partings`: one
object for every two engines, group and length: first, second, group, length, pair, position,
attention, softmax, agree. Frequencies in radians a token, lengths in tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ropewalk.dialects.engines import EngineView, partings
from ropewalk.findings.json_form import Json


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
