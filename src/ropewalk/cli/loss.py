"""`ropewalk loss MODEL [TEXT]`: what each token of a long text costs, by its position."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.output import print_result
from ropewalk.cli.progress import Progress

Text = Annotated[
    Path | None, typer.Argument(metavar="TEXT", help="A UTF-8 file; generated text without one.")
]
Length = Annotated[str, typer.Option(metavar="TOKENS", help="Tokens to read, like 2048 or 8k.")]
WindowSize = Annotated[
    str, typer.Option(metavar="TOKENS", help="Tokens of a window of the cut evaluations.")
]
Stride = Annotated[
    str, typer.Option(metavar="TOKENS", help="Tokens that the sliding window moves by.")
]
Seed = Annotated[int, typer.Option(help="Names the generated text.")]


def loss_command(
    model: options.Model,
    text: Text = None,
    length: Length = "2048",
    window: WindowSize = "512",
    stride: Stride = "256",
    seed: Seed = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Measure loss by position: whole text, sliding and non-overlapping windows, two probes."""
    from ropewalk.lengths import parse_length
    from ropewalk.proof.loss_run import LossSettings, measure

    settings = LossSettings(
        model, text, parse_length(length, "--length"), parse_length(window, "--window"),
        parse_length(stride, "--stride"), seed, device, dtype,
    )  # fmt: skip
    with Progress() as shown:
        found = measure(settings, shown.say)
    print_result(found, as_json=as_json)
