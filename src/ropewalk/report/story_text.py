"""The story of the embedded model as lines: what each schedule finds, and what training changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from ropewalk.extension.story import Chapter, Story
from ropewalk.proof.cells import Control, Outcome
from ropewalk.proof.statistics.paired import mcnemar
from ropewalk.proof.summary import Share
from ropewalk.report.layout import Piece, Prose, Table, lines

WIDTH = 100

SIGNIFICANT = 0.05


def chapter_line(chapter: Chapter) -> str:
    """Hits of each length in one line."""
    return "   ".join(
        f"{column.length:,}: {_counted(column.pooled)}" for column in chapter.proof.summary.columns
    )


def story_lines(story: Story, width: int = WIDTH) -> Iterator[str]:
    """The table of all proofs, the figures of training, and what they come to, in `width`
    columns, WIDTH at most.
    """
    yield from lines(_pieces(story), min(width, WIDTH))


def _pieces(story: Story) -> Iterator[Piece]:
    lengths = story.scale.lengths
    rows = [story.shipped, *story.untrained, story.tuned]
    width = max(len(chapter.title) for chapter in rows)
    table = [[f"{'pass keys found at':<{width}}", *(f"{length:>10,}" for length in lengths)]]
    for chapter in rows:
        asked = {column.length: column.pooled for column in chapter.proof.summary.columns}
        counts = (_counted(asked[n]) if n in asked else "" for n in lengths)
        table.append([f"{chapter.title:<{width}}", *(f"{count:>10}" for count in counts)])
    yield Table(table)
    yield ""
    yield from map(Prose, sentences(story))


def sentences(story: Story) -> Iterator[str]:
    """What was measured, in words."""
    drifted, steps = story.drifted, story.steps
    target, trained = story.scale.target, story.trained
    yield (
        f"Trained on {trained:,} tokens, it finds {_counted(story.shipped.share(trained))} there "
        f"and {_counted(story.shipped.share(target))} at {target:,}."
    )
    yield _without_training(story.untrained, target)
    yield (
        f"After {len(steps)} steps on packed documents (loss {steps[0].loss:.2f} to "
        f"{steps[-1].loss:.2f}): {_counted(story.tuned.share(target))} at {target:,}, worst depth "
        f"{_counted(story.tuned.worst(target))}."
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
        f"Most found without training at {target:,}: {names}, {_counted(leaders[0].share(target))}"
    )
    said += " each" if len(leaders) > 1 else ""
    near = [
        f"{_schedule(chapter)} ({_counted(chapter.share(target))})"
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


def story_json(story: Story) -> dict[str, object]:
    """All figures of the story as plain values. Losses in nats a token, by step."""
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


def _counted(share: Share) -> str:
    return f"{share.hits}/{share.judged}"
