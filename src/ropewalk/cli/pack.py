"""`ropewalk pack FILES --tokenizer MODEL --length N --out FILE`: texts into rows for training."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.output import columns
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


Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILES", help="Text, JSON lines (.jsonl), Parquet, or folders."),
]
TokenizerName = Annotated[
    str,
    typer.Option(
        "--tokenizer", metavar="MODEL", help="A folder, a .gguf file, a hub id or a known name."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]


def pack_command(
    files: Files,
    tokenizer: TokenizerName,
    length: Annotated[int, typer.Option(metavar="N", help="Tokens of a row.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The Parquet file to write.")],
    policy: Annotated[
        PolicyName, typer.Option(help="The fullest row a document fits, or the stream's order.")
    ] = PolicyName.BEST_FIT,
    cutting: Annotated[
        CuttingName, typer.Option(help="Cut only what is longer than a row, or where a row ends.")
    ] = CuttingName.KEPT,
    boundary: Annotated[
        str,
        typer.Option(metavar="eos|bos|both|none|ID", help="The token around every document."),
    ] = "eos",
    left: Annotated[bool, typer.Option("--left", help="Padding in front.")] = False,
    multiple: Annotated[
        int, typer.Option(metavar="N", help="Pad each piece to a multiple, for zigzag sharding.")
    ] = 1,
    field: Annotated[str, typer.Option(help="The text of a JSON record.")] = "text",
    column: Annotated[str, typer.Option(help="The text in Parquet.")] = "text",
    encoding: Annotated[str, typer.Option(help="Of text files and JSON lines.")] = "utf-8",
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pack texts into rows of one length, and say how often each distance will be trained."""
    from ropewalk.models.tokenizer import load_tokenizer
    from ropewalk.packing.files import PackSettings, boundary_named, pack_files, policy_named
    from ropewalk.packing.pack import pack
    from ropewalk.packing.parquet import arrow
    from ropewalk.packing.row_file import check_target
    from ropewalk.packing.texts import Reading, sources
    from ropewalk.report.pack_text import pack_json, pack_lines

    reading = Reading(field, column, encoding)
    rule = policy_named(policy.value, length)
    # Settings that cannot be are refused before a tokenizer is loaded, which takes seconds.
    pack([], length, policy=rule, cutting=cutting.value, left=left, multiple=multiple)
    found = sources(files)
    check_target(out, found.files, force=force)
    arrow()
    with Progress(PATIENCE) as shown:
        shown.say("loading the tokenizer")
        loaded = load_tokenizer(tokenizer)
        around = boundary_named(boundary, loaded)
        padding = loaded.pad_token_id
        if padding is None:
            padding = loaded.eos_token_id
        settings = PackSettings(
            length, rule, cutting.value, around, padding or 0, left=left, multiple=multiple
        )
        shown.say("packing")
        packed = pack_files(
            found, loaded, settings, out, reading=reading, name=tokenizer, progress=_told(shown)
        )
    if as_json:
        typer.echo(json.dumps(pack_json(packed), indent=2, allow_nan=False))
        return
    for line in pack_lines(packed, columns()):
        typer.echo(line)


def _told(shown: Progress) -> Callable[[Report, Encoded], None]:
    """Says how much has been read and packed; nobody knows how much there is."""

    def told(report: Report, encoded: Encoded) -> None:
        counts = (f"{report.documents:,} documents", f"{encoded.tokens:,} tokens")
        shown.so_far(", ".join((*counts, f"{report.rows:,} rows")))

    return told
