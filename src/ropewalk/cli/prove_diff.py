"""`ropewalk prove diff A B`: two run folders compared on the prompts that both asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.output import columns

RunA = Annotated[Path, typer.Argument(metavar="RUN_A", help="A run folder of ropewalk prove.")]
RunB = Annotated[Path, typer.Argument(metavar="RUN_B", help="Another, asked the same prompts.")]
Html = Annotated[Path | None, typer.Option(help="Also write the comparison to this file.")]
Seed = Annotated[int, typer.Option(help="Draws the sign flips of the tests.")]


def prove_diff_command(
    run_a: RunA,
    run_b: RunB,
    html: Html = None,
    seed: Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Compare two proofs on the same prompts: schedules, checkpoints or servers."""
    from ropewalk.errors import UsageError
    from ropewalk.files import write_whole
    from ropewalk.proof.diff import KeptRun, compare
    from ropewalk.report.prove_diff import diff_html, diff_json, diff_lines

    if run_a.absolute() == run_b.absolute():
        raise UsageError(f"{run_a} is given twice; name two run folders to compare")
    if seed < 0:
        raise UsageError(f"--seed {seed} is impossible: 0 or more can be")
    found = compare(KeptRun.read(run_a), KeptRun.read(run_b), seed)
    if as_json:
        import json

        typer.echo(json.dumps(diff_json(found), indent=2, allow_nan=False))
    else:
        for line in diff_lines(found, columns()):
            typer.echo(line)
    if html is not None:
        write_whole(html, diff_html(found))
