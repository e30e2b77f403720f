"""`ropewalk tune CHECKPOINT`: brief continued training on long packed documents."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ropewalk.extend.tune.session import Tuned
    from ropewalk.extend.tune.settings import TuneSettings

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

Checkpoint = Annotated[
    str,
    typer.Argument(
        metavar="CHECKPOINT",
        help="A Hugging Face folder, a .gguf file, a hub id or a known name.",
    ),
]
Data = Annotated[
    list[Path],
    typer.Option(
        help="Text, JSON lines, Parquet, rows of ropewalk pack, or a folder; may be given again."
    ),
]
Steps = Annotated[int, typer.Option(help="Updates of the weights.")]
Out = Annotated[Path, typer.Option(help="The run folder; the same command goes on with it.")]
Length = Annotated[
    str, typer.Option(help="Tokens of a row: 4096 or 4k, or several with weights: 4096:3,1024:1.")
]
Rows = Annotated[int, typer.Option(help="Rows of the longest length a step, over all processes.")]
AtOnce = Annotated[int, typer.Option(help="Rows that go through the model together.")]
Mask = Annotated[bool, typer.Option("--mask/--no-mask", help="Keep the documents of a row apart.")]
Positions = Annotated[
    str,
    typer.Option(
        help="reset (each piece from 0), document (from its place there), running (on and on)."
    ),
]
Cutting = Annotated[str, typer.Option(help="kept (documents whole where they fit) or split.")]
Boundary = Annotated[
    str | None,
    typer.Option(help="Around documents: eos, bos, both, none, an id. Default: eos if there is."),
]
Field = Annotated[str, typer.Option(help="The field or column that holds the text.")]
Rate = Annotated[float, typer.Option("--lr", help="The highest learning rate.")]
RateEnd = Annotated[float, typer.Option("--lr-end", help="The last one, as a share of --lr.")]
Warmup = Annotated[
    int | None,
    typer.Option(help="Steps on which the rate rises. Default: 10, or all of a shorter run."),
]
Decay = Annotated[str, typer.Option(help="After that: cosine, linear or constant.")]
WeightDecay = Annotated[float, typer.Option(help="AdamW's, of matrices.")]
Clip = Annotated[float, typer.Option(help="The longest gradient that is let through whole.")]
Dtype = Annotated[
    str, typer.Option(help="float32 or bfloat16, to compute in; weights stay float32.")
]
Keep = Annotated[
    bool,
    typer.Option("--keep-activations", help="More memory, less time: compute no block twice."),
]
Attention = Annotated[
    str, typer.Option(help="sdpa, flex_attention, eager, flash_attention_2 or flash_attention_3.")
]
Lora = Annotated[int | None, typer.Option(help="Train adapters of this rank, and nothing else.")]
Every = Annotated[int, typer.Option("--checkpoint-every", help="Steps between checkpoints.")]
Seed = Annotated[int, typer.Option(help="Draws the order of the rows.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")]
GateShare = Annotated[
    float | None,
    typer.Option("--gate", help="Fail if short text costs more by this share, like 0.02."),
]
GateText = Annotated[
    Path | None, typer.Option(help="Short text that is measured; generated text without one.")
]
Prove = Annotated[
    str | None, typer.Option(help="Prove these lengths before and after, like 1k,4k.")
]
Trials = Annotated[int, typer.Option(help="Of each cell of these proofs.")]
ContextParallel = Annotated[
    int, typer.Option(help="Processes that share a row: 1, more is not to be had yet.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def tune_command(
    checkpoint: Checkpoint,
    data: Data,
    steps: Steps,
    out: Out,
    length: Length = "4096",
    rows: Rows = 8,
    at_once: AtOnce = 1,
    mask: Mask = True,
    positions: Positions = "reset",
    cutting: Cutting = "kept",
    boundary: Boundary = None,
    field: Field = "text",
    lr: Rate = 2e-5,
    lr_end: RateEnd = 0.1,
    warmup: Warmup = None,
    decay: Decay = "cosine",
    weight_decay: WeightDecay = 0.0,
    clip: Clip = 1.0,
    dtype: Dtype = "float32",
    keep_activations: Keep = False,
    attention: Attention = "sdpa",
    lora: Lora = None,
    checkpoint_every: Every = 100,
    seed: Seed = 0,
    device: Device = "auto",
    gate: GateShare = None,
    gate_text: GateText = None,
    prove: Prove = None,
    trials: Trials = 5,
    context_parallel: ContextParallel = 1,
    as_json: AsJson = False,
) -> None:
    """Train a checkpoint on long documents, here or under torchrun, and say what it gained."""
    from ropewalk.extend.tune.settings import TuneSettings, parse_mix
    from ropewalk.prove.plan import parse_lengths

    settings = TuneSettings(
        model=checkpoint,
        data=tuple(data),
        steps=steps,
        out=out,
        mix=parse_mix(length),
        rows=rows,
        at_once=at_once,
        mask=mask,
        positions=_word(positions),
        cutting=_word(cutting),
        boundary=boundary,
        field=field,
        lr=lr,
        lr_end=lr_end,
        warmup=max(0, min(10, steps)) if warmup is None else warmup,
        decay=_word(decay),
        weight_decay=weight_decay,
        clip=clip,
        dtype=dtype,
        activation_checkpoints=not keep_activations,
        attention=attention,
        lora=lora,
        every=checkpoint_every,
        seed=seed,
        device=device,
        gate=gate,
        gate_text=gate_text,
        prove=() if prove is None else parse_lengths(prove),
        trials=trials,
        context_parallel=context_parallel,
        command=shlex.join(["ropewalk", *sys.argv[1:]]),
    )
    settings.check()
    done = _run(settings)
    if done is not None:
        _show(done, settings, as_json=as_json)


def _word(text: str) -> Any:
    """A word that `TuneSettings.check` looks at."""
    return text


def _run(settings: TuneSettings) -> Tuned | None:
    from ropewalk.cli.tune_progress import TuneProgress
    from ropewalk.extend.tune.session import Listener, tune

    try:
        with TuneProgress() as shown:
            listener = Listener(shown.say, shown.note, shown.begin, shown.step, shown.end)
            return tune(settings, listener)
    except KeyboardInterrupt:
        typer.echo(
            f"interrupted; the same command goes on from the last checkpoint in {settings.out}",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def _show(done: Tuned, settings: TuneSettings, *, as_json: bool) -> None:
    """Print what came of it and write the report; a gate that fails is exit code 1."""
    import json

    from ropewalk.files import write_whole
    from ropewalk.report.tune_html import tune_html
    from ropewalk.report.tune_text import tune_json, tune_lines

    if as_json:
        typer.echo(json.dumps(tune_json(done), indent=2, allow_nan=False))
    else:
        for line in tune_lines(done):
            typer.echo(line)
    report = done.folder / "report.html"
    write_whole(report, tune_html(done, settings))
    typer.echo(f"report: {report}", err=as_json)
    if not done.gate.passed:
        typer.echo(
            f"ropewalk: the gate of {settings.gate:g} fails; the model is kept apart in "
            f"{done.model}",
            err=True,
        )
        raise typer.Exit(1)
