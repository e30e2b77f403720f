"""A key of our own in a model's file: how `ropewalk extend` made its context longer.

No engine reads it. transformers keeps keys that it does not know, and writes them again; vLLM,
llama.cpp's converter and MLX look for the keys that they know. In a configuration it is one
object, none of whose keys is the name of a key about position, so that a search for those does not
find it; in a GGUF file it is that object as JSON text, and llama.cpp prints keys that it does not
know.
"""

from __future__ import annotations

import json
from pathlib import Path

from ropewalk.dialects.values import Notes, Section
from ropewalk.errors import ConfigError
from ropewalk.rope.frequencies import schedule_fingerprint
from ropewalk.rope.spec import Extended, PositionSpec

RECORD = "ropewalk_extend"
GGUF_RECORD = "ropewalk.extend"


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


def record_text(spec: PositionSpec) -> str | None:
    """The value for a file that will say `spec`; None without a record that is true of it."""
    record = spec.extended
    if record is None or record.target != spec.claimed.tokens:
        return None
    if record.fingerprint != schedule_fingerprint(spec):
        return None
    return json.dumps(record_values(record))


def stamp(path: Path, text: str, found: PositionSpec) -> None:
    """Put the fingerprint of what the file says into its record, in place.

    A file holds numbers in single precision, so that its schedule has another fingerprint than
    the one that was meant. `text` is the record that was written.
    """
    import gguf
    import numpy as np

    values = {**json.loads(text), "fingerprint": schedule_fingerprint(found)}
    stamped = json.dumps(values).encode()
    reader = gguf.GGUFReader(path, "r+")
    place = reader.fields[GGUF_RECORD].parts[-1]
    place[:] = np.frombuffer(stamped, dtype=np.uint8)
    reader.data.flush()


def read_text(text: object, where: str, notes: Notes) -> Extended | None:
    """The record of a GGUF file by the value of its key, as `read_record`."""
    try:
        values: object = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        values = text
    return read_record(Section({GGUF_RECORD: values}, where), notes, GGUF_RECORD)
