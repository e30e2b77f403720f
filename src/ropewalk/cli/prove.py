"""`ropewalk prove MODEL`: what a model still finds, at every length and depth."""

from __future__ import annotations

import math
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ropewalk.errors import UsageError

if TYPE_CHECKING:
    from ropewalk.prove.session import Proof, ProofSettings
    from ropewalk.prove.subjects.endpoint.settings import EndpointSettings

Choice = TypeVar("Choice", bound=StrEnum)

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

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
Trials = Annotated[int, typer.Option(help="Prompts of each length and depth.")]
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
Chat = Annotated[bool, typer.Option(help="Ask through the model's own chat template.")]
AnswerTokens = Annotated[
    int, typer.Option(help="Tokens kept for a chat answer, thinking included.")
]
Seed = Annotated[int, typer.Option(help="Names the random text of the run.")]
Controls = Annotated[int, typer.Option(help="Trials of each control prompt.")]
Minutes = Annotated[
    float | None, typer.Option(help="Begin no prompt that would not be answered by then.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, mps, or auto.")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
Share = Annotated[
    str,
    typer.Option(
        "--sharing",
        help="none, prefix (the same prompts, shared beginnings read once) or nested (one document "
        "a trial for all lengths and depths).",
    ),
]
Calibration = Annotated[
    str,
    typer.Option(
        "--calibrate", help="Nested prompts that are asked by themselves too: off, short or full."
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
_MANNERS = (
    "api",
    "tokenizer",
    "concurrency",
    "requests_per_minute",
    "tokens_per_minute",
    "timeout",
    "salt",
)
"""What `ropewalk.prove.subjects.endpoint.settings` calls the options for a server, in order."""
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the map.")]
Csv = Annotated[Path | None, typer.Option(help="Also write every answer to this file.")]


def prove_command(
    model: Model,
    lengths: Lengths = None,
    depths: Depths = "5",
    trials: Trials = 5,
    threshold: Threshold = "0.85",
    rope: Rope = None,
    haystack: Haystack = None,
    distractors: Distractors = 0,
    chat: Chat = False,
    answer_tokens: AnswerTokens = 24,
    seed: Seed = 0,
    controls: Controls = 1,
    minutes: Minutes = None,
    device: Device = "auto",
    dtype: Dtype = "float32",
    sharing: Share = "none",
    calibrate: Calibration = "short",
    price: Price = None,
    dry_run: DryRun = False,
    base_url: BaseUrls = None,
    api: Api = "auto",
    tokenizer: Tokenizer = None,
    concurrency: Concurrency = None,
    requests_per_minute: RequestRate = None,
    tokens_per_minute: TokenRate = None,
    timeout: Timeout = 600.0,
    salt: Salt = False,
    out: Out = None,
    as_json: AsJson = False,
    csv: Csv = None,
) -> None:
    """Prove a model: ask for one hidden fact at every length and depth, and count."""
    from ropewalk.prove.calibration import Calibrate
    from ropewalk.prove.cells import Sharing
    from ropewalk.prove.plan import parse_depths, parse_lengths
    from ropewalk.prove.session import RUNS, ProofSettings
    from ropewalk.prove.statistics import parse_threshold

    given = (api, tokenizer, concurrency, requests_per_minute, tokens_per_minute, timeout, salt)
    endpoint = endpoint_settings(model, base_url, **dict(zip(_MANNERS, given, strict=True)))
    settings = ProofSettings(
        model=model,
        lengths=() if lengths is None else parse_lengths(lengths),
        depths=parse_depths(depths),
        trials=trials,
        threshold=parse_threshold(threshold),
        rope=rope,
        haystack=haystack,
        distractors=distractors,
        chat=chat,
        answer_tokens=answer_tokens,
        seed=seed,
        controls=controls,
        device=device,
        dtype=dtype,
        sharing=one_of(Sharing, sharing, "--sharing"),
        calibrate=one_of(Calibrate, calibrate, "--calibrate"),
        price=price,
        dry_run=dry_run,
        out=out,
        seconds=None if minutes is None else _seconds(minutes),
        command=shlex.join(["ropewalk", *sys.argv[1:]]),
        endpoint=endpoint,
    )
    # Asked before the work of minutes or hours rather than after it.
    check_can_hold(out or RUNS, "--out")
    if csv is not None:
        if csv.is_dir():
            raise UsageError(f"--csv {csv} is a folder; name a file in it")
        if not csv.absolute().parent.exists():
            raise UsageError(f"--csv {csv}: there is no folder {csv.parent}; make it first")
        check_can_hold(csv.absolute().parent, "--csv")
    proof = run_with_progress(settings)
    show_results(proof, as_json=as_json, csv=csv)
    if proof.result.interrupted:
        raise typer.Exit(INTERRUPTED)


def endpoint_settings(
    model: str, base_urls: list[str] | None, **manners: Any
) -> EndpointSettings | None:
    """How servers are to be asked; None for a model that is run here.

    Without --base-url the address is OPENAI_BASE_URL's, as for every program with OpenAI's
    client. Raises UsageError for what cannot be, and for manners where there is no server.
    """
    from ropewalk.prove.subjects.endpoint.settings import PREFIX, EndpointSettings

    if not model.startswith(PREFIX):
        usual = EndpointSettings(("http://localhost/v1",))
        changed = [name for name, value in manners.items() if value != getattr(usual, name)]
        for name in ["base_url"] * bool(base_urls) + changed:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} goes with a model at a server, like {PREFIX}NAME")
        return None
    given = tuple(base_urls or filter(None, [os.environ.get("OPENAI_BASE_URL")]))
    return EndpointSettings(given, **manners)


def one_of(kind: type[Choice], text: str, option: str) -> Choice:
    """The member of an enumeration that a user names. Raises UsageError for any other name."""
    try:
        return kind(text)
    except ValueError:
        known = ", ".join(kind)
        raise UsageError(f"{option} {text!r} is not known; choose one of {known}") from None


def check_can_hold(folder: Path, option: str) -> None:
    """Raise UsageError unless `folder`, or the nearest folder above it, can be written in."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"{option}: {place} is a file, and no folder; choose another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{option}: {place} cannot be written in; choose another place")


def _seconds(minutes: float) -> float:
    if not (math.isfinite(minutes) and minutes > 0):
        raise UsageError(f"--minutes {minutes:g} is impossible: give a time above 0, like 10")
    return 60 * minutes


def run_with_progress(settings: ProofSettings) -> Proof:
    """Run a proof with a bar on stderr. Ctrl-C before there is anything to show exits."""
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.prove.session import DryRun, Listener, prove

    try:
        with ProofProgress() as progress:
            listener = Listener(
                progress.say, progress.share, progress.planned, progress.note, progress.event
            )
            return prove(settings, listener)
    except DryRun:
        raise typer.Exit from None
    except KeyboardInterrupt:
        typer.echo("interrupted before the first prompt", err=True)
        raise typer.Exit(INTERRUPTED) from None


def show_results(proof: Proof, *, as_json: bool, csv: Path | None) -> None:
    """Print the map or the JSON document, write CSV and HTML report, and say what is missing.

    Files come last: should the disk be full, the result has been seen.
    """
    from ropewalk.files import write_whole
    from ropewalk.prove.export import rows_to_csv
    from ropewalk.report.run_folder import write_report

    if as_json:
        import json

        from ropewalk.prove.export import run_to_json

        typer.echo(json.dumps(run_to_json(proof.summary, proof.rows), indent=2, allow_nan=False))
    else:
        from rich.console import Console

        from ropewalk.report.prove_text import print_proof

        print_proof(Console(highlight=False), proof.summary)
    if csv is not None:
        write_whole(csv, rows_to_csv(proof.rows))
    typer.echo(f"report: {write_report(proof)}", err=as_json)
    if proof.result.interrupted or proof.result.out_of_time:
        done, total = proof.result.done, proof.result.done + proof.result.remaining
        why = "interrupted" if proof.result.interrupted else "out of time"
        typer.echo(f"{why}: {done} of {total} answers are kept; the same command goes on", err=True)
