"""`ropewalk prove diff A B`: two run folders compared on the prompts that both asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.output import print_result

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
    from ropewalk.report import document_of
    from ropewalk.report import html as page_of

    if run_a.absolute() == run_b.absolute():
        raise UsageError(f"{run_a} is given twice; name two run folders to compare")
    if seed < 0:
        raise UsageError(f"--seed {seed} is impossible: 0 or more can be")
    found = compare(KeptRun.read(run_a), KeptRun.read(run_b), seed)
    print_result(found, as_json=as_json)
    if html is not None:
        write_whole(html, page_of(document_of(found)))
