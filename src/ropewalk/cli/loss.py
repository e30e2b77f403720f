"""`ropewalk loss MODEL [TEXT]`: what each token of a long text costs, by its position."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.output import columns
from ropewalk.cli.progress import Progress

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A Hugging Face folder, a .gguf file, a hub id or a known name."
    ),
]
Text = Annotated[
    Path | None, typer.Argument(metavar="TEXT", help="A UTF-8 file; generated text without one.")
]
Length = Annotated[int, typer.Option(help="Tokens to read.")]
WindowSize = Annotated[int, typer.Option(help="Tokens of a window of the cut evaluations.")]
Stride = Annotated[int, typer.Option(help="Tokens that the sliding window moves by.")]
Seed = Annotated[int, typer.Option(help="Names the generated text.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def loss_command(
    model: Model,
    text: Text = None,
    length: Length = 2048,
    window: WindowSize = 512,
    stride: Stride = 256,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "float32",
    as_json: AsJson = False,
) -> None:
    """Measure loss by position: whole text, sliding and non-overlapping windows, two probes."""
    from ropewalk.prove.loss_run import LossSettings, measure
    from ropewalk.report.loss_text import loss_json, loss_lines

    settings = LossSettings(model, text, length, window, stride, seed, device, dtype)
    with Progress() as shown:
        found = measure(settings, shown.say)
    if as_json:
        typer.echo(json.dumps(loss_json(found), indent=2, allow_nan=False))
        return
    for line in loss_lines(found, columns()):
        typer.echo(line)
