"""The options of `ropewalk prove`, as its help prints them: in groups, the most used first."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.completion import models, models_or_diff, several
from ropewalk.errors import UsageError

GRID = "Lengths and depths"
ASKED = "What is asked"
MODEL = "The model"
COST = "Time and cost"
SERVER = "A model at a server"
RESULTS = "Results"

TASKS = (
    "single", "many-keys", "many-values", "many-queries", "variables", "common-words",
    "frequent-words", "order", "count", "join", "contradiction", "documents",
)  # fmt: skip
"""As `ropewalk.proof.tasks` has them."""

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A Hugging Face folder, a .gguf file, a hub id, a known name, or openai:NAME for a "
        "model at a server.",
        autocompletion=models_or_diff,
    ),
]
Lengths = Annotated[
    str | None,
    typer.Option(
        metavar="LENGTHS",
        help="Prompt lengths in tokens, like 2048,8000 or 4k,1M (k = 1024). Default: 1k, doubled "
        "up to the claimed length.",
        rich_help_panel=GRID,
    ),
]
Depths = Annotated[
    str,
    typer.Option(
        metavar="DEPTHS",
        help="Where the fact stands, in percent of the prompt, like 0,25,50,75,100; one whole "
        "number says how many, evenly spaced.",
        rich_help_panel=GRID,
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        help="Prompts of each length and depth. Default: 5, or 10 documents where prompts are "
        "nested.",
        rich_help_panel=GRID,
    ),
]
Threshold = Annotated[
    str,
    typer.Option(
        metavar="SHARE",
        help="When a length counts as read: 0.85 is that share of the score at the shortest "
        "length, absolute:0.8 that score itself.",
        rich_help_panel=GRID,
    ),
]
Rope = Annotated[
    str | None,
    typer.Option(
        metavar="SCHEDULE",
        help="Prove it under another schedule: yarn:2, linear:4, ntk:2, dynamic:2, base:500000, "
        "none.",
        rich_help_panel=MODEL,
    ),
]
Haystack = Annotated[
    Path | None,
    typer.Option(
        help="Hide the facts in your own text: a file, or a folder of .txt and .md.",
        rich_help_panel=ASKED,
    ),
]
Distractors = Annotated[
    int, typer.Option(help="Further facts with other keys in each prompt.", rich_help_panel=ASKED)
]
TaskNames = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASKS",
        help=f"What to ask, with commas between: {', '.join(TASKS)}. Default: single.",
        autocompletion=several(*TASKS),
        rich_help_panel=ASKED,
    ),
]
SuiteName = Annotated[
    str | None,
    typer.Option(
        "--suite",
        help="A set of tasks instead of --task.",
        rich_help_panel=ASKED,
        **options.choice("quick", "standard", "full"),
    ),
]
Documents = Annotated[
    Path | None,
    typer.Option(
        help="Your own documents to ask about: a folder of .txt and .md.", rich_help_panel=ASKED
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option(
        help="Questions about --documents: JSON lines with question, answer and document.",
        rich_help_panel=ASKED,
    ),
]
Until = Annotated[
    bool,
    typer.Option(
        "--until-certain",
        help="Go on with trials at the lengths whose verdict is still open.",
        rich_help_panel=GRID,
    ),
]
MostTrials = Annotated[
    int | None,
    typer.Option(
        help="Trials that --until-certain gives a length at most. Default: 50.",
        rich_help_panel=GRID,
    ),
]
Chat = Annotated[
    bool,
    typer.Option(help="Ask through the model's own chat template.", rich_help_panel=ASKED),
]
AnswerTokens = Annotated[
    str,
    typer.Option(
        metavar="TOKENS",
        help="Tokens that a chat answer may have, thinking included.",
        rich_help_panel=ASKED,
    ),
]
Seed = Annotated[
    int, typer.Option(help="The seed of the run's random text.", rich_help_panel=ASKED)
]
Controls = Annotated[
    int, typer.Option(help="Trials of each control prompt.", rich_help_panel=ASKED)
]
Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="Begin no prompt that would not be answered within this time.",
        rich_help_panel=COST,
    ),
]
Device = Annotated[str, options.device(MODEL)]
DeviceMap = Annotated[
    str | None,
    typer.Option(
        metavar="MAP",
        help='Spread the model over devices, as accelerate does: auto, or JSON like \'{"": '
        '"disk"}\'.',
        rich_help_panel=MODEL,
    ),
]
Dtype = Annotated[str, options.dtype(MODEL)]
Share = Annotated[
    str | None,
    typer.Option(
        "--sharing",
        help="What prompts share: none; prefix, the same prompts with shared beginnings read once; "
        "or nested, one document a trial for all lengths and depths. Default: nested where model "
        "and prompts allow it.",
        rich_help_panel=COST,
        **options.choice("none", "prefix", "nested"),
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibrate",
        help="How many nested prompts are also asked by themselves. Default: short where that "
        "reads less than nesting saves.",
        rich_help_panel=COST,
        **options.choice("off", "short", "full"),
    ),
]
Price = Annotated[
    float | None,
    typer.Option(
        metavar="PRICE",
        help="The price of a million prompt tokens, to say what the run would cost.",
        rich_help_panel=COST,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Say what the run would read, and stop.", rich_help_panel=COST),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="The run folder. Default: a new one in ropewalk-runs.",
        rich_help_panel=RESULTS,
    ),
]
BaseUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Where an openai: model is served, like http://127.0.0.1:8080/v1. Given again, the "
        "servers share the prompts.",
        rich_help_panel=SERVER,
    ),
]
Api = Annotated[
    str,
    typer.Option(
        help="How the server is asked.",
        rich_help_panel=SERVER,
        **options.choice("auto", "completions", "chat"),
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model or folder whose tokenizer counts the server's tokens exactly.",
        autocompletion=models,
        rich_help_panel=SERVER,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(help="Requests under way at each server.", rich_help_panel=SERVER),
]
RequestRate = Annotated[
    float | None,
    typer.Option(
        "--requests-per-minute",
        help="Requests a minute at most, of all servers together.",
        rich_help_panel=SERVER,
    ),
]
TokenRate = Annotated[
    float | None,
    typer.Option(
        "--tokens-per-minute",
        help="Tokens a minute at most, of all servers together.",
        rich_help_panel=SERVER,
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="How long a server may take for an answer.",
        rich_help_panel=SERVER,
    ),
]
Salt = Annotated[
    bool,
    typer.Option(
        "--salt",
        help="Put a random first line before every prompt, so that no cache of the server helps.",
        rich_help_panel=SERVER,
    ),
]
AsJson = Annotated[bool, options.as_json(RESULTS)]
Csv = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also write every answer to this file.", rich_help_panel=RESULTS
    ),
]


def seconds_of(minutes: float) -> float:
    """The seconds of --minutes. Raises UsageError for no time, or for ever."""
    if not (math.isfinite(minutes) and minutes > 0):
        raise UsageError(f"--minutes {minutes:g} is impossible: give a time above 0, like 10")
    return 60 * minutes
