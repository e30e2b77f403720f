"""`ropewalk window URL`: how much of a prompt a server really reads."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ropewalk.cli import options
from ropewalk.cli.completion import models


def window_command(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="Its address, like http://127.0.0.1:8080/v1.")
    ],
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Which of its models; the only one without it.")
    ] = "",
    most: Annotated[
        str, typer.Option(metavar="TOKENS", help="The longest prompt to send, like 32k.")
    ] = "128k",
    api: Annotated[
        str,
        typer.Option(help="How it is asked.", **options.choice("auto", "completions", "chat")),
    ] = "auto",
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model or folder whose tokenizer counts its tokens exactly.",
            autocompletion=models,
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long it may take for an answer.")
    ] = 600.0,
    as_json: options.AsJson = False,
) -> None:
    """Find a server's window: how much it reads, what it cuts, and whether it says so.

    At most 12 prompts are sent, whose facts show what was read.
    """
    given: dict[str, Any] = locals()
    del given["as_json"]
    from ropewalk.cli.output import print_result
    from ropewalk.verbs.proving import window

    print_result(window(**given), as_json=as_json)
