"""The story of the embedded model as a document: what schedules find, what training changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from ropewalk.extension.story import Chapter, Story
from ropewalk.proof.cells import Control, Outcome
from ropewalk.proof.statistics.paired import mcnemar
from ropewalk.proof.summary import Share
from ropewalk.report.document import (
    Block,
    Chart,
    ChartLine,
    Column,
    Document,
    Heading,
    HeatMap,
    MapField,
    Prose,
    Table,
    on_page,
)
from ropewalk.report.proof_map import fraction

SIGNIFICANT = 0.05


def document(story: Story) -> Document:
    """The table of all proofs, what they come to, and on a page a map of each and the losses."""
    chapters = [story.shipped, *story.untrained, story.tuned]
    maps: list[Block] = []
    for each in chapters:
        maps += [Heading(each.title), map_of(each, story)]
    blocks: tuple[Block, ...] = (
        _table(story, chapters),
        "",
        *map(Prose, sentences(story)),
        on_page(*maps, Heading("Tuning"), loss_chart(story)),
    )
    title = "A context window, stretched and proved"
    return Document(title, blocks, "ropewalk demo --full", width=100)


def _table(story: Story, chapters: Sequence[Chapter]) -> Table:
    def of(length: int) -> Callable[[Chapter], Share | None]:
        return lambda chapter: next(
            (c.pooled for c in chapter.proof.summary.columns if c.length == length), None
        )

    columns = [Column("pass keys found at", 0, lambda chapter: chapter.title, key="proof")]
    columns += [
        Column(f"{length:,}", 10, of(length), fraction, absent="") for length in story.scale.lengths
    ]
    return Table(columns, chapters, key="proofs")


def map_of(chapter: Chapter, story: Story) -> HeatMap:
    """The fields of a proof; the trained length is named."""
    summary = chapter.proof.summary
    by_place = {(cell.length, cell.depth): cell.share for cell in summary.cells}
    heads = (f"{n:,}" + (" (trained)" if n == story.trained else "") for n in summary.lengths)
    return HeatMap(
        chapter.title,
        "depth",
        tuple(heads),
        tuple(f"{depth:.0%}" for depth in summary.depths),
        tuple(
            tuple(
                MapField(share.value, fraction(share))
                for share in (by_place[length, depth] for length in summary.lengths)
            )
            for depth in summary.depths
        ),
    )


def loss_chart(story: Story) -> Chart:
    """The loss by step."""
    losses = [step.loss for step in story.steps]
    lead = f"{losses[0]:.2f} to {losses[-1]:.2f} nats per token"
    points = tuple((float(step), loss) for step, loss in enumerate(losses, 1))
    ticks = ((1.0, "1"), (float(len(losses)), f"step {len(losses)}"))
    title = f"Loss over {len(losses)} steps of tuning"
    return Chart(title, (ChartLine("loss", points),), ticks, lead, form="{:.2f}")


def chapter_line(chapter: Chapter) -> str:
    """Hits of each length in one line."""
    return "   ".join(
        f"{column.length:,}: {fraction(column.pooled)}" for column in chapter.proof.summary.columns
    )


def sentences(story: Story) -> Iterator[str]:
    """What was measured, in words."""
    drifted, steps = story.drifted, story.steps
    target, trained = story.scale.target, story.trained
    yield (
        f"Trained on {trained:,} tokens, it finds {fraction(story.shipped.share(trained))} there "
        f"and {fraction(story.shipped.share(target))} at {target:,}."
    )
    yield _without_training(story.untrained, target)
    yield (
        f"After {len(steps)} steps on packed documents (loss {steps[0].loss:.2f} to "
        f"{steps[-1].loss:.2f}): {fraction(story.tuned.share(target))} at {target:,}, worst depth "
        f"{fraction(story.tuned.worst(target))}."
    )
    yield f"Tuning against the stretched model as it was: {story.gate.sentence}."
    nearer = drifted.after_within - drifted.after_across
    how = "drifted" if nearer > drifted.before_within - drifted.before_across else "did not drift"
    yield (
        f"In the table, rows of words that share contexts {how} together: mean cosine "
        f"{drifted.before_within:+.2f} before training and {drifted.after_within:+.2f} after, "
        f"of other words {drifted.before_across:+.2f} and {drifted.after_across:+.2f} "
        f"({drifted.words} words, from the recipe's log)."
    )


def _without_training(chapters: Sequence[Chapter], target: int) -> str:
    """Who found most of the same prompts, and who is not told apart from it by chance."""
    most = max(chapter.share(target).hits for chapter in chapters)
    leaders = [chapter for chapter in chapters if chapter.share(target).hits == most]
    names = " and ".join(_schedule(chapter) for chapter in leaders)
    said = (
        f"Most found without training at {target:,}: {names}, {fraction(leaders[0].share(target))}"
    )
    said += " each" if len(leaders) > 1 else ""
    near = [
        f"{_schedule(chapter)} ({fraction(chapter.share(target))})"
        for chapter in chapters
        if chapter not in leaders and _by_chance(leaders[0], chapter, target)
    ]
    return f"{said}; by chance it could as well be {' or '.join(near)}." if near else f"{said}."


def _by_chance(one: Chapter, other: Chapter, target: int) -> bool:
    """Whether chance could make the difference in hits on the prompts of both."""
    mine, his = (
        {
            (row.cell, row.key, row.value): row.answer.outcome is Outcome.HIT
            for row in chapter.proof.rows
            if row.cell.length == target and row.cell.control is Control.NONE
        }
        for chapter in (one, other)
    )
    pairs = [(mine[prompt], his[prompt]) for prompt in mine if prompt in his]
    return mcnemar(pairs.count((True, False)), pairs.count((False, True))) >= SIGNIFICANT


def _schedule(chapter: Chapter) -> str:
    return chapter.title.partition(",")[0]


def values(story: Story) -> dict[str, object]:
    """All figures of the story as plain values. Losses in nats per token, by step."""
    return {
        "schema": "ropewalk.demo.full/1",
        "trained": story.trained,
        "proofs": [
            {
                "title": chapter.title,
                "lengths": [
                    {"length": column.length, **_share(column.pooled)}
                    for column in chapter.proof.summary.columns
                ],
            }
            for chapter in (story.shipped, *story.untrained, story.tuned)
        ],
        "losses": [step.loss for step in story.steps],
        "gate": story.gate.sentence,
        "drift": asdict(story.drifted),
        "sentences": list(sentences(story)),
    }


def _share(share: Share) -> dict[str, object]:
    return {"hits": share.hits, "judged": share.judged, "interval": [share.low, share.high]}
