"""The options of `ropewalk prove`, as its help prints them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from ropewalk.errors import UsageError

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A Hugging Face folder, a .gguf file, a hub id, a known name, or openai:NAME for a "
        "model at a server.",
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        help="Tokens, like 2048,8000 or 4k,32k (k = 1024). Default: 1k doubling to the claim."
    ),
]
Depths = Annotated[
    str, typer.Option(help="Percents, like 0,25,50,75,100, or how many, evenly spaced.")
]
Trials = Annotated[
    int | None,
    typer.Option(help="Prompts of each length and depth. Default: 5, or 10 documents if nested."),
]
Threshold = Annotated[
    str,
    typer.Option(
        help="0.85: that share of the score at the shortest length. absolute:0.8: that score."
    ),
]
Rope = Annotated[
    str | None,
    typer.Option(help="Another schedule: yarn:2, linear:4, ntk:2, dynamic:2, base:500000, none."),
]
Haystack = Annotated[
    Path | None, typer.Option(help="Your own text: a file, or a folder of .txt and .md.")
]
Distractors = Annotated[int, typer.Option(help="Further needles with other keys.")]
TaskNames = Annotated[
    str | None,
    typer.Option("--task", help="What to ask: single, many-keys, variables, ...; with commas."),
]
SuiteName = Annotated[
    str | None, typer.Option("--suite", help="A set of tasks: quick, standard or full.")
]
Documents = Annotated[
    Path | None, typer.Option(help="Your own documents to ask about, a folder of .txt and .md.")
]
Questions = Annotated[
    Path | None,
    typer.Option(help="Questions about them: JSONL with question, answer and document."),
]
Until = Annotated[
    bool,
    typer.Option("--until-certain", help="Go on with trials where the verdict is still open."),
]
MostTrials = Annotated[
    int | None, typer.Option(help="Trials that --until-certain gives a length at most: 50.")
]
Chat = Annotated[bool, typer.Option(help="Ask through the model's own chat template.")]
AnswerTokens = Annotated[
    str, typer.Option(help="Tokens kept for a chat answer, thinking included.")
]
Seed = Annotated[int, typer.Option(help="Names the random text of the run.")]
Controls = Annotated[int, typer.Option(help="Trials of each control prompt.")]
Minutes = Annotated[
    float | None, typer.Option(help="Begin no prompt that would not be answered by then.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        help='Spread the model over devices: auto, or JSON like \'{"": "disk"}\' (accelerate).'
    ),
]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Share = Annotated[
    str | None,
    typer.Option(
        "--sharing",
        help="none, prefix (the same prompts, shared beginnings read once) or nested (one document "
        "a trial for all lengths and depths). Default: nested where model and prompts allow it.",
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        help="Nested prompts that are asked by themselves too: off, short or full. Default: short "
        "where that reads less than nesting saves.",
    ),
]
Price = Annotated[
    float | None, typer.Option(help="Of a million prompt tokens, to say what the run would cost.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what the run would read, and stop.")]
Out = Annotated[
    Path | None, typer.Option(help="The run folder; by default one below ropewalk-runs.")
]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        help="Where an openai: model is served, like http://127.0.0.1:8080/v1; several share.",
    ),
]
Api = Annotated[str, typer.Option(help="For a server: completions, chat, or auto.")]
Tokenizer = Annotated[
    str | None,
    typer.Option(help="For a server: the model, or folder, whose tokenizer counts exactly."),
]
Concurrency = Annotated[int | None, typer.Option(help="Requests under way at each server.")]
RequestRate = Annotated[
    float | None, typer.Option("--requests-per-minute", help="At most, of all servers together.")
]
TokenRate = Annotated[
    float | None, typer.Option("--tokens-per-minute", help="At most, of all servers together.")
]
Timeout = Annotated[float, typer.Option(help="Seconds that a server may take for an answer.")]
Salt = Annotated[
    bool, typer.Option("--salt", help="A random first line before every prompt: no cache helps.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the map.")]
Csv = Annotated[Path | None, typer.Option(help="Also write every answer to this file.")]


def seconds_of(minutes: float) -> float:
    """The seconds of --minutes. Raises UsageError for no time, or for ever."""
    if not (math.isfinite(minutes) and minutes > 0):
        raise UsageError(f"--minutes {minutes:g} is impossible: give a time above 0, like 10")
    return 60 * minutes
