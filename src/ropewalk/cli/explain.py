"""`ropewalk explain TOPIC`: what position is for, in numbers computed on the spot."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from ropewalk.cli import options
from ropewalk.cli.commands import add_commands
from ropewalk.cli.examples import EXAMPLES
from ropewalk.cli.help import Group
from ropewalk.cli.output import print_made
from ropewalk.cli.progress import PATIENCE, Progress


def order_command(as_json: options.AsJson = False) -> None:
    """Who bites whom? Without position no model can tell."""
    from ropewalk.report.explain import order_document

    with _computing():
        from ropewalk.explain.order import explain_order

        order = explain_order()
    values = {"schema": "ropewalk.explain.order/1", **dataclasses.asdict(order)}
    print_made(order_document(order), values, as_json=as_json)


def scale_command(as_json: options.AsJson = False) -> None:
    """Why sqrt(d_model) stands before the token vectors."""
    from ropewalk.report.explain import scale_document

    with _computing():
        from ropewalk.explain.scale import explain_scale

        rows = explain_scale()
    values = {
        "schema": "ropewalk.explain.scale/1",
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    print_made(scale_document(rows), values, as_json=as_json)


def encodings_command(as_json: options.AsJson = False) -> None:
    """All encodings side by side, in words and in figures."""
    from ropewalk.report.explain import encodings_document

    with _computing():
        from ropewalk.explain.encodings import explain_encodings

        rows = explain_encodings()
    values = {
        "schema": "ropewalk.explain.encodings/1",
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    print_made(encodings_document(rows), values, as_json=as_json)


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
    from ropewalk.report.explain import join_document, join_values

    with Progress() as shown:
        shown.say("loading torch and transformers")
        _need_torch()
        name, join = join_of(model, drawn, device=device, dtype=dtype, say=shown.say)
    print_made(join_document(name, join), join_values(name, join), as_json=as_json)


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
