"""`ropewalk convert MODEL --to ...`: a model's position settings in another engine's words."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropewalk.cli import options

if TYPE_CHECKING:
    from ropewalk.verbs.converting import Converted


class To(StrEnum):
    """The dialects that can be written."""

    vllm = "vllm"
    llamacpp = "llamacpp"
    gguf = "gguf"
    hf4 = "hf4"
    hf5 = "hf5"


def convert_command(
    model: options.AuditedModel,
    to: Annotated[
        To,
        typer.Option(
            help="vllm and llamacpp print one line of options; gguf, hf4 and hf5 write "
            "a copy of the model's own file (hf4 and hf5: without --out, print)."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write; never the model's own.")
    ] = None,
    rope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCHEDULE",
            help="Another schedule: yarn:2, linear:2, ntk:2, base:500000, none; more in order.",
        ),
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="The longest prompt to serve (vllm, llamacpp)."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.gguf",
            help="For gguf, where MODEL is a folder: what llama.cpp's converter made of it.",
        ),
    ] = None,
    original: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS",
            help="The length that --rope starts from, where the files state none or another one.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over an existing file.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert position settings: the same numbers, or an error that names what is lost."""
    given: dict[str, Any] = locals()
    del given["as_json"]
    from ropewalk.cli.output import print_json
    from ropewalk.verbs.reading import convert

    converted = convert(**given)
    if as_json:
        print_json(converted.to_dict())
        return
    _show(converted)


def _show(converted: Converted) -> None:
    """Print what a conversion gave, and its remarks beside."""
    from ropewalk.cli.output import tell
    from ropewalk.verbs.converting import config_text

    for remark in converted.remarks:
        tell(f"ropewalk: {remark}")
    if converted.options is not None:
        typer.echo(converted.options)
    elif converted.written is not None:
        tell(f"ropewalk: wrote {converted.written}")
    else:
        sys.stdout.write(config_text(converted.config))
