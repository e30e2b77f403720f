"""`ropewalk extend MODEL --to LENGTH`: a longer context, chosen by measurement and written."""

from __future__ import annotations

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ropewalk.cli import options
from ropewalk.cli.output import print_result, tell
from ropewalk.errors import INTERRUPTED


class Gguf(StrEnum):
    """What a GGUF file's matrices are written in."""

    F16 = "F16"
    F32 = "F32"


class For(StrEnum):
    """Whom a checkpoint is made for."""

    transformers = "transformers"
    vllm = "vllm"
    llamacpp = "llamacpp"
    mlx = "mlx"


HOW = "How it is extended"
MEASURED = "What is measured"
WRITTEN = "What is written"

METHODS = (
    "auto", "search", "linear", "ntk", "ntk-by-parts", "yarn", "llama3", "longrope", "base",
)  # fmt: skip
"""As `ropewalk.extension.settings` has them."""

Model = options.Model
To = Annotated[
    str,
    typer.Option(
        metavar="LENGTH",
        help="The new context length in tokens, like 16384, 16k or 1M (k = 1024).",
        rich_help_panel=HOW,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        help="linear, ntk, ntk-by-parts, yarn, llama3, longrope or base; auto measures them all "
        "on the model; search looks for divisors of its own.",
        autocompletion=options.words(*METHODS),
        rich_help_panel=HOW,
    ),
]
ForEngine = Annotated[
    For | None,
    typer.Option(
        "--for",
        help="Take only a schedule that this engine can serve, and say how.",
        rich_help_panel=HOW,
    ),
]
Factors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="For longrope: a JSON list with one divisor for each rotary pair.",
        rich_help_panel=HOW,
    ),
]
RopeTheta = Annotated[
    float | None,
    typer.Option(
        help="For base: the new rope_theta. Default: the critical one.", rich_help_panel=HOW
    ),
]
Headroom = Annotated[
    float | None,
    typer.Option(
        help="Make the schedule for a context this many times as long as --to. Default: 1; auto "
        "and search try 1, 1.25, 1.5 and 2.",
        rich_help_panel=HOW,
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTHS",
        help="The lengths at which auto and search ask, like 12k,16000. Default: --to.",
        rich_help_panel=MEASURED,
    ),
]
Depths = Annotated[
    str,
    typer.Option(
        metavar="DEPTHS",
        help="Where the fact stands, in percent of the prompt; one whole number says how many, "
        "evenly spaced.",
        rich_help_panel=MEASURED,
    ),
]
Trials = Annotated[
    int,
    typer.Option(help="Documents that every schedule is asked about.", rich_help_panel=MEASURED),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="Begin nothing that would not be done within this time.",
        rich_help_panel=MEASURED,
    ),
]
Tries = Annotated[
    int | None,
    typer.Option(help="For search: how many schedules to try.", rich_help_panel=HOW),
]
Seed = Annotated[
    int,
    typer.Option(help="The seed of the random text and of the search.", rich_help_panel=MEASURED),
]
Text = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Short text whose loss is watched, in UTF-8. Default: generated text.",
        rich_help_panel=MEASURED,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="A new folder, or FILE.gguf for a GGUF model. Without it nothing is written.",
        rich_help_panel=WRITTEN,
    ),
]
Copy = Annotated[
    bool,
    typer.Option(
        "--copy/--link",
        help="Copy the weights, or link to the same files.",
        rich_help_panel=WRITTEN,
    ),
]
GgufType = Annotated[
    Gguf | None,
    typer.Option(
        "--gguf",
        help="Write a GGUF's matrices dequantised. Default: as they are stored.",
        rich_help_panel=WRITTEN,
    ),
]
Work = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Keeps what was measured. Default: a folder in ropewalk-runs.",
        rich_help_panel=MEASURED,
    ),
]
Device = Annotated[str, options.device(MEASURED)]
Dtype = Annotated[str, options.dtype(MEASURED)]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Write over a file, and write what was searched even if it is not better.",
        rich_help_panel=WRITTEN,
    ),
]
AsJson = Annotated[bool, options.as_json(WRITTEN)]


def extend_command(
    model: Model,
    to: To,
    method: Method = "auto",
    for_engine: ForEngine = None,
    factors: Factors = None,
    rope_theta: RopeTheta = None,
    headroom: Headroom = None,
    lengths: Lengths = None,
    depths: Depths = "5",
    trials: Trials = 2,
    minutes: Minutes = None,
    tries: Tries = None,
    seed: Seed = 0,
    text: Text = None,
    out: Out = None,
    copy: Copy = False,
    gguf: GgufType = None,
    work: Work = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Extend a model: schedule, factor, base and lengths together, measured on the model."""
    given: dict[str, Any] = locals()
    del given["as_json"]
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.verbs.running import extend

    command = shlex.join(["ropewalk", *sys.argv[1:]])
    try:
        with ProofProgress() as progress:
            found = extend(**given, listener=progress.listener(), command=command)
    except KeyboardInterrupt:
        tell("interrupted; what was measured is kept, and the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    print_result(found, as_json=as_json)
    if found.after is None:
        raise typer.Exit(1)
