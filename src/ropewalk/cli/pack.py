"""`ropewalk pack FILES --tokenizer MODEL --length N --out FILE`: texts into rows for training."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.completion import models
from ropewalk.cli.output import print_result
from ropewalk.cli.progress import PATIENCE, Progress

if TYPE_CHECKING:
    from ropewalk.packing.pack import Report
    from ropewalk.packing.tokens import Encoded


class PolicyName(StrEnum):
    """How rows are chosen."""

    BEST_FIT = "best-fit"
    IN_ORDER = "in-order"


class CuttingName(StrEnum):
    """Which documents are cut."""

    KEPT = "kept"
    SPLIT = "split"


ROWS = "Rows"
TEXTS = "Reading texts"
RESULTS = "Results"

Files = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Text, JSON lines (.jsonl), Parquet, or folders."),
]
TokenizerName = Annotated[
    str,
    typer.Option(
        "--tokenizer",
        metavar="MODEL",
        help="The model whose tokenizer cuts the texts: a folder, a .gguf file, a hub id or a "
        "known name.",
        autocompletion=models,
        rich_help_panel=ROWS,
    ),
]
Length = Annotated[
    str,
    typer.Option(
        metavar="TOKENS", help="Tokens of a row, like 4096, 4k or 1M.", rich_help_panel=ROWS
    ),
]
Out = Annotated[
    Path,
    typer.Option(metavar="FILE", help="The Parquet file to write.", rich_help_panel=RESULTS),
]
Policy = Annotated[
    PolicyName,
    typer.Option(
        help="The fullest row a document fits, or the stream's order.", rich_help_panel=ROWS
    ),
]
Cutting = Annotated[
    CuttingName,
    typer.Option(
        help="Cut only what is longer than a row, or where a row ends.", rich_help_panel=ROWS
    ),
]
Boundary = Annotated[
    str,
    typer.Option(
        metavar="eos|bos|both|none|ID",
        help="The tokens around every document.",
        rich_help_panel=ROWS,
    ),
]
Left = Annotated[bool, typer.Option("--left", help="Put padding in front.", rich_help_panel=ROWS)]
Multiple = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Pad each piece to a multiple, so that context-parallel ranks can split it.",
        rich_help_panel=ROWS,
    ),
]
Field = Annotated[
    str, typer.Option(help="The field of a JSON record with the text.", rich_help_panel=TEXTS)
]
Column = Annotated[
    str, typer.Option(help="The column of Parquet with the text.", rich_help_panel=TEXTS)
]
Encoding = Annotated[
    str, typer.Option(help="The encoding of text files and JSON lines.", rich_help_panel=TEXTS)
]
Force = Annotated[
    bool, typer.Option("--force", help="Write over an existing file.", rich_help_panel=RESULTS)
]
AsJson = Annotated[bool, options.as_json(RESULTS)]


def pack_command(
    files: Files,
    tokenizer: TokenizerName,
    length: Length,
    out: Out,
    policy: Policy = PolicyName.BEST_FIT,
    cutting: Cutting = CuttingName.KEPT,
    boundary: Boundary = "eos",
    left: Left = False,
    multiple: Multiple = 1,
    field: Field = "text",
    column: Column = "text",
    encoding: Encoding = "utf-8",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Pack texts into rows of one length, and say how often each distance will be trained."""
    from ropewalk.lengths import parse_length
    from ropewalk.models.tokenizer import load_tokenizer, rows_beside
    from ropewalk.packing.files import PackSettings, boundary_named, pack_files, policy_named
    from ropewalk.packing.pack import pack
    from ropewalk.packing.row_file import arrow, check_target
    from ropewalk.packing.table_rows import padding_of
    from ropewalk.packing.texts import Reading, sources

    reading = Reading(field, column, encoding)
    tokens = parse_length(length, "--length")
    rule = policy_named(policy.value, tokens)
    # Settings that cannot be are refused before a tokenizer is loaded, which takes seconds.
    pack([], tokens, policy=rule, cutting=cutting.value, left=left, multiple=multiple)
    found = sources(files)
    check_target(out, found.files, force=force)
    arrow()
    with Progress(PATIENCE) as shown:
        shown.say("loading the tokenizer")
        loaded = load_tokenizer(tokenizer)
        rows = rows_beside(tokenizer)
        around, padding = boundary_named(boundary, loaded, rows), padding_of(loaded, rows)
        settings = PackSettings(
            tokens, rule, cutting.value, around, padding, left=left, multiple=multiple
        )
        shown.say("packing")
        packed = pack_files(
            found, loaded, settings, out, reading=reading, name=tokenizer, rows=rows,
            progress=_told(shown),
        )  # fmt: skip
    print_result(packed, as_json=as_json)


def _told(shown: Progress) -> Callable[[Report, Encoded], None]:
    """Says how much has been read and packed; nobody knows how much there is."""

    def told(report: Report, encoded: Encoded) -> None:
        counts = (f"{report.documents:,} documents", f"{encoded.tokens:,} tokens")
        shown.so_far(", ".join((*counts, f"{report.rows:,} rows")))

    return told
