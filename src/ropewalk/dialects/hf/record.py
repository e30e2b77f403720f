"""A key of our own in a configuration: how `ropewalk extend` made its context longer.

No engine reads it. transformers keeps keys that it does not know, and writes them again; vLLM,
llama.cpp's converter and MLX look for the keys that they know. It is one object, none of whose
keys is the name of a key about position, so that a search for those does not find it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.errors import ConfigError
from ropewalk.rope.spec import Extended

RECORD = "ropewalk_extend"


def with_record(config: Mapping[str, object], record: Extended) -> dict[str, object]:
    """A configuration with the record in it, in the place of an earlier one."""
    return {**config, RECORD: record_values(record)}


def record_values(record: Extended) -> dict[str, object]:
    """The record as an object of JSON."""
    return {
        "tool": record.tool,
        "method": record.method,
        "trained_tokens": record.trained,
        "target_tokens": record.target,
        "made_for_tokens": record.made_for,
        "base_before": record.rope_theta,
        "fingerprint": record.fingerprint,
    }


def read_record(config: Section, notes: Notes, key: str = RECORD) -> Extended | None:
    """The record under `key`, None without one; one that is not whole is remarked on."""
    try:
        told = config.section(key)
        if told is None:
            return None
        words = [told.text(name) for name in ("tool", "method", "fingerprint")]
        lengths = [told.length(f"{name}_tokens") for name in ("trained", "target", "made_for")]
        base = told.number("base_before")
    except ConfigError as error:
        notes.note("record-not-read", f"{error}; the record says nothing here")
        return None
    tool, method, fingerprint = words
    trained, target, made_for = lengths
    if not (tool and method and fingerprint and trained and target and made_for and base):
        notes.note("record-not-read", f"{key} is not whole, and says nothing here")
        return None
    return Extended(tool, method, trained, target, made_for, base, fingerprint)
