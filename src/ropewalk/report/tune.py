"""A tuning run as a document: its curve, what short texts cost, what is found at which length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from ropewalk.extension.tune.session import Tuned
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.proof.summary import Share
from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Detail,
    Details,
    Document,
    Drawn,
    Heading,
    Prose,
    Table,
    ToCopy,
    in_terminal,
    on_page,
)

JSON_FORMAT = 1
"""Raised whenever a name in the JSON changes its meaning or goes."""
_LABEL = 8
_CURVE = 72


def document(done: Tuned) -> Document:
    """What came of a run; its page says how it was made, too."""
    title = str(done.about["title"])
    head = f"{title}: {done.about['trained']:,} of {done.about['parameters']:,} parameters"
    tone = "" if done.gate.passed else "fails"
    blocks: list[Block] = [
        in_terminal(head),
        on_page(Prose(f"{done.gate.sentence}.", verdict=True, tone=tone), Heading("Loss")),
        *_losses(done),
        *(Prose(words, "  ", "    ") for words in data_words(done)),
        in_terminal(Prose(done.gate.sentence, "  ", "    ")),
        on_page(*_short_text(done)),
        *_proof(done),
        in_terminal(*_places(done)),
        on_page(Heading("How"), _how(done)),
    ]
    question = f"What did tuning do to {title}?"
    return Document(f"{title}, tuned", tuple(blocks), "ropewalk tune", question)


def _losses(done: Tuned) -> Iterator[Block]:
    if not done.steps:
        return
    about, steps = done.about, done.steps
    seconds = math.fsum(each.seconds for each in steps)
    read = sum(each.read for each in steps)
    yield Prose(
        f"{len(steps)} steps, {read:,} tokens read, {read / seconds:,.0f} a second; loss "
        f"{steps[0].loss:.4f} at the first step, {steps[-1].loss:.4f} at the last",
        "  ",
        "    ",
    )
    yield Drawn(lambda width: _curve([each.loss for each in steps], width))
    processes = f"{about['processes']} process{'es' * (about['processes'] != 1)}"
    yield on_page(
        Prose(
            f"{about['trained']:,} of {about['parameters']:,} parameters were trained, on "
            f"{processes}."
        ),
        loss_chart(done),
    )


def loss_chart(done: Tuned) -> Chart:
    """Loss of every step in nats per token, a line for each length of row."""
    lengths = sorted({each.length for each in done.steps}, reverse=True)
    lines = tuple(
        ChartLine(
            f"rows of {length:,}",
            tuple((float(e.step), e.loss) for e in done.steps if e.length == length),
        )
        for length in lengths
    )
    last = max(2, done.steps[-1].step) if done.steps else 2
    ticks = sorted({1 + round((last - 1) * i / 4) for i in range(5)})
    return Chart("Loss of every step", lines, tuple((float(s), f"{s:,}") for s in ticks))


def _short_text(done: Tuned) -> Iterator[Block]:
    gate = done.gate
    lead = (
        f"The same {gate.tokens:,} tokens, which were not trained on, in windows of {gate.window}."
    )
    yield Heading("Short text", lead)
    columns = (
        Column("Nats per token", of=lambda gate: gate.text),
        Column("before", of=lambda gate: gate.before, form="{:.4f}"),
        Column("after", of=lambda gate: gate.after, form="{:.4f}"),
        Column("change", of=lambda gate: gate.share, form="{:+.2%}"),
        Column("standard error", of=lambda gate: gate.error, form="{:.4f}"),
    )
    yield Table(columns, (gate,), key="gate")


def _proof(done: Tuned) -> Iterator[Block]:
    rows = proof_rows(done)
    if not rows:
        return
    lead = "Share of hidden facts that were found, with 95 % intervals. The whole proofs lie in "
    yield on_page(Heading("Found in the text", f"{lead}the run folder."))
    columns = (
        Column("length", 12, lambda row: row[0], "{:,}", align=">"),
        Column("before", 18, lambda row: row[1]),
        Column("after", 18, lambda row: row[2]),
    )
    yield Table(columns, rows, key="proof")


def _places(done: Tuned) -> Iterator[Block]:
    yield ToCopy(f"model: {done.model}", "")
    if done.adapter is not None:
        yield ToCopy(f"adapter: {done.adapter}", "")


def _how(done: Tuned) -> Details:
    details = [Detail("Model", str(done.model))]
    if done.adapter is not None:
        details.append(Detail("Adapter", str(done.adapter)))
    details += [Detail(*each) for each in _settings(done.settings, done.about)]
    return Details(tuple(details))


def _settings(settings: TuneSettings, about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for, in the words of the command line."""
    lora = "none, all weights are trained" if settings.lora is None else str(settings.lora)
    return [
        ("Command", settings.command or "from Python"),
        ("Data", ", ".join(map(str, settings.data))),
        ("Length", str(settings.mix)),
        ("Rows per step", str(settings.rows)),
        ("Documents kept apart", "yes" if settings.mask else "no"),
        ("Positions", settings.positions),
        ("Learning rate", f"{settings.lr:g}, {settings.decay}, {settings.warmup} steps up"),
        ("Weight decay, clip", f"{settings.weight_decay:g}, {settings.clip:g}"),
        ("Number type", about["dtype"]),
        ("Adapters' rank", lora),
        ("Seed", str(settings.seed)),
    ]


def curve_lines(losses: Sequence[float], width: int, height: int) -> list[str]:
    """A curve of `losses` in ASCII, `width` x `height` characters with its scale; [] without any.

    A column is the mean of its steps.
    """
    if not losses:
        return []
    columns = min(len(losses), max(1, width - _LABEL - 1))
    edges = [round(i * len(losses) / columns) for i in range(columns + 1)]
    means = [math.fsum(losses[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    rows = [[" "] * columns for _ in range(height)]
    for column, value in enumerate(means):
        share = (high - value) / (high - low) if high > low else 0.5
        rows[round(share * (height - 1))][column] = "*"
    labels = {0: f"{high:.3f}", height - 1: f"{low:.3f}"}
    return [
        f"{labels.get(i, ''):>{_LABEL - 1}} |{''.join(row).rstrip()}" for i, row in enumerate(rows)
    ]


def _curve(losses: Sequence[float], width: int) -> Iterator[str]:
    for line in curve_lines(losses, min(_CURVE, width - 2), 8):
        yield f"  {line}"


def data_words(done: Tuned) -> list[str]:
    """What was read, a sentence for each length of row."""
    found = []
    for length, about in done.about["data"].items():
        said = f"rows of {int(length):,} tokens: {about['rows']:,} taken"
        if "fill" in about:
            said += (
                f" of {about['documents']:,} documents, {100 * about['fill']:.1f} % full, the "
                f"longest piece {about['longest']:,} tokens"
            )
            if about["longest"] < int(length):
                said += f": no distance beyond {about['longest'] - 1:,} was trained"
        if about["readings"] > 1:
            said += f"; the data was read {about['readings']} times"
        found.append(said)
    asked = done.about["asked"]
    if len(done.steps) < asked:
        found.append(
            f"the time given ended training at step {len(done.steps)} of {asked}, where the rate "
            f"was {done.steps[-1].rate:.2e}"
        )
    return found


def proof_rows(done: Tuned) -> list[tuple[int, str, str]]:
    """For every proved length: the share of hits before and after, with what was asked."""
    if done.proofs is None:
        return []
    before = {each.length: each for each in done.proofs.before.summary.columns}
    rows = []
    for column in done.proofs.after.summary.columns:
        old = before.get(column.length)
        rows.append(
            (column.length, "-" if old is None else _share(old.pooled), _share(column.pooled))
        )
    return rows


def _share(share: Share) -> str:
    if not share.judged:
        return "-"
    shares = (share.hits / share.judged, share.low, share.high)
    value, low, high = (f"{100 * each:.0f}" for each in shares)
    return f"{value} % ({low}-{high})"


def values(done: Tuned) -> dict[str, object]:
    """The run as plain JSON values, under a schema's name."""
    gate = {
        name: value if not isinstance(value, float) or math.isfinite(value) else None
        for name, value in asdict(done.gate).items()
    }
    return {
        "schema": f"ropewalk.tune.result/{JSON_FORMAT}",
        "model": str(done.model),
        "adapter": None if done.adapter is None else str(done.adapter),
        **done.about,
        "steps": [asdict(each) for each in done.steps],
        "gate": {**gate, "share": done.gate.share, "passed": done.gate.passed},
        "proof": [
            {"length": length, "before": old, "after": new} for length, old, new in proof_rows(done)
        ],
    }
