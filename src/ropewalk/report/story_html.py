"""The story of the embedded model as one HTML page: a map for each proof, and the loss curve."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.extension.story import Chapter, Story
from ropewalk.report.page import asset, environment, policy_hash, trusted
from ropewalk.report.story_text import sentences
from ropewalk.short import short

WIDTH, HEIGHT, MARGIN = 640.0, 180.0, 36.0


@short
@dataclass(frozen=True, slots=True)
class Field:
    """A field of a map: how many of how many, and a shade from 0 to 4."""

    text: str
    shade: int


@short
@dataclass(frozen=True, slots=True)
class Map:
    """A proof as a table: lengths across, depths down."""

    title: str
    lengths: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Field, ...]], ...]


def story_html(story: Story) -> str:
    """The page. Raises MissingPartError without jinja2."""
    style = asset("story.css")
    losses = [step.loss for step in story.steps]
    return (
        environment()
        .get_template("story.html.j2")
        .render(
            style=trusted(style),
            style_hash=policy_hash(style),
            maps=[map_of(each, story) for each in (story.shipped, *story.untrained, story.tuned)],
            sentences=list(sentences(story)),
            path=curve(losses),
            first=f"{losses[0]:.2f}",
            last=f"{losses[-1]:.2f}",
            steps=len(losses),
            width=WIDTH,
            height=HEIGHT,
        )
    )


def map_of(chapter: Chapter, story: Story) -> Map:
    """The fields of a proof; a length that was not asked has none."""
    summary = chapter.proof.summary
    fields = {(cell.length, cell.depth): cell.share for cell in summary.cells}
    rows = []
    for depth in summary.depths:
        shares = [fields[length, depth] for length in summary.lengths]
        row = tuple(
            Field(f"{s.hits}/{s.judged}", round(4 * s.hits / s.judged) if s.judged else 0)
            for s in shares
        )
        rows.append((f"{depth:.0%}", row))
    trained = story.trained
    heads = tuple(f"{n:,}" + (" (trained)" if n == trained else "") for n in summary.lengths)
    return Map(chapter.title, heads, tuple(rows))


def curve(losses: list[float]) -> str:
    """The loss by step as an SVG path."""
    low, high = min(losses), max(losses)
    span = (high - low) or 1.0
    across = (WIDTH - 2 * MARGIN) / max(1, len(losses) - 1)
    points = (
        (MARGIN + step * across, MARGIN + (high - loss) / span * (HEIGHT - 2 * MARGIN))
        for step, loss in enumerate(losses)
    )
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
