"""What each engine computes, in the terminal: a table a group of layers, then sentences.

Readable in 80 columns, without colour and in ASCII, like the audit that it follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ropewalk.dialects.engines import EngineView, Parting, parting
from ropewalk.report.layout import NARROWEST, wrapped
from ropewalk.report.text import encodable, visible

if TYPE_CHECKING:
    from rich.console import Console

Line = tuple[str, str]
"""Text and its rich style ("" for none)."""

COLUMNS = (("engine", 18), ("base", 13), ("on cos, sin", 12), ("on softmax", 11),
           ("trained", 9), ("parts at", 10))  # fmt: skip
"""Headings and widths; `trained` in tokens, `parts at` a position."""


def print_engines(console: Console, views: Sequence[EngineView]) -> None:
    """Write what the engines compute to `console`, wrapped to its width."""
    from rich.text import Text

    for text, style in engine_lines(views, width=console.width):
        line = Text(encodable(text, console.encoding), style=style, no_wrap=True, overflow="ignore")
        console.print(line, soft_wrap=True)


def engine_lines(views: Sequence[EngineView], width: int = 80) -> Iterator[Line]:
    """The lines and their styles, each at most max(`width`, 40) characters."""
    room = max(width, NARROWEST)
    if not views:
        yield "", ""
        yield from _wrapped("Engines: no rotary layers to compare.", room)
        return
    for group, members in groupby(views, key=lambda view: view.group):
        yield from _group(group, list(members), room)


def _group(group: str, views: list[EngineView], room: int) -> Iterator[Line]:
    computing = [view for view in views if view.claim is not None]
    # A GGUF file is llama.cpp's own; the others are transformers'.
    own = next((v for v in computing if v.engine == "llama.cpp" and views[-1].claim is None), None)
    reference = own or (computing[0] if computing else None)
    yield "", ""
    length = views[0].claim_length
    yield from _wrapped(f"Engines, {group}: served for {length} tokens", room, style="bold")
    kept = _columns(room)
    yield "".join(_cell(name, name, size) for name, size in kept), "dim"
    for view in views:
        cells = _cells(view, reference)
        yield "".join(_cell(name, cells[name], size) for name, size in kept), ""
    for view in views:
        yield from _sentences(view, reference, room)


def _columns(room: int) -> list[tuple[str, int]]:
    """As many columns as there is room for, the engine and the amplitude first of all."""
    kept = list(COLUMNS)
    for dropped in ("base", "trained", "on softmax"):
        if sum(size for _, size in kept) <= room:
            break
        kept = [column for column in kept if column[0] != dropped]
    return kept


def _cell(name: str, text: str, size: int) -> str:
    return f"{text:<{size}}" if name == "engine" else f"{text:>{size}}"


def _cells(view: EngineView, reference: EngineView | None) -> dict[str, str]:
    cells = {name: "-" for name, _ in COLUMNS} | {"engine": view.engine}
    if view.claim is None:
        return cells
    where = "" if reference is None or reference is view else "never"
    if reference is not None and reference is not view:
        found = parting(reference, view)
        if found is None:
            where = "channels"
        elif found.position is not None:
            where = str(found.position)
    return cells | {
        "base": f"{view.rope_theta:.8g}",
        "on cos, sin": f"{view.claim.attention_factor:.5f}",
        "on softmax": f"{view.claim.softmax_factor:.5f}",
        "trained": "-" if view.trained is None else str(view.trained),
        "parts at": where or "-",
    }


def _sentences(view: EngineView, reference: EngineView | None, room: int) -> Iterator[Line]:
    said = list(view.rules)
    if view.claim is not None and view.ignored:
        said.append(f"does not read {', '.join(view.ignored)}")
    if reference is not None and view is not reference:
        said.extend(_apart(reference, view))
    if said:
        yield from _wrapped(f"{view.engine}: {'; '.join(said)}.", room, "  - ")


def _apart(reference: EngineView, view: EngineView) -> Iterator[str]:
    """Where the engine parts from the reference, at the claimed length and for short prompts."""
    found, short = parting(reference, view), parting(reference, view, short=True)
    if view.claim is not None and found is None:
        yield f"turns other channels than {reference.engine}"
    if found is not None and not found.agree:
        yield f"against {reference.engine} {_difference(found)}"
    if (
        short is not None
        and short.position is not None
        and (found is None or found.position is None)
    ):
        yield (
            f"against {reference.engine}, for a prompt of {short.length} tokens, "
            f"{_difference(short)}"
        )


def _difference(found: Parting) -> str:
    parts = []
    if found.position is not None:
        parts.append(
            f"pair {found.pair} is first off by more than 0.001 rad, at position {found.position}"
        )
    if abs(found.attention - 1.0) > 1e-6:
        parts.append(f"cos and sin are x {found.attention:.6g}")
    if abs(found.softmax - 1.0) > 1e-6:
        parts.append(f"the softmax scale is x {found.softmax:.6g}")
    return ", ".join(parts)


def _wrapped(text: str, room: int, start: str = "", style: str = "") -> Iterator[Line]:
    for line in wrapped(visible(text), room, start):
        yield line, style
