"""What a run measured, as Markdown and as a plot of how cost grows."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from html import escape
from importlib import metadata
from pathlib import Path

import torch

from benchmarks.cpu_rotary import COPY, EAGER, OURS
from benchmarks.cpu_timing import Row

PACKAGES = ("torch", "transformers", "onnxruntime", "rotary-embedding-torch", "numpy")
COLOURS = {OURS: "#0b6e4f", COPY: "#8a8a8a", EAGER: "#b3541e"}
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 260, 230, 58, 34, 42


def machine() -> str:
    """Processor, threads and versions."""
    name = _cpuinfo("model name") or platform.processor() or platform.machine()
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    return (
        f"{name}, {os.cpu_count()} CPUs, {torch.get_num_threads()} threads; "
        f"Python {platform.python_version()}, {versions}"
    )


def maker() -> str:
    """Who made the processor, as results are named: "amd", "intel", or the processor's family."""
    known = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
    return known.get(_cpuinfo("vendor_id"), platform.machine().lower())


def _cpuinfo(field: str) -> str:
    """What Linux says of the first processor, "" where nothing is said."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith(field)), "")


def milliseconds(seconds: float) -> str:
    """Three digits, in ms."""
    value = 1000 * seconds
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def markdown(rows: list[Row], plot: str, minutes: float) -> str:
    """The whole document."""
    parts = [
        "# Rotary, embedding and ALiBi on a CPU",
        "",
        f"`python -m benchmarks.cpu`, {minutes:.1f} minutes on {machine()}.",
        "",
        "Medians in milliseconds of paired runs, one after the other in every round; a ratio is "
        "the median of the rounds' ratios. Before they are timed, results are compared with one "
        "another and with double precision.",
        "",
        "| work | ms | ratio (reach) | holds |",
        "|---|---|---|---|",
        *map(_line, rows),
        "",
        *_short(rows),
        f"![How the cost of rotary grows with length, heads and batch]({plot})",
        "",
    ]
    return "\n".join(parts)


def _line(row: Row) -> str:
    times = [f"{name} {milliseconds(s)}" for name, s in row.seconds.items()]
    measured = "<br>".join([*times, *row.notes])
    reaches = "<br>".join(map(str, row.reaches))
    holds = {None: "", True: "yes", False: "**no**"}[row.holds]
    return f"| {row.work} | {measured} | {reaches} | {holds} |"


def _short(rows: list[Row]) -> Iterator[str]:
    """What falls short, and what limits it."""
    short = [row for row in rows if row.holds is False]
    if not short:
        return
    yield "What falls short, and what limits it:"
    yield ""
    for row in short:
        missed = "; ".join(str(reach) for reach in row.reaches if not reach.holds)
        yield f"- {row.work}: {missed}. Limit: {row.limit}."
    yield ""


def plot(grown: dict[str, list[dict[str, float]]]) -> str:
    """Three panels, both axes logarithmic: milliseconds by length, heads and batch."""
    panels = "".join(
        _panel(axis, points, number * WIDTH) for number, (axis, points) in enumerate(grown.items())
    )
    legend = "".join(
        f'<text x="{LEFT + 170 * i}" y="14" fill="{colour}">{escape(name)}</text>'
        for i, (name, colour) in enumerate(COLOURS.items())
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="white"/>{legend}{panels}</svg>\n'
    )


def _panel(axis: str, points: list[dict[str, float]], x0: int) -> str:
    xs = [math.log2(point["at"]) for point in points]
    ys = [math.log10(1000 * point[name]) for point in points for name in COLOURS]
    low, high = math.floor(min(ys)), max(math.ceil(max(ys)), math.floor(min(ys)) + 1)
    inner_x, inner_y = WIDTH - LEFT - 14, HEIGHT - TOP - BOTTOM

    def at_x(x: float) -> float:
        return x0 + LEFT + inner_x * (x - xs[0]) / max(xs[-1] - xs[0], 1e-9)

    def at_y(y: float) -> float:
        return TOP + inner_y * (high - y) / (high - low)

    parts = [
        f'<text x="{x0 + LEFT + inner_x / 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(axis)}</text>"
    ]
    for power in range(low, high + 1):
        y = at_y(power)
        parts.append(
            f'<path d="M{x0 + LEFT} {y:.1f}h{inner_x}" stroke="#ddd"/>'
            f'<text x="{x0 + LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g} ms</text>'
        )
    for x, point in zip(xs, points, strict=True):
        parts.append(
            f'<text x="{at_x(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{point['at']:g}</text>"
        )
    for name, colour in COLOURS.items():
        path = " ".join(
            f"{at_x(x):.1f},{at_y(math.log10(1000 * point[name])):.1f}"
            for x, point in zip(xs, points, strict=True)
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
    return "".join(parts)
