"""`ropewalk audit MODEL`: what a model's files say of position. Reads headers, no weights."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ropewalk.cli import options


class Pairs(StrEnum):
    """How many rows of the pair table to print."""

    digest = "digest"
    all = "all"


def audit_command(
    model: options.AuditedModel,
    pairs: Annotated[
        Pairs, typer.Option(help="Rows of the pair table: the telling ones, or all.")
    ] = Pairs.digest,
    as_json: options.AsJson = False,
    engines: Annotated[
        bool, typer.Option("--engines", help="Say what each engine computes for these settings.")
    ] = False,
) -> None:
    """Audit a model: what it says of position, how it got its length, and what to beware of."""
    from ropewalk.cli.output import print_result
    from ropewalk.verbs.reading import audit

    print_result(audit(model, engines=engines), as_json=as_json, pairs=pairs.value)
