"""`ropewalk tune CHECKPOINT`: brief continued training on long packed documents."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ropewalk.cli import tune_options as o
from ropewalk.cli.output import print_result, show_path, tell
from ropewalk.cli.pages import Html
from ropewalk.errors import INTERRUPTED

if TYPE_CHECKING:
    from ropewalk.extension.tune.session import Tuned


def tune_command(
    checkpoint: o.Checkpoint,
    data: o.Data,
    steps: o.Steps,
    out: o.Out,
    length: o.Length = None,
    rows: o.Rows = 8,
    at_once: o.AtOnce = 1,
    mask: o.Mask = True,
    positions: o.Positions = "reset",
    cutting: o.Cutting = "kept",
    boundary: o.Boundary = None,
    field: o.Field = "text",
    column: o.Column = None,
    encoding: o.Encoding = "utf-8",
    lr: o.Rate = 2e-5,
    lr_end: o.RateEnd = 0.1,
    warmup: o.Warmup = None,
    decay: o.Decay = "cosine",
    weight_decay: o.WeightDecay = 0.0,
    clip: o.Clip = 1.0,
    dtype: o.Dtype = "auto",
    keep_activations: o.Keep = False,
    attention: o.Attention = "auto",
    lora: o.Lora = None,
    checkpoint_every: o.Every = 100,
    seed: o.Seed = 0,
    device: o.Device = "auto",
    gate: o.GateShare = None,
    gate_text: o.GateText = None,
    prove: o.Prove = None,
    trials: o.Trials = 5,
    context_parallel: o.ContextParallel = 1,
    minutes: o.Minutes = None,
    as_json: o.AsJson = False,
    html: Html = None,
) -> None:
    """Train a checkpoint on long documents, here or under torchrun, and say what it gained."""
    given: dict[str, Any] = locals()
    del given["as_json"], given["html"]
    from ropewalk.cli.tune_progress import TuneProgress
    from ropewalk.extension.tune.interrupt import Interrupted
    from ropewalk.verbs.running import tune

    command = shlex.join(["ropewalk", *sys.argv[1:]])
    try:
        with TuneProgress() as shown:
            done = tune(**given, listener=shown.listener(), command=command)
    except Interrupted as stopped:
        if str(stopped):
            tell(str(stopped))
        raise typer.Exit(INTERRUPTED) from None
    if done is not None:
        _show(done, as_json=as_json, html=html)


def _show(done: Tuned, *, as_json: bool, html: Path | None) -> None:
    """Print what came of it and write the report; a gate that fails is exit code 1."""
    from ropewalk.files import write_whole
    from ropewalk.report import document_of
    from ropewalk.report import html as page_of

    print_result(done, as_json=as_json)
    report = done.folder / "report.html"
    page = page_of(document_of(done))
    write_whole(report, page)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, page)
    if not done.gate.passed:
        tell(
            f"ropewalk: the gate of {done.gate.most:g} fails; the model is kept apart in "
            f"{done.model}"
        )
        raise typer.Exit(1)
