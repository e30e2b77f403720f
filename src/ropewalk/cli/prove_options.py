"""The options of `ropewalk prove`, as its help prints them: in groups, the most used first.

An option is a parameter of `ropewalk.prove` by its name, and is handed to it as it was typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict

import typer

from ropewalk.cli import options
from ropewalk.cli.completion import models, models_or_diff, several
from ropewalk.cli.pages import Html

GRID, ASKED, MODEL = "Lengths and depths", "What is asked", "The model"
COST, SERVER, RESULTS = "Time and cost", "A model at a server", "Results"
PANELS = (GRID, ASKED, MODEL, COST, SERVER, RESULTS)

TASKS = (
    "single", "many-keys", "many-values", "many-queries", "variables", "common-words",
    "frequent-words", "order", "count", "join", "contradiction", "documents"
)  # fmt: skip
"""As `ropewalk.proof.tasks` has them."""


def _option(panel: str, *names: str, **more: Any) -> Any:
    """An option in a group of the help."""
    return typer.Option(*names, rich_help_panel=panel, **more)


class ProofOptions(TypedDict, total=False):
    """What is asked of which model, and where its answers are kept."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A Hugging Face folder, a .gguf file, a hub id, a known name, or openai:NAME for "
            "a model at a server.",
            autocompletion=models_or_diff,
        ),
    ]
    lengths: Annotated[
        str,
        _option(
            GRID,
            metavar="LENGTHS",
            help="Prompt lengths in tokens, like 2048,8000 or 4k,1M (k = 1024). Default: 1k, "
            "doubled up to the claimed length.",
        ),
    ]
    depths: Annotated[
        str,
        _option(
            GRID,
            metavar="DEPTHS",
            help="Where the fact stands, in percent of the prompt, like 0,25,50,75,100; one whole "
            "number says how many, evenly spaced.",
        ),
        "5",
    ]
    trials: Annotated[
        int,
        _option(
            GRID,
            help="Prompts of each length and depth. Default: 5, or 10 haystacks for branches.",
        ),
    ]
    threshold: Annotated[
        str,
        _option(
            GRID,
            metavar="SHARE",
            help="When a length counts as read: 0.85 is that share of the score at the shortest "
            "length, absolute:0.8 that score itself.",
        ),
        "0.85",
    ]
    until_certain: Annotated[
        bool,
        _option(
            GRID,
            "--until-certain",
            help="Go on with trials at the lengths whose verdict is still open.",
        ),
    ]
    most_trials: Annotated[
        int, _option(GRID, help="Trials that --until-certain gives a length at most. Default: 50.")
    ]
    task: Annotated[
        str,
        _option(
            ASKED,
            "--task",
            metavar="TASKS",
            help=f"What to ask, with commas between: {', '.join(TASKS)}. Default: single.",
            autocompletion=several(*TASKS),
        ),
    ]
    suite: Annotated[
        str,
        _option(
            ASKED,
            "--suite",
            help="A set of tasks instead of --task.",
            **options.choice("quick", "standard", "full"),
        ),
    ]
    documents: Annotated[
        Path, _option(ASKED, help="Your own documents to ask about: a folder of .txt and .md.")
    ]
    questions: Annotated[
        Path,
        _option(
            ASKED,
            help="Questions about --documents: JSON lines with question, answer and document.",
        ),
    ]
    rope: Annotated[
        str,
        _option(
            MODEL,
            metavar="SCHEDULE",
            help="Prove it under another schedule: yarn:2, linear:4, ntk:2, dynamic:2, "
            "base:500000, none.",
        ),
    ]
    haystack: Annotated[
        Path,
        _option(
            ASKED, help="Hide the facts in your own text: a file, or a folder of .txt and .md."
        ),
    ]
    distractors: Annotated[
        int, _option(ASKED, help="Further facts with other keys in each prompt."), 0
    ]
    chat: Annotated[bool, _option(ASKED, help="Ask through the model's own chat template."), False]
    answer_tokens: Annotated[
        str,
        _option(
            ASKED,
            metavar="TOKENS",
            help="Tokens that a chat answer may have, thinking included.",
        ),
        "24",
    ]
    seed: Annotated[int, _option(ASKED, help="The seed of the run's random text."), 0]
    controls: Annotated[int, _option(ASKED, help="Trials of each control prompt."), 1]
    minutes: Annotated[
        float,
        _option(
            COST,
            metavar="MINUTES",
            help="Begin no prompt that would not be answered within this time.",
        ),
    ]
    device: Annotated[str, options.device(MODEL), "auto"]
    device_map: Annotated[
        str,
        _option(
            MODEL,
            metavar="MAP",
            help='Spread the model over devices, as accelerate does: auto, or JSON like \'{"": '
            '"disk"}\'.',
        ),
    ]
    dtype: Annotated[str, options.dtype(MODEL), "auto"]
    sharing: Annotated[
        str,
        _option(
            COST,
            "--sharing",
            help="What prompts share: none; prefix, the same prompts with shared beginnings read "
            "once; or branches, one haystack per trial read once, and each needle in a gap of it. "
            "Default: branches where model and prompts allow it.",
            **options.choice("none", "prefix", "branches"),
        ),
    ]
    calibrate: Annotated[
        str,
        _option(
            COST,
            "--calibrate",
            help="How many branches are also asked by prompts of their own, the longest first. "
            "Default: short where that reads less than branches save.",
            **options.choice("off", "short", "full"),
        ),
    ]
    price: Annotated[
        float,
        _option(
            COST,
            metavar="PRICE",
            help="The price of a million prompt tokens, to say what the run would cost.",
        ),
    ]
    dry_run: Annotated[
        bool, _option(COST, "--dry-run", help="Say what the run would read, and stop.")
    ]
    out: Annotated[
        Path,
        _option(
            RESULTS, metavar="FOLDER", help="The run folder. Default: a new one in ropewalk-runs."
        ),
    ]


class ServerOptions(TypedDict, total=False):
    """How a server is asked."""

    api: Annotated[
        str,
        _option(
            SERVER, help="How the server is asked.", **options.choice("auto", "completions", "chat")
        ),
        "auto",
    ]
    tokenizer: Annotated[
        str,
        _option(
            SERVER,
            metavar="MODEL",
            help="The model or folder whose tokenizer counts the server's tokens exactly.",
            autocompletion=models,
        ),
    ]
    concurrency: Annotated[int, _option(SERVER, help="Requests under way at each server.")]
    requests_per_minute: Annotated[
        float,
        _option(
            SERVER,
            "--requests-per-minute",
            help="Requests a minute at most, of all servers together.",
        ),
    ]
    tokens_per_minute: Annotated[
        float,
        _option(
            SERVER, "--tokens-per-minute", help="Tokens a minute at most, of all servers together."
        ),
    ]
    timeout: Annotated[
        float,
        _option(SERVER, metavar="SECONDS", help="How long a server may take for an answer."),
        600.0,
    ]
    salt: Annotated[
        bool,
        _option(
            SERVER,
            "--salt",
            help="Put a random first line before every prompt, so that no cache of the "
            "server helps.",
        ),
    ]


class ResultOptions(TypedDict):
    """Where servers are, and where results go."""

    base_url: Annotated[
        list[str] | None,
        _option(
            SERVER,
            "--base-url",
            metavar="URL",
            help="Where an openai: model is served, like http://127.0.0.1:8080/v1. Given again, "
            "the servers share the prompts.",
        ),
    ]
    as_json: Annotated[bool, options.as_json(RESULTS)]
    csv: Annotated[
        Path | None, _option(RESULTS, metavar="FILE", help="Also write every answer to this file.")
    ]
    html: Html
