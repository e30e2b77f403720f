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
    from ropewalk.audit import audit
    from ropewalk.cli.output import columns, console, show, show_path
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.extend.story import MODEL, Chapter, Listener, tell
    from ropewalk.extend.tune.loop import StepResult
    from ropewalk.files import write_whole
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.report.audit_text import print_audit
    from ropewalk.report.layout import Command
    from ropewalk.report.story_html import story_html
    from ropewalk.report.story_text import chapter_line, story_lines

    files = resolve(MODEL)
    show("", Command(f"$ ropewalk audit {MODEL}", ""), "")
    print_audit(console(), audit(read_spec(files), name=files.title))
    report.parent.mkdir(parents=True, exist_ok=True)
    with ProofProgress() as shown, TemporaryDirectory(prefix="ropewalk-story-") as folder:

        def begin(title: str) -> None:
            with shown.aside():
                show("", title)
            shown.say(title)

        def chapter(ended: Chapter) -> None:
            with shown.aside():
                show(f"  {chapter_line(ended)}")

        def step(result: StepResult, total: int) -> None:
            shown.share(result.step, total)

        listener = Listener(begin, shown.say, chapter, step, shown.event)
        # Everything is measured anew: an answer kept from yesterday would not be on the spot.
        story = tell(Path(folder) / "story", scale, listener)
    show("")
    for line in story_lines(story, columns()):
        typer.echo(line)
    write_whole(report, story_html(story))
    show("")
    show_path(f"report: {report}")
