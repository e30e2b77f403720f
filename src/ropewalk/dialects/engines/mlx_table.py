"""What each model file of mlx-lm reads of a rotation, from the measured table `mlx.json`.

`python -m atlas.engines.mlx_table` makes the table: each model file of mlx-lm built tiny, once for
each way of spelling a base, a share of the channels and a schedule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from ropewalk.dialects.engines.given import Given
from ropewalk.rope.schedules import Proportional
from ropewalk.rope.spec import Layout

Entry = Mapping[str, Any]


@cache
def _table() -> Entry:
    path = files("ropewalk.dialects.engines").joinpath("mlx.json")
    found: Entry = json.loads(path.read_text("utf-8"))
    return found


def entry(model_type: str) -> Entry | str:
    """What was measured for a model type, or the sentence that says why there is nothing."""
    table = _table()
    name = table["remapped"].get(model_type, model_type)
    found: Entry | None = table["files"].get(name)
    if found is None:
        return f"does not load it: mlx-lm {table['version']} has no model file for {model_type}"
    if "unknown" in found:
        return "its model file for this type could not be measured"
    if "stops" in found and "needs" not in found:
        return f"its model file for this type {found['stops']}"
    if found.get("rotates") is False:
        return "its model file for this type rotates nothing that could be seen"
    return found


def unmet(found: Entry, config: Mapping[str, object]) -> str:
    """The error of a file that lacks what the model file cannot do without, or nothing."""
    for key, how in found.get("needs", {}).items():
        present = key in config if how == "null" else config.get(key) is not None
        if not present:
            return str(found["stops"])
    # A dictionary without a vocabulary is a part of a file, which is not held to all its keys.
    if "vocab_size" not in config or "text_config" in found["requires"]:
        return ""
    missing = [key for key in found["requires"] if key not in config and key != "model_type"]
    return f"TypeError: {', '.join(missing)} missing" if missing else ""


def base(found: Entry, given: Given, kind: str) -> tuple[float | None, Any]:
    """The base and what is to be said of it; None and the error where it stops."""
    rules, config = found["base"], given.config
    inner = config.get("rope_parameters")
    top = [
        value
        for key, each in rules["keys"]
        if _kinds(kind, each, rules) and isinstance(value := config.get(key), int | float)
    ]
    if isinstance(inner, Mapping) and inner:
        how = rules["nested"] if given.nested else rules["both" if top else "parameters"]
        if isinstance(how, str):
            return None, how
        if any(_kinds(kind, each, rules) for each in how):
            stated = given.number("rope_theta")
            if stated is not None:
                return stated, ()
    if top:
        return float(top[0]), ()
    default = rules["default"]
    if isinstance(default, str):
        return None, default
    value = float(default.get(kind, next(iter(default.values()))))
    if inner and given.number("rope_theta") not in (None, value):
        return value, (f"rope_theta in rope_parameters is not read: {value:g} is its default",)
    return value, ()


def _kinds(kind: str, measured: str, rules: Entry) -> bool:
    """Whether an answer for one kind of layer holds for this one: where a model file has but one
    kind, it holds for all.
    """
    default = rules["default"]
    only = isinstance(default, Mapping) and kind not in default
    return measured == kind or only


HEAD = 64
"""Channels of a head in the models that were measured."""


SHARE_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct")


def channels(found: Entry, given: Given) -> int:
    """How many channels of each head it rotates."""
    share, config, rotary = found["share"], given.config, given.rotary
    default = share.get("default")
    if given.mla or isinstance(rotary.scaling, Proportional) or not isinstance(default, int):
        return rotary.rotary_dim
    stated = [each for key in SHARE_KEYS if isinstance(each := config.get(key), int | float)]
    values = [config.get(key) for key in SHARE_KEYS if key in share]
    read = [each for each in values if isinstance(each, int | float)]
    inner = given.number("partial_rotary_factor")
    if inner is not None and config.get("rope_parameters"):
        stated.append(inner)
        read = [inner] if isinstance(share.get("rope_parameters"), int) else read
    if read:
        return int(rotary.head_dim * float(read[0])) // 2 * 2
    if default == HEAD:
        return rotary.head_dim
    return int(rotary.head_dim * default / HEAD) // 2 * 2 if stated else rotary.rotary_dim


def layout(found: Entry) -> Layout:
    """How its channels pair up."""
    return "interleaved" if found["interleaved"] else "half"


def scaling(found: Entry, given: Given, kind: str) -> tuple[str, str]:
    """The key that holds the dictionary, and what is made of it.

    A file may say its schedule under both keys: one that is read counts before one that is not.
    """
    answers = [
        (place, _made(found, place, spelled, keys, kind))
        for place, spelled, keys in _spelled(given)
    ]
    read = [each for each in answers if each[1] != "plain"]
    return (read or answers)[0]


def _made(
    found: Entry, place: str, spelled: str, keys: Mapping[str, object], kind: str
) -> str:  # fmt: skip
    word = keys.get("type") if place == "rope_scaling" else None
    word = word or keys.get("rope_type")
    row = _row(found, place, spelled)
    if not isinstance(word, str) or word == "default":
        cell = row["default"]
        stops = isinstance(cell, str) and ":" in cell and place == "rope_scaling" and keys
        return str(cell) if stops else "plain"
    cell = row.get(word) or _unmeasured(row, word)
    if isinstance(cell, Mapping) and "how" in cell:
        lacking = [each for each in cell.get("wants", ()) if each not in keys]
        if lacking:
            return f"ValueError: rope_scaling must contain {', '.join(lacking)}"
        cell = cell["how"]
    if isinstance(cell, Mapping):
        cell = cell.get(kind, next(iter(cell.values())))
    return str(cell)


def _row(found: Entry, place: str, spelled: str) -> Entry:
    rows: Entry = _table()["scalings"][found["scaling"]][f"{place}.{spelled}"]
    return rows


def _spelled(given: Given) -> list[tuple[str, str, Mapping[str, object]]]:
    """The dictionaries of the file: key, spelling of the type in it, and what it holds."""
    stated = given.config.get("rope_scaling")
    places: list[tuple[str, str, Mapping[str, object]]] = []
    if isinstance(stated, Mapping) and stated:
        places.append(("rope_scaling", "type" if "type" in stated else "rope_type", stated))
    if given.config.get("rope_parameters") or not places:
        spelled = "nested" if given.nested else "rope_type"
        places.append(("rope_parameters", spelled, given.keys))
    return places


def _unmeasured(row: Entry, word: str) -> str:
    """Of a type that was not tried: as others, where those are not read either."""
    linear = row["linear"]
    if linear == "plain":
        return "plain"
    return f"ValueError: Unsupported RoPE type {word}"


def softmax(found: Entry, given: Given) -> bool:
    """Whether mscale_all_dim reaches its softmax scale."""
    cells = [_row(found, place, spelled)["yarn"] for place, spelled, _ in _spelled(given)]
    return any(isinstance(cell, Mapping) and "softmax" in cell for cell in cells)
