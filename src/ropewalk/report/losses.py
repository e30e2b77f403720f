"""Loss by position as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.proof.loss_by_position import KEY_GAIN, KEY_LOSS, Evaluation
from ropewalk.proof.loss_run import PASSAGE, LossReport
from ropewalk.report.document import Block, Column, Document, Heading, Prose, Table, on_page
from ropewalk.report.text import clip

SCHEMA = "ropewalk.loss/1"


def document(found: LossReport) -> Document:
    """Each way of evaluating, losses by position, what was cut off, and two probes."""
    question = f"What does each token cost {found.name}, by its position?"
    return Document(found.name, tuple(_blocks(found)), "ropewalk loss", question)


def _blocks(found: LossReport) -> Iterator[Block]:
    claim = "claims no length" if found.claimed is None else f"claims {found.claimed:,}"
    yield Prose(
        f"{found.name} ({claim}); {clip(found.text, 200)} text, {found.tokens:,} tokens. Losses "
        "in nats per token, every token the same weight."
    )
    yield ""
    columns = (
        Column("", 18, lambda each: each.name, key="name"),
        Column("window", 9, lambda each: each.window, "{:,}"),
        Column("stride", 9, lambda each: None if each.name == "full" else each.stride, "{:,}"),
        Column("tokens", 9, lambda each: len(each.losses), "{:,}"),
        Column("loss", 9, lambda each: each.mean, "{:.4f}"),
        Column("perplexity", 12, lambda each: each.perplexity, "{:.3f}"),
    )
    yield Table(columns, found.evaluations, key="evaluations")
    yield Prose(_windows(found))
    yield ""
    yield on_page(Heading("By position"))
    yield _by_position(found.evaluations)
    yield ""
    yield Prose(_gain(found))
    yield ""
    yield from _probes(found)
    yield from map(Prose, found.notes)


def _probes(found: LossReport) -> Iterator[Block]:
    yield on_page(Heading("Two probes"))
    yield f"A passage of {PASSAGE} tokens read again:"
    again = (
        Column("distance", 11, lambda copy: copy.distance, "{:,}", align=">"),
        Column("first", 9, lambda copy: copy.first, "{:.4f}"),
        Column("again", 9, lambda copy: copy.again, "{:.4f}"),
    )
    yield Table(again, found.copies, key="copies")
    if not found.shifts:
        return
    before = " ".join(found.opening) or "nothing"
    yield f"The same {PASSAGE} tokens from another position on, {before} before them:"
    base = found.shifts[0].mean
    moved = (
        Column("offset", 11, lambda shift: shift.offset, "{:,}", align=">"),
        Column("loss", 9, lambda shift: shift.mean, "{:.4f}"),
        Column("change", 11, lambda shift: shift.mean - base, "{:+.1e}"),
    )
    yield Table(moved, found.shifts, key="shifts")
    yield Prose("It should not change: it tests the code, not the usable length.", "  ", "")


def values(found: LossReport) -> dict[str, object]:
    """The measurement as plain JSON values, with the buckets and every token's loss."""
    held = {"schema": SCHEMA, **asdict(found)}
    held["evaluations"] = [
        {
            **asdict(each),
            "mean": each.mean,
            "perplexity": each.perplexity,
            "buckets": [asdict(bucket) for bucket in each.buckets()],
        }
        for each in found.evaluations
    ]
    return held


def _by_position(evaluations: tuple[Evaluation, ...]) -> Table:
    columns = [
        Column("positions", 18, lambda row: row[0], lambda b: f"{b.start:,} - {b.end - 1:,}")
    ]
    columns += [
        Column(each.name, 17, lambda row, at=at: row[at].mean, "{:.4f}")  # type: ignore[misc]
        for at, each in enumerate(evaluations)
    ]
    rows = list(zip(*(each.buckets() for each in evaluations), strict=True))
    return Table(columns, rows, key="positions")


def _windows(found: LossReport) -> str:
    """How a window begins, and how many tokens of it are scored."""
    _, sliding, apart = found.evaluations
    held = len(found.opening)
    begin = "Windows begin with the text itself: the tokenizer puts nothing before one"
    if found.opening:
        spelt = " ".join(found.opening)
        begin = (
            f"Every window begins with {spelt}, as the tokenizer begins a text, and holds "
            f"{sliding.window - held:,} tokens of the text"
        )
    return (
        f"{begin}. The first scores {apart.stride:,}, the sliding ones behind it "
        f"{sliding.stride:,} each, the non-overlapping ones {apart.stride:,}; the last may score "
        "fewer."
    )


def _gain(found: LossReport) -> str:
    gain = found.gain
    if gain is None:
        return "Nothing was cut: the window holds the whole text."
    keys = (
        f"{gain.key_tokens:,} of them are key tokens, on which it saves more than {KEY_GAIN:g} "
        f"nats and which then cost under {KEY_LOSS:g}"
    )
    perplexity = (
        "" if gain.key_perplexity is None else f"; their perplexity is {gain.key_perplexity:.3f}"
    )
    does = "saves" if gain.mean >= 0 else "costs"
    return (
        f"The whole text before a token, against what its window holds, {does} "
        f"{abs(gain.mean):.4f} nats per token over {gain.tokens:,} tokens; {keys}{perplexity}."
    )
