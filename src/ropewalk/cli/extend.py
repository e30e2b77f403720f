"""`ropewalk extend MODEL --to LENGTH`: a longer context, chosen by measurement and written."""

from __future__ import annotations

import json
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.output import columns, tell
from ropewalk.cli.prove_options import seconds_of
from ropewalk.errors import UsageError

if TYPE_CHECKING:
    from ropewalk.extend.settings import ExtendSettings

INTERRUPTED = 130


class Gguf(StrEnum):
    """What a GGUF file's matrices are written in."""

    F16 = "F16"
    F32 = "F32"


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A Hugging Face folder, a .gguf file, a hub id or a known name."
    ),
]
To = Annotated[str, typer.Option(help="The new length in tokens, like 16384 or 16k (k = 1024).")]
Method = Annotated[
    str,
    typer.Option(
        help="linear, ntk, ntk-by-parts, yarn, llama3, longrope, base; auto measures them all on "
        "the model; search looks for divisors of its own."
    ),
]
Factors = Annotated[
    Path | None, typer.Option(help="For longrope: a JSON list with a divisor a rotary pair.")
]
Base = Annotated[
    float | None, typer.Option(help="For base: the base; without it the critical one.")
]
Headroom = Annotated[
    float | None,
    typer.Option(
        help="Make the schedule for a context this many times as long as --to. Default: 1; auto "
        "and search try 1, 1.25, 1.5 and 2."
    ),
]
Lengths = Annotated[
    str | None, typer.Option(help="Where auto and search ask, like 12k,16000. Default: --to.")
]
Depths = Annotated[str, typer.Option(help="Percents, or how many, evenly spaced.")]
Trials = Annotated[int, typer.Option(help="Documents that every schedule is asked about.")]
Minutes = Annotated[
    float | None, typer.Option(help="Begin nothing that would not be done by then.")
]
Tries = Annotated[int | None, typer.Option(help="For search: schedules to try.")]
Seed = Annotated[int, typer.Option(help="Names the random text, and the search.")]
Text = Annotated[
    Path | None, typer.Option(help="A UTF-8 file of short text; generated text without one.")
]
Out = Annotated[
    Path | None,
    typer.Option(help="A new folder, or FILE.gguf for a GGUF model; without it none is written."),
]
Copy = Annotated[
    bool, typer.Option("--copy/--link", help="Copy the weights, or link the same files.")
]
GgufType = Annotated[
    Gguf | None, typer.Option("--gguf", help="Write dequantised weights; else as stored.")
]
Work = Annotated[
    Path | None, typer.Option(help="Keeps answers and tries; by default below ropewalk-runs.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Write over a file; write what was searched even if not better."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def extend_command(
    model: Model,
    to: To,
    method: Method = "auto",
    factors: Factors = None,
    base: Base = None,
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
    dtype: Dtype = "float32",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Extend a model: schedule, factor, base and lengths together, measured on the model."""
    from ropewalk.cli.prove import check_can_hold
    from ropewalk.extend.settings import ExtendSettings
    from ropewalk.prove.plan import parse_depths, parse_lengths
    from ropewalk.prove.session import RUNS

    targets = parse_lengths(to)
    if len(targets) != 1:
        raise UsageError(f"--to {to}: one length is wanted, like 16384 or 16k")
    settings = ExtendSettings(
        model=model,
        target=targets[0],
        method=method,
        factors=factors,
        base=base,
        headroom=headroom,
        lengths=() if lengths is None else parse_lengths(lengths),
        depths=parse_depths(depths),
        trials=trials,
        tries=tries,
        seconds=None if minutes is None else seconds_of(minutes),
        seed=seed,
        text=text,
        out=out,
        place="copy" if copy else "link",
        numbers=None if gguf is None else gguf.value,
        force=force,
        work=work,
        device=device,
        dtype=dtype,
        command=shlex.join(["ropewalk", *sys.argv[1:]]),
    )
    if method in ("auto", "search"):
        check_can_hold(work or RUNS, "--work")
    _run(settings, as_json=as_json)


def _run(settings: ExtendSettings, *, as_json: bool) -> None:
    """Extend with a bar on stderr, and print what came of it."""
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.extend.session import Listener, extend

    try:
        with ProofProgress() as progress:
            listener = Listener(progress.say, progress.share, progress.event, progress.so_far)
            found = extend(settings, listener)
    except KeyboardInterrupt:
        tell("interrupted; what was measured is kept, and the same command goes on")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        from ropewalk.report.extend_json import extend_json

        typer.echo(json.dumps(extend_json(found), indent=2, allow_nan=False))
    else:
        from ropewalk.report.extend_text import extend_lines

        for line in extend_lines(found, columns()):
            typer.echo(line)
    if found.after is None:
        raise typer.Exit(1)
