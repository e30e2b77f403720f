"""`ropewalk audit MODEL`: what a model's files say of position. Reads headers, no weights."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options

if TYPE_CHECKING:
    from ropewalk.dialects.engines import EngineView


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
    from ropewalk.findings import audit, to_json
    from ropewalk.models.resolve import read_spec, resolve

    files = resolve(model)
    result = audit(read_spec(files), name=files.title)
    views: list[EngineView] | None = None
    if engines:
        from ropewalk.dialects.engines import engine_views

        views = engine_views(result.spec)
    from ropewalk.cli.output import print_result

    values = to_json(result)
    if views is not None:
        from ropewalk.findings.json_form import engines_json

        values["engines"] = engines_json(views)
    print_result(result, as_json=as_json, values=values, pairs=pairs.value, views=views)
