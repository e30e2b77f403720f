"""`ropewalk audit MODEL`: what a model's files say of position. Reads headers, no weights."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer


class Pairs(StrEnum):
    """How many rows of the pair table to print."""

    digest = "digest"
    all = "all"


def audit_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A Hugging Face folder, a config.json, a .gguf file, a hub id or a known name.",
        ),
    ],
    pairs: Annotated[
        Pairs, typer.Option(help="Rows of the pair table: the telling ones, or all.")
    ] = Pairs.digest,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of text.")
    ] = False,
) -> None:
    """Audit a model: what it says of position, how it got its length, and what to beware of."""
    from ropewalk.audit import audit, to_json
    from ropewalk.models.resolve import read_spec, resolve

    files = resolve(model)
    result = audit(read_spec(files), name=files.title)
    if as_json:
        typer.echo(json.dumps(to_json(result), indent=2, allow_nan=False))
        return
    from rich.console import Console

    from ropewalk.report.audit_text import print_audit

    print_audit(Console(highlight=False), result, pairs=pairs.value)
