"""`ropewalk trace MODEL TEXT`: a text followed into a real model, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli import options

if TYPE_CHECKING:
    from ropewalk.explain.trace import Trace


def trace_command(
    model: options.Model,
    text: Annotated[str, typer.Argument(metavar="TEXT", help='What to read, "The cat sat".')],
    dtype: Annotated[
        str,
        typer.Option(
            help="What to compute in; where a scale is rounded, it shows. auto is fp32.",
            **options.choice(*options.DTYPES),
        ),
    ] = "auto",
    as_json: options.AsJson = False,
) -> None:
    """Trace a text into a model: ids, rows, scale, position, the first block, q and k.

    Each step is computed here and compared with the model's own; exit code 1 where they differ.
    """
    from ropewalk.cli.output import print_result
    from ropewalk.cli.progress import Progress

    with Progress() as shown:
        traced = _trace(model, text, dtype, shown.say)
    print_result(traced, as_json=as_json)
    if not traced.agrees:
        raise typer.Exit(1)


def _trace(model: str, text: str, dtype: str, say: Callable[[str], None]) -> Trace:
    from ropewalk.models.load import check_device, load_blocks
    from ropewalk.models.resolve import read_spec, resolve

    files = resolve(model)
    spec = read_spec(files)
    _, chosen = check_device("cpu", dtype, files)

    say("loading torch and transformers")
    blocks, tokenizer = load_blocks(files, dtype=chosen, say=say)
    from ropewalk.explain.trace import trace, trace_gguf

    say("following the text")
    if files.kind == "gguf":
        return trace_gguf(blocks, tokenizer, text, name=files.title, spec=spec)
    return trace(blocks, tokenizer, text, name=files.title, spec=spec)
