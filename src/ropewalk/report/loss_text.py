"""Loss by position in the terminal and as JSON values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from ropewalk.proof.loss import KEY_GAIN, KEY_LOSS, Evaluation
from ropewalk.proof.loss_run import PASSAGE, LossReport
from ropewalk.report.layout import Piece, Prose, Table, lines
from ropewalk.report.text import clip, visible

WIDTH = 80
SCHEMA = "ropewalk.loss/1"


def loss_lines(found: LossReport, width: int = WIDTH) -> Iterator[str]:
    """The measurement, line by line, in ASCII of `width` columns, WIDTH at most."""
    yield from lines(_pieces(found), min(width, WIDTH))


def _pieces(found: LossReport) -> Iterator[Piece]:
    claim = "claims no length" if found.claimed is None else f"claims {found.claimed:,}"
    yield from _wrapped(
        f"{visible(found.name)} ({claim}); {visible(clip(found.text, 200))} text, "
        f"{found.tokens:,} tokens. Losses in nats a token, every token the same weight."
    )
    yield ""
    heads = (f"{name:>9}" for name in ("window", "stride", "tokens", "loss"))
    table = [[" " * 18, *heads, f"{'perplexity':>12}"]]
    for each in found.evaluations:
        stride = "-" if each.name == "full" else f"{each.stride:,}"
        counts = (f"{each.window:>9,}", f"{stride:>9}", f"{len(each.losses):>9,}")
        losses = (f"{each.mean:>9.4f}", f"{each.perplexity:>12.3f}")
        table.append([f"{each.name:<18}", *counts, *losses])
    yield Table(table)
    yield from _wrapped(_windows(found))
    yield ""
    yield from _by_position(found.evaluations)
    yield ""
    yield from _wrapped(_gain(found))
    yield ""
    yield f"A passage of {PASSAGE} tokens read again:"
    yield f"  {'distance':>9}{'first':>9}{'again':>9}"
    for copy in found.copies:
        yield f"  {copy.distance:>9,}{copy.first:>9.4f}{copy.again:>9.4f}"
    if found.shifts:
        before = " ".join(map(visible, found.opening)) or "nothing"
        yield f"The same {PASSAGE} tokens from another position on, {before} before them:"
        yield f"  {'offset':>9}{'loss':>9}{'change':>11}"
        for shift in found.shifts:
            change = shift.mean - found.shifts[0].mean
            yield f"  {shift.offset:>9,}{shift.mean:>9.4f}{change:>+11.1e}"
        yield from _wrapped("  It should not change: it tests the code, not the usable length.")
    for note in found.notes:
        yield from _wrapped(note)


def loss_json(found: LossReport) -> dict[str, object]:
    """The measurement as plain JSON values, with the buckets and every token's loss."""
    document = {"schema": SCHEMA, **asdict(found)}
    document["evaluations"] = [
        {
            **asdict(each),
            "mean": each.mean,
            "perplexity": each.perplexity,
            "buckets": [asdict(bucket) for bucket in each.buckets()],
        }
        for each in found.evaluations
    ]
    return document


def _by_position(evaluations: tuple[Evaluation, ...]) -> Iterator[Piece]:
    table = [[f"{'positions':<18}", *(f"{each.name:>17}" for each in evaluations)]]
    for row in zip(*(each.buckets() for each in evaluations), strict=True):
        label = f"{row[0].start:,} - {row[0].end - 1:,}"
        table.append([f"{label:<18}", *(f"{bucket.mean:>17.4f}" for bucket in row)])
    yield Table(table)


def _windows(found: LossReport) -> str:
    """How a window begins, and how many tokens of it are scored."""
    _, sliding, apart = found.evaluations
    held = len(found.opening)
    begin = "Windows begin with the text itself: the tokenizer puts nothing before one"
    if found.opening:
        spelt = " ".join(map(visible, found.opening))
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
        f"{abs(gain.mean):.4f} nats a token over {gain.tokens:,} tokens; {keys}{perplexity}."
    )


def _wrapped(text: str) -> Iterator[Piece]:
    yield Prose(text, hyphens=True)
