"""The run folder: what makes a run this run, and what was measured before it.

`run.json` holds both. The same command in the same folder goes on with the run; another one is
refused, and told in what it differs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ropewalk.errors import StoreError
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.files import write_whole

RUN = "run.json"
SCHEMA = "ropewalk.tune/1"


def facts_of(settings: TuneSettings, model: str, data: str) -> dict[str, str]:
    """What two runs must share to be one: `model` and `data` are hashes.

    How fast a run goes and how much memory it takes is not in it, and may change on the way.
    """
    return {
        "model": model[:16],
        "data": data,
        "steps": str(settings.steps),
        "length": str(settings.mix),
        "rows": str(settings.rows),
        "mask": str(settings.mask),
        "positions": settings.positions,
        "cutting": settings.cutting,
        "boundary": str(settings.boundary),
        "field": settings.reading.field,
        "column": settings.reading.column,
        "encoding": settings.encoding,
        "lr": repr(settings.lr),
        "lr-end": repr(settings.lr_end),
        "warmup": str(settings.warmup),
        "decay": settings.decay,
        "weight-decay": repr(settings.weight_decay),
        "clip": repr(settings.clip),
        "dtype": settings.dtype,
        "lora": str(settings.lora),
        "seed": str(settings.seed),
        "gate-text": str(settings.gate_text),
    }


class RunRecord:
    """`run.json` of a run folder, held whole; every change is written at once."""

    def __init__(self, folder: Path, held: dict[str, Any]) -> None:
        self._path, self._held = folder / RUN, held

    @classmethod
    def open(cls, folder: Path, facts: Mapping[str, str]) -> RunRecord:
        """Begin a run in `folder`, or go on with the one there.

        Raises StoreError where another run lies there, or something else does.
        """
        path = folder / RUN
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
            known = dict(held["facts"]) if held["schema"] == SCHEMA else {}
        except FileNotFoundError:
            record = cls(folder, {"schema": SCHEMA, "facts": dict(facts)})
            record._write()
            return record
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise StoreError(f"{path} cannot be read: {error}; choose another --out") from error
        other = [name for name in facts if known.get(name) != facts[name]]
        if other:
            named = ", ".join(
                f"{name} {known.get(name, 'not stated')} there and {facts[name]} here"
                for name in other[:4]
            )
            raise StoreError(
                f"{folder} holds another run ({named}); give the same command to go on with it, "
                "or another --out"
            )
        return cls(folder, held)

    def get(self, name: str) -> Any | None:
        """What is kept under a name, None where nothing is."""
        return self._held.get(name)

    def keep(self, name: str, value: Any) -> None:
        """Keep a JSON value. Raises StoreError when it cannot be written."""
        self._held[name] = value
        self._write()

    def _write(self) -> None:
        write_whole(self._path, json.dumps(self._held, indent=1) + "\n")
