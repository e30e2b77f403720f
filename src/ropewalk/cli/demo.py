"""`ropewalk demo`: audit and proof of a real model in a few minutes on two cores."""

from __future__ import annotations

import typer

SECONDS = 165.0
"""A slower machine leaves the longest prompts out rather than take more than three minutes."""

NEXT = """
What to try next:
  ropewalk prove smollm2 --lengths 2048,12000              beyond the length it claims
  ropewalk prove smollm2 --lengths 2048,12000 --rope yarn:2  the same with another schedule
  ropewalk audit PATH                                      what another model's files say
  ropewalk prove PATH                                      what another model finds"""


def demo_command() -> None:
    """Audit and prove SmolLM2-135M-Instruct, from its GGUF file to a heat map and a report."""
    from rich.console import Console

    from ropewalk.audit import audit
    from ropewalk.cli.prove import INTERRUPTED, run_with_progress, show_results
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.prove.session import ProofSettings
    from ropewalk.report.audit_text import print_audit

    files = resolve("smollm2")
    console = Console(highlight=False)
    _heading(f"$ ropewalk audit {files.name}")
    print_audit(console, audit(read_spec(files), name=files.title))
    settings = ProofSettings(
        model=files.name,
        lengths=(512, 1024, 2048, 4096, 8000),
        depths=(0.0, 0.5, 1.0),
        trials=1,
        seconds=SECONDS,
        command="ropewalk demo",
    )
    _heading("$ ropewalk prove smollm2 --lengths 512,1024,2048,4096,8000 --depths 3 --trials 1")
    proof = run_with_progress(settings)
    show_results(proof, as_json=False, csv=None)
    if proof.result.interrupted:
        raise typer.Exit(INTERRUPTED)
    typer.echo(NEXT)


def _heading(command: str) -> None:
    typer.echo(f"\n{command}\n")
