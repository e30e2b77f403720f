"""The options of `ropewalk tune`, as its help prints them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    str | None,
    typer.Option(
        help="Tokens of a row: 4096 or 4k, or several with weights: 4096:3,1024:1. Default: as "
        "many as the checkpoint claims to read."
    ),
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
Field = Annotated[str, typer.Option(help="The text of a JSON record.")]
Column = Annotated[str | None, typer.Option(help="The text in Parquet. Default: as --field.")]
Encoding = Annotated[str, typer.Option(help="Of text files and JSON lines.")]
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
    str,
    typer.Option(
        help="packed (document by document), sdpa, flex_attention, eager, flash_attention_2 or "
        "flash_attention_3; auto takes packed on a CPU where the model answers alike, else sdpa."
    ),
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
Minutes = Annotated[
    float | None,
    typer.Option(help="Of training: begin no step that would end later, and write the model."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
