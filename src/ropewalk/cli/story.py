"""`ropewalk demo --full`: the whole story on the embedded model, in a few minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ropewalk.extend.story import Scale

REPORT = Path("ropewalk-runs") / "story.html"


def tell_story(scale: Scale | None = None, report: Path = REPORT) -> None:
    """Audit, prove, stretch, tune and prove again; then one page with all of it."""
    from rich.console import Console

    from ropewalk.audit import audit
    from ropewalk.extend.story import MODEL, Chapter, Listener, tell
    from ropewalk.extend.tune.loop import StepResult
    from ropewalk.files import write_whole
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.report.audit_text import print_audit
    from ropewalk.report.story_html import story_html
    from ropewalk.report.story_text import chapter_line, story_lines

    def step(result: StepResult, total: int) -> None:
        if result.step % 10 == 0 or result.step == total:
            typer.echo(f"  step {result.step} of {total}: loss {result.loss:.3f}")

    def chapter(ended: Chapter) -> None:
        typer.echo(f"  {chapter_line(ended)}")

    files = resolve(MODEL)
    typer.echo(f"\n$ ropewalk audit {MODEL}\n")
    print_audit(Console(highlight=False), audit(read_spec(files), name=files.title))
    listener = Listener(begin=lambda title: typer.echo(f"\n{title}"), chapter=chapter, step=step)
    report.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="ropewalk-story-") as folder:
        # Everything is measured anew: an answer kept from yesterday would not be on the spot.
        story = tell(Path(folder) / "story", scale, listener)
        typer.echo("")
        for line in story_lines(story):
            typer.echo(line)
        write_whole(report, story_html(story))
    typer.echo(f"\nreport: {report}")
