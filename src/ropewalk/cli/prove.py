"""`ropewalk prove MODEL`: what a model still finds, at every length and depth."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ropewalk.cli import prove_options as o
from ropewalk.cli.output import print_result, show_path, tell
from ropewalk.cli.typed import with_options
from ropewalk.errors import INTERRUPTED
from ropewalk.files import check_file

if TYPE_CHECKING:
    from ropewalk.proof.prove import Proof


@with_options(o.ProofOptions, o.ResultOptions, o.ServerOptions, panels=o.PANELS)
def prove_command(**given: Any) -> None:
    """Prove a model: ask for hidden facts at every length and depth, and count.

    This is the needle-in-a-haystack test, with intervals.
    """
    from ropewalk.verbs.proving import prove

    as_json, csv, html = (given.pop(name) for name in ("as_json", "csv", "html"))
    if csv is not None:
        check_file(csv, "--csv")
    asked = partial(prove, **given, command=shlex.join(["ropewalk", *sys.argv[1:]]))
    show_results(run_with_progress(asked), as_json=as_json, csv=csv, html=html)


def run_with_progress(asked: Callable[..., Proof]) -> Proof:
    """Run a proof with a bar on stderr. Ctrl-C before there is anything to show exits."""
    from ropewalk.cli.progress import ProofProgress
    from ropewalk.proof.prove import DryRun

    try:
        with ProofProgress() as progress:
            return asked(listener=progress.listener())
    except DryRun:
        raise typer.Exit from None
    except KeyboardInterrupt:
        tell("interrupted before the first prompt")
        raise typer.Exit(INTERRUPTED) from None


def show_results(
    proof: Proof, *, as_json: bool = False, csv: Path | None = None, html: Path | None = None
) -> None:
    """Print the map or the JSON document, write CSV and HTML report, and say what is missing.

    Files come last: should the disk be full, the result has been seen. Exits with INTERRUPTED
    after Ctrl-C.
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
    if proof.result.interrupted:
        raise typer.Exit(INTERRUPTED)


def write_pages(proof: Proof, html: Path | None, *, as_json: bool) -> None:
    """The report into the run folder, and where `html` says, and say where they are."""
    from ropewalk.files import write_whole
    from ropewalk.report.prompts import write_report

    report = write_report(proof)
    (tell if as_json else show_path)(f"report: {report}")
    if html is not None:
        write_whole(html, report.read_text(encoding="utf-8"))
