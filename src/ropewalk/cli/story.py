"""`ropewalk demo --full`: the whole story on the embedded model, in a few minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropewalk.extension.story import Story, StorySize

REPORT = Path("ropewalk-runs") / "story.html"


def tell_story(
    scale: StorySize | None = None,
    report: Path = REPORT,
    *,
    as_json: bool = False,
    html: Path | None = None,
) -> None:
    """Audit, prove, stretch, tune and prove again; then one page with all of it.

    `as_json`: one document on stdout, and nothing else there.
    """
    from ropewalk.cli.output import print_result, show
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.extension.story import MODEL, Chapter, StoryListener, tell
    from ropewalk.extension.tune.loop import StepResult
    from ropewalk.findings import audit
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.report.chapters import chapter_line
    from ropewalk.report.document import ToCopy

    files = resolve(MODEL)
    if not as_json:
        show("", ToCopy(f"$ ropewalk audit {MODEL}", ""), "")
        print_result(audit(read_spec(files), name=files.title))
    report.parent.mkdir(parents=True, exist_ok=True)
    with ProofProgress() as shown, TemporaryDirectory(prefix="ropewalk-story-") as folder:

        def begin(title: str) -> None:
            if not as_json:
                with shown.aside():
                    show("", title)
            shown.say(title)

        def chapter(ended: Chapter) -> None:
            if not as_json:
                with shown.aside():
                    show(f"  {chapter_line(ended)}")

        def step(result: StepResult, total: int) -> None:
            shown.share(result.step, total)

        listener = StoryListener(begin, shown.say, chapter, step, shown.event)
        # Everything is measured anew: an answer kept from yesterday would not be on the spot.
        story = tell(Path(folder) / "story", scale, listener)
    _show(story, report, html, as_json=as_json)


def _show(story: Story, report: Path, html: Path | None, *, as_json: bool) -> None:
    """All that came of it, and its page."""
    from ropewalk.cli.output import print_result, show, show_path, tell
    from ropewalk.files import write_whole
    from ropewalk.report import document_of
    from ropewalk.report import html as page_of

    if not as_json:
        show("")
    print_result(story, as_json=as_json)
    if not as_json:
        show("")
    page = page_of(document_of(story))
    write_whole(report, page)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, page)
