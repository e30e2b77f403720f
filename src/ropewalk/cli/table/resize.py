"""`ropewalk table MODEL resize --add TOKEN --out FOLDER`: a checkpoint with more rows, or fewer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ropewalk.cli.table.options import AsJson, Tensor, at_work, model_of, print_answer

ROWS = "New rows"
"""The group of options that say how many rows there are to be, and what they are made from."""

Rows = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="How many in all; without it, as many as tokens need.",
        rich_help_panel=ROWS,
    ),
]
Multiple = Annotated[
    int,
    typer.Option(
        min=1, metavar="N", help="Round them up to a multiple, like 64.", rich_help_panel=ROWS
    ),
]
Rule = Annotated[
    str,
    typer.Option(
        "--new-rows",
        metavar="mean|covariance|pieces",
        help="The mean of all, drawn around it, or the mean of the pieces that the old tokenizer "
        "cuts the new token into.",
        rich_help_panel=ROWS,
    ),
]
Share = Annotated[
    float,
    typer.Option(help="Of the covariance that rows are drawn with.", rich_help_panel=ROWS),
]
Seed = Annotated[int, typer.Option(help="Of the rows that are drawn.", rich_help_panel=ROWS)]
Drop = Annotated[
    bool,
    typer.Option(
        "--drop", help="Let rows go that hold values and have no token.", rich_help_panel=ROWS
    ),
]


def resize_command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="The new folder to write.")],
    add: Annotated[
        list[str] | None, typer.Option(metavar="TOKEN", help="A new token; again for more.")
    ] = None,
    tokens: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New tokens, one on each line.")
    ] = None,
    special: Annotated[
        bool, typer.Option("--special", help="Mark new tokens as special, as <s> is.")
    ] = False,
    rows: Rows = None,
    multiple: Multiple = 1,
    rule: Rule = "mean",
    share: Share = 0.01,
    seed: Seed = 0,
    drop: Drop = False,
    tensor: Tensor = None,
    as_json: AsJson = False,
) -> None:
    """Write the checkpoint with rows for new tokens, or with more or fewer rows, as a new folder.

    Table, head, output bias, config.json and tokenizer change together; the rest is linked or
    copied. The old folder is only read.
    """
    from ropewalk.report.table_resize import document, values
    from ropewalk.tables.resized_checkpoint import ResizeOptions, resize_checkpoint

    options = ResizeOptions(
        add=(*(add or ()), *_listed(tokens)),
        special=special,
        rows=rows,
        multiple=multiple,
        rule=rule,
        share=share,
        seed=seed,
        drop=drop,
        tensor=tensor,
    )
    with at_work("writing the checkpoint"):
        found = resize_checkpoint(model_of(context), out, options)
    print_answer("resize", document(found), values(found), as_json=as_json)


def _listed(path: Path | None) -> list[str]:
    """The lines of a file that are not empty. Raises UsageError for a file that has none."""
    from ropewalk.errors import UsageError

    if path is None:
        return []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read as UTF-8 text: {error}") from error
    found = [line for line in text.split("\n") if line.strip()]
    if not found:
        raise UsageError(f"{path} holds no token; give one on each line")
    return found
