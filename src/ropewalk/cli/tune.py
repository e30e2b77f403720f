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
from ropewalk.cli.prove_options import seconds_of
from ropewalk.errors import INTERRUPTED

if TYPE_CHECKING:
    from ropewalk.extension.tune.session import Tuned
    from ropewalk.extension.tune.settings import TuneSettings


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
    from ropewalk.extension.tune.settings import TuneSettings

    settings = TuneSettings(
        model=checkpoint, out=out, lora=lora, every=checkpoint_every, seed=seed,
        context_parallel=context_parallel, command=shlex.join(["ropewalk", *sys.argv[1:]]),
        data=tuple(data), field=field, column=column, encoding=encoding,
        seconds=None if minutes is None else seconds_of(minutes),
        **_rows(checkpoint, length, rows, at_once, mask, positions, cutting, boundary),
        **_rates(steps, lr, lr_end, warmup, decay, weight_decay, clip),
        **_computed(device, dtype, keep_activations, attention),
        **_measured(gate, gate_text, prove, trials),
    )  # fmt: skip
    settings.check()
    done = _run(settings)
    if done is not None:
        _show(done, settings, as_json=as_json, html=html)


# Words like "cosine" are passed on as they are: `TuneSettings.check` looks at them.


def _rows(
    checkpoint: str,
    length: str | None,
    rows: int,
    at_once: int,
    mask: bool,
    positions: str,
    cutting: str,
    boundary: str | None,
) -> dict[str, Any]:
    """What a step is made of."""
    from ropewalk.extension.tune.length import claimed_mix
    from ropewalk.extension.tune.settings import parse_mix

    return {
        "mix": claimed_mix(checkpoint) if length is None else parse_mix(length),
        "rows": rows,
        "at_once": at_once,
        "mask": mask,
        "positions": positions,
        "cutting": cutting,
        "boundary": boundary,
    }


def _rates(
    steps: int,
    lr: float,
    lr_end: float,
    warmup: int | None,
    decay: str,
    weight_decay: float,
    clip: float,
) -> dict[str, Any]:
    """How far each step goes."""
    return {
        "steps": steps,
        "lr": lr,
        "lr_end": lr_end,
        "warmup": max(0, min(10, steps)) if warmup is None else warmup,
        "decay": decay,
        "weight_decay": weight_decay,
        "clip": clip,
    }


def _computed(device: str, dtype: str, keep_activations: bool, attention: str) -> dict[str, Any]:
    return {
        "device": device,
        "dtype": dtype,
        "activation_checkpoints": not keep_activations,
        "attention": attention,
    }


def _measured(
    gate: float | None, gate_text: Path | None, prove: str | None, trials: int
) -> dict[str, Any]:
    """What is asked of the model before and after."""
    from ropewalk.proof.plan import parse_lengths

    return {
        "gate": gate,
        "gate_text": gate_text,
        "prove": () if prove is None else parse_lengths(prove),
        "trials": trials,
    }


def _run(settings: TuneSettings) -> Tuned | None:
    from ropewalk.cli.tune_progress import TuneProgress
    from ropewalk.extension.tune.interrupt import Interrupted
    from ropewalk.extension.tune.session import Listener, tune

    try:
        with TuneProgress() as shown:
            listener = Listener(shown.say, shown.note, shown.begin, shown.step, shown.end)
            return tune(settings, listener)
    except Interrupted as stopped:
        if str(stopped):
            tell(str(stopped))
        raise typer.Exit(INTERRUPTED) from None


def _show(done: Tuned, settings: TuneSettings, *, as_json: bool, html: Path | None) -> None:
    """Print what came of it and write the report; a gate that fails is exit code 1."""
    from ropewalk.files import write_whole
    from ropewalk.report import document_of
    from ropewalk.report import html as page_of

    print_result(done, as_json=as_json, settings=settings)
    report = done.folder / "report.html"
    page = page_of(document_of(done, settings=settings))
    write_whole(report, page)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, page)
    if not done.gate.passed:
        tell(
            f"ropewalk: the gate of {settings.gate:g} fails; the model is kept apart in "
            f"{done.model}"
        )
        raise typer.Exit(1)
