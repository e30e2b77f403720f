"""`ropewalk prove MODEL`: what a model still finds, at every length and depth."""

from __future__ import annotations

import json
import os
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ropewalk.cli import prove_options as o
from ropewalk.cli.output import console, show_path, tell
from ropewalk.cli.pages import Html
from ropewalk.cli.places import check_can_hold, check_file
from ropewalk.errors import INTERRUPTED, UsageError

if TYPE_CHECKING:
    from ropewalk.proof.endpoint.subject import EndpointSettings
    from ropewalk.proof.prove import Proof, ProofSettings

Choice = TypeVar("Choice", bound=StrEnum)

DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""What accelerate calls its own ways to spread a model."""


def prove_command(
    model: o.Model,
    lengths: o.Lengths = None,
    depths: o.Depths = "5",
    trials: o.Trials = None,
    threshold: o.Threshold = "0.85",
    until_certain: o.Until = False,
    most_trials: o.MostTrials = None,
    task: o.TaskNames = None,
    suite: o.SuiteName = None,
    documents: o.Documents = None,
    questions: o.Questions = None,
    rope: o.Rope = None,
    haystack: o.Haystack = None,
    distractors: o.Distractors = 0,
    chat: o.Chat = False,
    answer_tokens: o.AnswerTokens = "24",
    seed: o.Seed = 0,
    controls: o.Controls = 1,
    minutes: o.Minutes = None,
    device: o.Device = "auto",
    device_map: o.DeviceMap = None,
    dtype: o.Dtype = "auto",
    sharing: o.Share = None,
    calibrate: o.Calibration = None,
    price: o.Price = None,
    dry_run: o.DryRun = False,
    base_url: o.BaseUrls = None,
    api: o.Api = "auto",
    tokenizer: o.Tokenizer = None,
    concurrency: o.Concurrency = None,
    requests_per_minute: o.RequestRate = None,
    tokens_per_minute: o.TokenRate = None,
    timeout: o.Timeout = 600.0,
    salt: o.Salt = False,
    out: o.Out = None,
    as_json: o.AsJson = False,
    csv: o.Csv = None,
    html: Html = None,
) -> None:
    """Prove a model: ask for hidden facts at every length and depth, and count."""
    from ropewalk.proof.prove import ProofSettings

    settings = ProofSettings(
        model=model, rope=rope, seed=seed, controls=controls, out=out,
        **_grid(lengths, depths, trials, threshold),
        **_further(until_certain, most_trials),
        **_asked(task, suite, documents, questions),
        **_spent(minutes, sharing, calibrate, price, dry_run),
        **_held(device, device_map, dtype), **_worded(chat, answer_tokens),
        haystack=haystack, distractors=distractors,
        command=shlex.join(["ropewalk", *sys.argv[1:]]),
        endpoint=endpoint_settings(
            model, base_url, api=api, tokenizer=tokenizer, concurrency=concurrency,
            requests_per_minute=requests_per_minute, tokens_per_minute=tokens_per_minute,
            timeout=timeout, salt=salt,
        ),
    )  # fmt: skip
    prove_and_show(settings, as_json=as_json, csv=csv, html=html)


def prove_and_show(
    settings: ProofSettings,
    *,
    as_json: bool = False,
    csv: Path | None = None,
    html: Path | None = None,
) -> None:
    """The whole command behind its options. Exits with INTERRUPTED after Ctrl-C."""
    check_places(settings.out, csv)
    proof = run_with_progress(settings)
    show_results(proof, as_json=as_json, csv=csv, html=html)
    if proof.result.interrupted:
        raise typer.Exit(INTERRUPTED)


def _grid(lengths: str | None, depths: str, trials: int | None, threshold: str) -> dict[str, Any]:
    from ropewalk.proof.plan import parse_depths, parse_lengths
    from ropewalk.proof.statistics import parse_threshold

    return {
        "lengths": () if lengths is None else parse_lengths(lengths),
        "depths": parse_depths(depths),
        "trials": trials,
        "threshold": parse_threshold(threshold),
    }


def _further(until_certain: bool, most_trials: int | None) -> dict[str, Any]:
    from ropewalk.proof.settings import MOST_TRIALS, UntilCertain

    if not until_certain:
        if most_trials is not None:
            raise UsageError("--most-trials goes with --until-certain")
        return {}
    return {"until_certain": UntilCertain(MOST_TRIALS if most_trials is None else most_trials)}


def _asked(
    task: str | None, suite: str | None, documents: Path | None, questions: Path | None
) -> dict[str, Any]:
    from ropewalk.proof.tasks.suite import parse_tasks
    from ropewalk.proof.tasks.suite import suite as suite_of

    if task is not None and suite is not None:
        raise UsageError("--task and --suite both say what to ask: give one of them")
    if task is not None:
        tasks = parse_tasks(task)
    elif suite is not None:
        tasks = suite_of(suite)
    else:
        # Own documents alone, where nothing else was asked for; else what the model's files name.
        tasks = () if documents is None else ("documents",)
    return {"tasks": tasks, "documents": documents, "questions": questions}


def _spent(
    minutes: float | None,
    sharing: str | None,
    calibrate: str | None,
    price: float | None,
    dry_run: bool,
) -> dict[str, Any]:
    from ropewalk.proof.calibration import Calibrate
    from ropewalk.proof.cells import Sharing

    return {
        "seconds": None if minutes is None else o.seconds_of(minutes),
        "sharing": None if sharing is None else one_of(Sharing, sharing, "--sharing"),
        "calibrate": None if calibrate is None else one_of(Calibrate, calibrate, "--calibrate"),
        "price": price,
        "dry_run": dry_run,
    }


def _worded(chat: bool, answer_tokens: str) -> dict[str, Any]:
    from ropewalk.lengths import parse_length

    return {"chat": chat, "answer_tokens": parse_length(answer_tokens, "--answer-tokens")}


def _held(device: str, device_map: str | None, dtype: str) -> dict[str, Any]:
    spread = None if device_map is None else read_device_map(device_map)
    return {"device": device, "device_map": spread, "dtype": dtype}


def read_device_map(text: str) -> str | dict[str, str | int]:
    """What accelerate takes: one of its words, or a JSON object. Raises UsageError."""
    if text in DEVICE_MAPS:
        return text
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not given:
        raise UsageError(
            f"--device-map {text!r} is not understood: write one of {', '.join(DEVICE_MAPS)}, or "
            'a JSON object of modules and devices, like {"": "cpu"}'
        )
    for module, device in given.items():
        if isinstance(device, bool) or not isinstance(device, str | int):
            raise UsageError(
                f"--device-map puts {module!r} on {device!r}: a device is a number or a name"
            )
    return given


def check_places(out: Path | None, csv: Path | None) -> None:
    """Raise UsageError for places that cannot be written: before the work rather than after it."""
    from ropewalk.proof.prove import RUNS

    check_can_hold(out or RUNS, "--out")
    if csv is not None:
        check_file(csv, "--csv")


def endpoint_settings(
    model: str, base_urls: list[str] | None, **manners: Any
) -> EndpointSettings | None:
    """How servers are to be asked; None for a model that is run here.

    Without --base-url the address is OPENAI_BASE_URL's, as for every program with OpenAI's
    client. Raises UsageError for what cannot be, and for manners where there is no server.
    """
    from ropewalk.proof.endpoint.subject import PREFIX, EndpointSettings

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


def run_with_progress(settings: ProofSettings) -> Proof:
    """Run a proof with a bar on stderr. Ctrl-C before there is anything to show exits."""
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.proof.prove import DryRun, ProofListener, prove

    try:
        with ProofProgress() as progress:
            listener = ProofListener(
                progress.say, progress.share, progress.planned, progress.note, progress.event
            )
            return prove(settings, listener)
    except DryRun:
        raise typer.Exit from None
    except KeyboardInterrupt:
        tell("interrupted before the first prompt")
        raise typer.Exit(INTERRUPTED) from None


def show_results(
    proof: Proof, *, as_json: bool, csv: Path | None, html: Path | None = None
) -> None:
    """Print the map or the JSON document, write CSV and HTML report, and say what is missing.

    Files come last: should the disk be full, the result has been seen.
    """
    from ropewalk.files import write_whole
    from ropewalk.proof.export import rows_to_csv

    if as_json:
        from ropewalk.proof.export import run_to_json

        document = run_to_json(proof.summary, proof.rows, proof.tasks)
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
    else:
        from ropewalk.report.task_text import print_tasks

        print_tasks(console(), proof.tasks or {"single": proof.summary})
    if csv is not None:
        write_whole(csv, rows_to_csv(proof.rows))
    write_pages(proof, html, as_json=as_json)
    if proof.result.interrupted or proof.result.out_of_time:
        done, total = proof.result.done, proof.result.done + proof.result.remaining
        why = "interrupted" if proof.result.interrupted else "out of time"
        tell(f"{why}: {done} of {total} answers are kept; the same command goes on")


def write_pages(proof: Proof, html: Path | None, *, as_json: bool) -> None:
    """The report into the run folder, and where `html` says, and say where they are."""
    from ropewalk.files import write_whole
    from ropewalk.report.run_folder import write_report

    report = write_report(proof)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, report.read_text(encoding="utf-8"))
