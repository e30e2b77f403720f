"""`ropewalk demo`: audit and proof of a real model in up to four minutes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.pages import Html
from ropewalk.report.document import Block, Prose, ToCopy

if TYPE_CHECKING:
    from ropewalk.findings import Audit
    from ropewalk.proof.prove import Proof

SECONDS = 230.0
"""A slower machine asks fewer haystacks, and leaves the longest lengths out, rather than take more
than four minutes."""
LENGTHS = (512, 1024, 2048, 4096, 8192, 12288)
DEPTHS = 5

NEXT = (
    ("ropewalk demo --full", "a small model stretched and tuned"),
    ("ropewalk prove smollm2 --lengths 2k,12k --minutes 5", "fewer lengths, more answers"),
    ("ropewalk prove smollm2 --lengths 2k,12k --rope yarn:2", "with another schedule"),
    ("ropewalk audit PATH", "what another model's files say"),
    ("ropewalk prove PATH", "what another model finds"),
)
"""Commands to copy, and what they show."""


def demo_command(
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="The embedded model instead: proved, stretched, tuned, proved again."
        ),
    ] = False,
    as_json: options.AsJson = False,
    html: Html = None,
) -> None:
    """Audit and prove SmolLM2-135M-Instruct, from its GGUF file to a heat map and a report."""
    if full:
        from ropewalk.cli.story import tell_story

        tell_story(as_json=as_json, html=html)
        return
    from ropewalk.findings import audit
    from ropewalk.models.resolve import read_spec, resolve

    files = resolve("smollm2")
    audited = audit(read_spec(files), name=files.title)
    if as_json:
        _print_json(audited, html)
    else:
        _print(audited, html)


def _print(audited: Audit, html: Path | None) -> None:
    """Audit and proof as they are made, and what to try next."""
    from ropewalk.cli.output import columns, print_result, show
    from ropewalk.cli.prove import run_with_progress, show_results

    _heading("$ ropewalk audit smollm2")
    print_result(audited)
    lengths = ",".join(map(str, LENGTHS))
    grid = f"--lengths {lengths} --depths {DEPTHS} --minutes {SECONDS / 60:.1f} --calibrate off"
    _heading(f"$ ropewalk prove smollm2 {grid}")
    show_results(run_with_progress(_asked()), html=html)
    show("", "What to try next:")
    for command, shows in NEXT:
        show(*_suggested(command, shows, columns()))


def _print_json(audited: Audit, html: Path | None) -> None:
    """Audit and proof as one document."""
    from ropewalk.cli.prove import run_with_progress, write_pages
    from ropewalk.findings import to_json
    from ropewalk.proof.export import run_to_json

    proof = run_with_progress(_asked())
    document = {
        "schema": "ropewalk.demo/1",
        "audit": to_json(audited),
        "proof": run_to_json(proof.summary, proof.rows, proof.tasks),
    }
    typer.echo(json.dumps(document, indent=2, allow_nan=False))
    write_pages(proof, html, as_json=True)


def _asked() -> Callable[..., Proof]:
    """What the demo asks: as the command does, but with the longest lengths left out of a slow
    machine's plan.
    """
    from ropewalk.proof.cells import Calibrate
    from ropewalk.proof.prove import prove
    from ropewalk.proof.settings import ProofSettings

    settings = ProofSettings(
        model="smollm2",
        lengths=LENGTHS,
        depths=tuple(step / (DEPTHS - 1) for step in range(DEPTHS)),
        # What branches differ from prompts of their own by is measured once for this model
        # (benchmarks/results/branches.txt), and takes half of the time.
        calibrate=Calibrate.OFF,
        minutes=SECONDS / 60,
        shorten=True,
        command="ropewalk demo",
    )
    return partial(prove, settings)


def _suggested(command: str, shows: str, width: int) -> tuple[Block, ...]:
    """A command with what it shows behind it, or below it on a terminal too narrow for both."""
    line = f"  {command:<63}  {shows}"
    return (line,) if len(line) <= width else (ToCopy(command), Prose(shows, " " * 6))


def _heading(command: str) -> None:
    from ropewalk.cli.output import show

    show("", ToCopy(command, ""), "")
