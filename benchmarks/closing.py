"""The last line of a benchmark: one JSON object of figures, their reach, and whether it holds."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value; `reach` states what was to be reached, `holds` whether it was.

    Both are None for a figure that is only told.
    """

    name: str
    value: float | str | None
    unit: str = ""
    reach: str | None = None
    holds: bool | None = None


def closing_line(benchmark: str, figures: Sequence[Figure], **details: object) -> str:
    """The JSON object; `details` stand beside the rows."""
    load = f", load {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
    machine = (
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}{load}"
    )
    rows = [asdict(figure) for figure in figures]
    return json.dumps({"benchmark": benchmark, "machine": machine, "rows": rows} | details)
