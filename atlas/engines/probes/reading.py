"""What every probe shares: the configurations, a table read as frequencies, the answer's form.

A probe runs in the engine's own environment, where nothing of this package is installed:
`python atlas/engines/probes/ENGINE.py CONFIGURATIONS OUTPUT [NAME ...]`.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def rotation(cos: Any, sin: Any, layers: list[str], **beside: Any) -> Json:
    """From the row of position 1, where no angle has wrapped: factor and radians a token."""
    pairs = [(float(c), float(s)) for c, s in zip(cos, sin, strict=True)]
    inv_freq = [float(f"{max(math.atan2(s, c), 0.0):.7g}") for c, s in pairs]
    return {
        "factor": round(math.hypot(*pairs[0]), 6),
        "inv_freq": inv_freq,
        "layers": layers,
        **beside,
    }


def merged(rotations: list[Json]) -> list[Json]:
    """Each rotation once, with all its layers."""
    found: dict[str, Json] = {}
    for each in rotations:
        key = json.dumps({k: v for k, v in each.items() if k != "layers"})
        first = found.setdefault(key, {**each, "layers": []})
        first["layers"] += [layer for layer in each["layers"] if layer not in first["layers"]]
    return list(found.values())


def run(ask: Callable[[Path], Json]) -> None:
    """Ask about each configuration's folder; an error is an answer."""
    source, output, *names = sys.argv[1:]
    configs: dict[str, Json] = json.loads(Path(source).read_text("utf-8"))["configs"]
    answers: Json = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names or configs:
            start = time.perf_counter()
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(configs[name]), "utf-8")
            try:
                answers[name] = ask(path)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises is data
                text = " ".join(f"{type(error).__name__}: {error}".split())
                answers[name] = {"error": text.replace(str(path), name)[:160]}
            spent = time.perf_counter() - start
            print(name, answers[name].get("error", "read"), f"{spent:.1f} s", flush=True)
            Path(output).write_text(json.dumps(answers), "utf-8")
