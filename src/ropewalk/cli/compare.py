"""`ropewalk compare`: the encodings trained alike, and measured beyond their trained length."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ropewalk.cli import options
from ropewalk.cli.completion import several, words

ENCODINGS = (
    "sinusoidal", "learned", "rope", "alibi", "t5", "none", "raw_index",
    "sinusoidal+every", "learned+every", "raw_index+every",
)  # fmt: skip
"""As `ropewalk.comparison.presets` has them."""

PresetName = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="minute|lesson|paper",
        help="minute (one seed, under 6 minutes on 2 cores), lesson (three seeds), or paper "
        "(larger, for a GPU).",
        autocompletion=words("minute", "lesson", "paper"),
    ),
]
Encodings = Annotated[
    str | None,
    typer.Option(
        help="Which, with commas between: sinusoidal, learned, rope, alibi, t5, none, raw_index; "
        "+every behind "
        "sinusoidal, learned or raw_index adds it before every block. Default: all.",
        metavar="NAMES",
        autocompletion=several(*ENCODINGS),
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        metavar="SEEDS", help="How many seeds, counted from 0, or which ones: 3, or 0,5,7."
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(min=1, help="Steps of training. Default: as the preset has it."),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Where to train. Default: cuda for paper and cpu for the others.",
        metavar="cpu|cuda",
        autocompletion=words("cpu", "cuda"),
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="Folder of the trained decoders; what it holds is not trained again."
    ),
]
Html = Annotated[Path | None, typer.Option(help="Write the comparison as one HTML page.")]


def compare_command(
    preset: PresetName = "lesson",
    encodings: Encodings = None,
    seeds: Seeds = None,
    steps: Steps = None,
    device: Device = None,
    out: Out = Path("ropewalk-compare"),
    html: Html = None,
    as_json: options.AsJson = False,
) -> None:
    """Train one small decoder under each encoding of position and measure it beyond its length."""
    given: dict[str, Any] = locals()
    del given["as_json"], given["html"]
    from ropewalk.cli.output import print_result, show
    from ropewalk.cli.progress import Progress
    from ropewalk.files import write_whole
    from ropewalk.report import document_of
    from ropewalk.report import html as page_of
    from ropewalk.verbs.running import compare

    with Progress() as progress:
        found = compare(**given, listener=progress.listener())
    if html is not None:
        write_whole(html, page_of(document_of(found)))
    print_result(found, as_json=as_json)
    if not as_json:
        show("", f"The decoders are in {out}; what is there is not trained again.")
