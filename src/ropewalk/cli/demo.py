"""`ropewalk demo`: audit and proof of a real model in up to four minutes."""

from __future__ import annotations

from typing import Annotated

import typer

from ropewalk.report.layout import Command, Piece, Prose

SECONDS = 230.0
"""A slower machine leaves the longest lengths out rather than take more than four minutes."""
LENGTHS = (512, 1024, 2048, 4096, 6144, 8192)
DEPTHS = 11
DOCUMENTS = 3

NEXT = (
    ("ropewalk demo --full", "a small model stretched and tuned"),
    ("ropewalk prove smollm2 --lengths 2048,12000", "beyond the length it claims"),
    ("ropewalk prove smollm2 --lengths 2048,12000 --rope yarn:2", "the same with another schedule"),
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
) -> None:
    """Audit and prove SmolLM2-135M-Instruct, from its GGUF file to a heat map and a report."""
    if full:
        from ropewalk.cli.story import tell_story

        tell_story()
        return
    from ropewalk.audit import audit
    from ropewalk.cli.output import columns, console, show
    from ropewalk.cli.prove import prove_and_show
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.prove.calibration import Calibrate
    from ropewalk.prove.session import ProofSettings
    from ropewalk.report.audit_text import print_audit

    files = resolve("smollm2")
    _heading(f"$ ropewalk audit {files.name}")
    print_audit(console(), audit(read_spec(files), name=files.title))
    settings = ProofSettings(
        model=files.name,
        lengths=LENGTHS,
        depths=tuple(step / (DEPTHS - 1) for step in range(DEPTHS)),
        trials=DOCUMENTS,
        calibrate=Calibrate.SHORT,
        seconds=SECONDS,
        shorten=True,
        command="ropewalk demo",
    )
    lengths = ",".join(map(str, LENGTHS))
    grid = f"--lengths {lengths} --depths {DEPTHS} --trials {DOCUMENTS}"
    _heading(f"$ ropewalk prove smollm2 {grid}")
    prove_and_show(settings)
    show("", "What to try next:")
    for command, shows in NEXT:
        show(*_suggested(command, shows, columns()))


def _suggested(command: str, shows: str, width: int) -> tuple[Piece, ...]:
    """A command with what it shows behind it, or below it on a terminal too narrow for both."""
    line = f"  {command:<55}  {shows}"
    return (line,) if len(line) <= width else (Command(command), Prose(shows, " " * 6))


def _heading(command: str) -> None:
    from ropewalk.cli.output import show

    show("", Command(command, ""), "")
