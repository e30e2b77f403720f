"""Options that several commands share, and how the words that an option takes are shown."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ropewalk.cli.completion import models, words


def choice(*known: str) -> dict[str, Any]:
    """For an option that takes one of a few words: they stand in its help, and a shell has them.

    Which are allowed is checked where they are used, so that Python callers hear the same.
    """
    return {"metavar": "|".join(known), "autocompletion": words(*known)}


DTYPES = ("auto", "bf16", "fp16", "fp32")
"""As `ropewalk.models.dtypes` has them."""

MODEL = "A Hugging Face folder, a .gguf file, a hub id or a known name."
"""What a model that is run may be."""

Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL, autocompletion=models)]
AuditedModel = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A Hugging Face folder, a config.json, a .gguf file, a hub id or a known name.",
        autocompletion=models,
    ),
]


def device(panel: str | None = None) -> Any:
    """The option --device, in a group of options."""
    return typer.Option(
        help="Where to compute. auto takes an NVIDIA GPU where there is one.",
        metavar="auto|cpu|cuda|mps",
        autocompletion=words("auto", "cpu", "cuda", "mps"),
        rich_help_panel=panel,
    )


def dtype(panel: str | None = None) -> Any:
    """The option --dtype, in a group of options."""
    return typer.Option(
        help="What to compute in. auto: fp32 on a CPU, else as the weights are stored.",
        rich_help_panel=panel,
        **choice(*DTYPES),
    )


def as_json(panel: str | None = None) -> Any:
    """The option --json, in a group of options."""
    return typer.Option(
        "--json", help="Print one JSON document instead of text.", rich_help_panel=panel
    )


AsJson = Annotated[bool, as_json()]
Device = Annotated[str, device()]
Dtype = Annotated[str, dtype()]
