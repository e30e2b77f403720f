"""`ropewalk tune CHECKPOINT`: brief continued training on long packed documents."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropewalk.cli import options
from ropewalk.cli.output import print_result, show_path, tell
from ropewalk.cli.pages import Html
from ropewalk.errors import INTERRUPTED

if TYPE_CHECKING:
    from ropewalk.extension.tune.session import Tuned

RUN = "The run"
ROWS = "Rows"
TEXTS = "Reading texts"
RATES = "Steps of the optimiser"
COMPUTE = "How it is computed"
MEASURED = "What is measured"

Checkpoint = Annotated[
    str,
    typer.Argument(metavar="CHECKPOINT", help=options.MODEL, autocompletion=options.models),
]
Data = Annotated[
    list[Path],
    typer.Option(
        metavar="PATH",
        help="Text, JSON lines, Parquet, rows of ropewalk pack, or a folder; may be given again.",
        rich_help_panel=RUN,
    ),
]
Steps = Annotated[int, typer.Option(help="How often the weights are updated.", rich_help_panel=RUN)]
Out = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER",
        help="The run folder; the same command goes on with what lies there.",
        rich_help_panel=RUN,
    ),
]
Length = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTHS",
        help="Tokens of a row: 4096 or 4k, or several with weights: 4k:3,1k:1. Default: as many "
        "as the checkpoint claims to read.",
        rich_help_panel=ROWS,
    ),
]
Rows = Annotated[
    int,
    typer.Option(
        help="Rows of the longest length in a step, over all processes.", rich_help_panel=ROWS
    ),
]
AtOnce = Annotated[
    int, typer.Option(help="Rows that go through the model together.", rich_help_panel=ROWS)
]
Mask = Annotated[
    bool,
    typer.Option(
        "--mask/--no-mask",
        help="Keep the documents of a row from attending to one another.",
        rich_help_panel=ROWS,
    ),
]
Positions = Annotated[
    str,
    typer.Option(
        help="position_ids of a piece: reset counts from 0, document from the piece's place in "
        "its document, running from its place in the row.",
        rich_help_panel=ROWS,
        **options.choice("reset", "document", "running"),
    ),
]
Cutting = Annotated[
    str,
    typer.Option(
        help="kept leaves documents whole where they fit into a row; split cuts them where a row "
        "ends.",
        rich_help_panel=ROWS,
        **options.choice("kept", "split"),
    ),
]
Boundary = Annotated[
    str | None,
    typer.Option(
        metavar="eos|bos|both|none|ID",
        help="The tokens around every document. Default: eos where the tokenizer has one.",
        rich_help_panel=ROWS,
    ),
]
Field = Annotated[
    str, typer.Option(help="The field of a JSON record with the text.", rich_help_panel=TEXTS)
]
Column = Annotated[
    str | None,
    typer.Option(
        help="The column of Parquet with the text. Default: as --field.", rich_help_panel=TEXTS
    ),
]
Encoding = Annotated[
    str, typer.Option(help="The encoding of text files and JSON lines.", rich_help_panel=TEXTS)
]
Rate = Annotated[
    float, typer.Option("--lr", help="The highest learning rate.", rich_help_panel=RATES)
]
RateEnd = Annotated[
    float,
    typer.Option(
        "--lr-end", help="The last learning rate, as a share of --lr.", rich_help_panel=RATES
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        help="Steps on which the learning rate rises. Default: 10, or all of a shorter run.",
        rich_help_panel=RATES,
    ),
]
Decay = Annotated[
    str,
    typer.Option(
        help="How the learning rate falls after that.",
        rich_help_panel=RATES,
        **options.choice("cosine", "linear", "constant"),
    ),
]
WeightDecay = Annotated[
    float, typer.Option(help="AdamW's weight decay of matrices.", rich_help_panel=RATES)
]
Clip = Annotated[
    float,
    typer.Option(help="The norm that a longer gradient is scaled down to.", rich_help_panel=RATES),
]
Dtype = Annotated[
    str,
    typer.Option(
        help="What to compute in; the weights themselves stay fp32. auto: bf16 where they were "
        "stored in 16 bits and a GPU computes it, else fp32.",
        rich_help_panel=COMPUTE,
        **options.choice("auto", "bf16", "fp32"),
    ),
]
Keep = Annotated[
    bool,
    typer.Option(
        "--keep-activations",
        help="Take more memory and less time: compute no block twice.",
        rich_help_panel=COMPUTE,
    ),
]
ATTENTION = (
    "auto", "packed", "sdpa", "flex_attention", "eager", "flash_attention_2", "flash_attention_3",
)  # fmt: skip
"""As `ropewalk.extension.tune.training_settings` has them."""
Attention = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="packed (document by document), sdpa, flex_attention, eager, flash_attention_2 or "
        "flash_attention_3; auto takes packed on a CPU where the model answers alike, else sdpa.",
        autocompletion=options.words(*ATTENTION),
        rich_help_panel=COMPUTE,
    ),
]
Lora = Annotated[
    int | None,
    typer.Option(
        metavar="RANK",
        help="Train adapters of this rank, and nothing else.",
        rich_help_panel=COMPUTE,
    ),
]
Every = Annotated[
    int,
    typer.Option("--checkpoint-every", help="Steps between checkpoints.", rich_help_panel=RUN),
]
Seed = Annotated[int, typer.Option(help="The seed of the order of the rows.", rich_help_panel=RUN)]
Device = Annotated[str, options.device(COMPUTE)]
GateShare = Annotated[
    float | None,
    typer.Option(
        "--gate",
        metavar="SHARE",
        help="Fail where the loss of short text rises by more than this share, like 0.02.",
        rich_help_panel=MEASURED,
    ),
]
GateText = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The short text whose loss is measured. Default: generated text.",
        rich_help_panel=MEASURED,
    ),
]
Prove = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTHS",
        help="Prove these lengths before and after, like 1k,4k.",
        rich_help_panel=MEASURED,
    ),
]
Trials = Annotated[
    int,
    typer.Option(help="Prompts of each length and depth of --prove.", rich_help_panel=MEASURED),
]
ContextParallel = Annotated[
    int,
    typer.Option(help="Processes that share a row; only 1 is there yet.", rich_help_panel=COMPUTE),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="Begin no step that would end after so much training, and write the model.",
        rich_help_panel=RUN,
    ),
]
AsJson = Annotated[bool, options.as_json(MEASURED)]


def tune_command(
    checkpoint: Checkpoint,
    data: Data,
    steps: Steps,
    out: Out,
    length: Length = None,
    rows: Rows = 8,
    at_once: AtOnce = 1,
    mask: Mask = True,
    positions: Positions = "reset",
    cutting: Cutting = "kept",
    boundary: Boundary = None,
    field: Field = "text",
    column: Column = None,
    encoding: Encoding = "utf-8",
    lr: Rate = 2e-5,
    lr_end: RateEnd = 0.1,
    warmup: Warmup = None,
    decay: Decay = "cosine",
    weight_decay: WeightDecay = 0.0,
    clip: Clip = 1.0,
    dtype: Dtype = "auto",
    keep_activations: Keep = False,
    attention: Attention = "auto",
    lora: Lora = None,
    checkpoint_every: Every = 100,
    seed: Seed = 0,
    device: Device = "auto",
    gate: GateShare = None,
    gate_text: GateText = None,
    prove: Prove = None,
    trials: Trials = 5,
    context_parallel: ContextParallel = 1,
    minutes: Minutes = None,
    as_json: AsJson = False,
    html: Html = None,
) -> None:
    """Train a checkpoint on long documents, here or under torchrun, and say what it gained."""
    given: dict[str, Any] = locals()
    del given["as_json"], given["html"]
    from ropewalk.cli.progress import TuneProgress
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
