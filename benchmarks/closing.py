"""The figures of a benchmark, and its last line: one JSON object of them all."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Row:
    """One figure; `reach` is what it is to be at least (or at most, for seconds and shares)."""

    name: str
    value: float
    unit: str = ""
    reach: float | None = None
    at_most: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether it is reached, None where nothing was to be."""
        if self.reach is None:
            return None
        return self.value <= self.reach if self.at_most else self.value >= self.reach

    @property
    def bound(self) -> str:
        """What it is to be, in words; empty where nothing was to be."""
        return "" if self.reach is None else f"{'≤' if self.at_most else '≥'} {self.reach:g}"

    @property
    def verdict(self) -> str:
        """For a table: yes, **no**, or empty where nothing was to be."""
        return {None: "", True: "yes", False: "**no**"}[self.holds]


def closing_line(
    benchmark: str, rows: Sequence[Row], *, machine: str | None = None, **details: object
) -> str:
    """The JSON object; `details` stand beside the rows, `machine` in place of a short one."""
    if machine is None:
        python = platform.python_version()
        load = f", load {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
        machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}{load}"
    told = [{**asdict(row), "holds": row.holds} for row in rows]
    return json.dumps({"benchmark": benchmark, "machine": machine, "rows": told} | details)
