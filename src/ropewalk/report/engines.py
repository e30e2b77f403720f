"""What each engine computes, as blocks: a table per group of layers, then sentences.

Readable in 80 columns, without colour and in ASCII, like the audit that it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ropewalk.dialects.engines import EngineView, Parting, parting
from ropewalk.dialects.engines.mlx import NO_GGUF
from ropewalk.report.document import Block, Column, Heading, Prose, Table


def blocks(views: Sequence[EngineView]) -> Iterator[Block]:
    """A section for each group of layers that `views` is about."""
    if not views:
        yield ""
        yield Prose("Engines: no rotary layers to compare.")
        return
    for group, members in groupby(views, key=lambda view: view.group):
        yield from _group(group, list(members))


def _group(group: str, views: list[EngineView]) -> Iterator[Block]:
    computing = [view for view in views if view.claim is not None]
    # A GGUF file is llama.cpp's own; the others are transformers'.
    from_gguf = any(NO_GGUF in view.rules for view in views)
    own = next((v for v in computing if v.engine == "llama.cpp" and from_gguf), None)
    reference = own or (computing[0] if computing else None)

    def claimed(name: str) -> Callable[[EngineView], float | None]:
        return lambda view: None if view.claim is None else getattr(view.claim, name)

    columns = (
        Column("engine", 18, lambda view: view.engine),
        Column("base", 13, lambda view: None if view.claim is None else view.rope_theta, "{:.8g}"),
        Column("on cos, sin", 12, claimed("attention_factor"), "{:.5f}"),
        Column("on softmax", 11, claimed("softmax_factor"), "{:.5f}"),
        Column("trained", 9, lambda view: None if view.claim is None else view.trained),
        Column("parts at", 10, lambda view: _parts_at(view, reference)),
    )
    yield ""
    yield Heading(f"Engines, {group}: served for {views[0].claim_length} tokens")
    yield Table(
        columns, views, less=("base", "trained", "on softmax"), head="dim", key="engines"
    )  # fmt: skip
    told: dict[str, list[str]] = {}
    for view in views:
        if said := "; ".join(_said(view, reference)):
            told.setdefault(said, []).append(view.engine)
    # Engines of which the same is said share a sentence.
    for said, engines in told.items():
        yield Prose(f"{', '.join(engines)}: {said}.", "  - ", hyphens=False)


def _parts_at(view: EngineView, reference: EngineView | None) -> object:
    """The first position at which angles differ from the reference's, or why there is none."""
    if view.claim is None or reference is None or reference is view:
        return None
    found = parting(reference, view)
    if found is None:
        return "channels"
    return "never" if found.position is None else found.position


def _said(view: EngineView, reference: EngineView | None) -> Iterator[str]:
    yield from view.rules
    if view.claim is not None and view.ignored:
        yield f"does not read {', '.join(view.ignored)}"
    if reference is not None and view is not reference:
        yield from _apart(reference, view)


def _apart(reference: EngineView, view: EngineView) -> Iterator[str]:
    """Where the engine parts from the reference, at the claimed length and for short prompts."""
    found, short = parting(reference, view), parting(reference, view, short=True)
    if view.claim is not None and found is None:
        yield f"rotates other channels than {reference.engine}"
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
