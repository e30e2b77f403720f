"""A key of our own in a GGUF file: how `ropewalk extend` made its context longer.

Its value is the object that a configuration has (`dialects.hf.record`), as JSON text. llama.cpp
prints keys that it does not know, and reads none of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from ropewalk.dialects.gguf.keys import Keys
from ropewalk.dialects.hf.record import read_record, record_values
from ropewalk.dialects.hf.values import Notes, Section
from ropewalk.rope.frequencies import schedule_fingerprint
from ropewalk.rope.spec import Extended, PositionSpec

KEY = "ropewalk.extend"


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
    place = reader.fields[KEY].parts[-1]
    place[:] = np.frombuffer(stamped, dtype=np.uint8)
    reader.data.flush()


def recorded(keys: Keys) -> Extended | None:
    """The record of a file, None without one; one that is not whole is remarked on."""
    text = keys.header.metadata.get(KEY)
    if text is None:
        return None
    try:
        values: object = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        values = text
    notes = Notes()
    found = read_record(Section({KEY: values}, str(keys.header.path)), notes, KEY)
    for remark in notes.remarks:
        keys.remark(remark.code, remark.text, remark.remedy)
    return found
