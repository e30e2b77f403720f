"""`ropewalk prove MODEL`: what a model still finds, at every length and depth."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ropewalk.cli import prove_options as o
from ropewalk.cli.output import print_result, show_path, tell
from ropewalk.cli.typed import part, with_options
from ropewalk.errors import INTERRUPTED
from ropewalk.files import check_can_hold, check_file

if TYPE_CHECKING:
    from ropewalk.proof.prove import Proof
    from ropewalk.proof.settings import ProofSettings


@with_options(o.ProofOptions, o.ResultOptions, o.ServerOptions, panels=o.PANELS)
def prove_command(**given: Any) -> None:
    """Prove a model: ask for hidden facts at every length and depth, and count.

    This is the needle-in-a-haystack test, with intervals.
    """
    from ropewalk.proof.endpoint.subject import endpoint_settings
    from ropewalk.proof.settings import ProofSettings

    servers = part(given, o.ServerOptions)
    settings = ProofSettings(
        **part(given, o.ProofOptions),
        command=shlex.join(["ropewalk", *sys.argv[1:]]),
        endpoint=endpoint_settings(given["model"], given["base_urls"], **servers),
    )
    prove_and_show(settings, as_json=given["as_json"], csv=given["csv"], html=given["html"])


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


def check_places(out: Path | None, csv: Path | None) -> None:
    """Raise UsageError for places that cannot be written: before the work rather than after it."""
    from ropewalk.proof.settings import RUNS

    check_can_hold(out or RUNS, "--out")
    if csv is not None:
        check_file(csv, "--csv")


def run_with_progress(settings: ProofSettings) -> Proof:
    """Run a proof with a bar on stderr. Ctrl-C before there is anything to show exits."""
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.proof.prove import DryRun, prove

    try:
        with ProofProgress() as progress:
            return prove(settings, progress.listener())
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

    print_result(proof, as_json=as_json)
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
    from ropewalk.report.prompts import write_report

    report = write_report(proof)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, report.read_text(encoding="utf-8"))
