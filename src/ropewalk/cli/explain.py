"""`ropewalk explain TOPIC`: what position is for, in numbers computed on the spot."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.commands import add_commands
from ropewalk.cli.examples import EXAMPLES
from ropewalk.cli.help import Group
from ropewalk.cli.output import columns
from ropewalk.cli.progress import PATIENCE, Progress


def order_command(as_json: options.AsJson = False) -> None:
    """Who bites whom? Without position no model can tell."""
    from ropewalk.report.explain_text import order_lines

    with _computing():
        from ropewalk.explain.order import explain_order

        order = explain_order()
    if as_json:
        _print_json({"schema": "ropewalk.explain.order/1", **dataclasses.asdict(order)})
    else:
        _print_lines(order_lines(order, columns()))


def scale_command(as_json: options.AsJson = False) -> None:
    """Why sqrt(d_model) stands before the token vectors."""
    from ropewalk.report.explain_text import scale_lines

    with _computing():
        from ropewalk.explain.scale import explain_scale

        rows = explain_scale()
    if as_json:
        document = [dataclasses.asdict(row) for row in rows]
        _print_json({"schema": "ropewalk.explain.scale/1", "rows": document})
    else:
        _print_lines(scale_lines(rows, columns()))


def encodings_command(as_json: options.AsJson = False) -> None:
    """All encodings side by side, in words and in figures."""
    from ropewalk.report.explain_text import encodings_lines

    with _computing():
        from ropewalk.explain.encodings import explain_encodings

        rows = explain_encodings()
    if as_json:
        document = [dataclasses.asdict(row) for row in rows]
        _print_json({"schema": "ropewalk.explain.encodings/1", "rows": document})
    else:
        _print_lines(encodings_lines(rows, columns()))


def join_command(
    model: options.Model,
    text_a: Annotated[
        str | None, typer.Argument(metavar="TEXT_A", help="The first document; needs TEXT_B.")
    ] = None,
    text_b: Annotated[
        str | None, typer.Argument(metavar="TEXT_B", help="The document that is read behind it.")
    ] = None,
    pairs: Annotated[int, typer.Option(help="Pairs of documents, where none is given.")] = 10,
    seed: Annotated[int, typer.Option(help="Names the pairs.")] = 0,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    as_json: options.AsJson = False,
) -> None:
    """How much of a document leaks into the next one of a packed row, on a real model."""
    from ropewalk.errors import UsageError
    from ropewalk.explain.join import DocumentPair, draw_pairs, join_of

    if text_a is None:
        drawn = draw_pairs(pairs, seed)
    elif text_b is None:
        raise UsageError("one document was given; give two, or none for built-in pairs")
    else:
        drawn = (DocumentPair(text_a, text_b),)
    from ropewalk.report.join_text import join_json, join_lines

    with Progress() as shown:
        shown.say("loading torch and transformers")
        _need_torch()
        name, join = join_of(model, drawn, device=device, dtype=dtype, say=shown.say)
    if as_json:
        _print_json(join_json(name, join))
    else:
        _print_lines(join_lines(name, join, columns()))


@contextmanager
def _computing() -> Iterator[None]:
    """Says that it is at work, where that takes long; torch is looked for first."""
    with Progress(PATIENCE) as shown:
        shown.say("computing")
        _need_torch()
        yield


def _need_torch() -> None:
    """Raises MissingPartError without torch, which computes every number here."""
    from ropewalk.models.load import check_device

    check_device("cpu", "fp32")


def _print_json(document: dict[str, object]) -> None:
    typer.echo(json.dumps(document, indent=2, allow_nan=False))


def _print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        typer.echo(line)


_COMMANDS = (
    ("order", order_command, "Who bites whom? Without position no model can tell."),
    ("scale", scale_command, "Why sqrt(d_model) stands before the token vectors."),
    ("encodings", encodings_command, "All encodings side by side, in words and figures."),
    ("join", join_command, "What leaks from one packed document into the next."),
)

explain_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    subcommand_metavar="TOPIC",
    epilog=EXAMPLES["explain"],
    rich_markup_mode=None,
    help="Explain what position is for, in numbers computed on the spot.",
)
add_commands(explain_app, _COMMANDS, "explain")
