"""The group `ropewalk table`: MODEL comes first, and the question after it, or the other way."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ropewalk.cli.commands import add_commands
from ropewalk.cli.completion import tables
from ropewalk.cli.examples import EXAMPLES
from ropewalk.cli.help import HELP, Group
from ropewalk.cli.pages import Html, Open, with_page
from ropewalk.cli.table.compare import compare_command
from ropewalk.cli.table.context import context_command
from ropewalk.cli.table.export import export_command
from ropewalk.cli.table.health import health_command
from ropewalk.cli.table.maps import clusters_command, map_command
from ropewalk.cli.table.options import AsJson
from ropewalk.cli.table.overview import print_overview
from ropewalk.cli.table.positions import positions_command
from ropewalk.cli.table.resize import resize_command
from ropewalk.cli.table.score import score_command
from ropewalk.cli.table.words import near_command, similarity_command
from ropewalk.errors import UsageError


class _EitherOrder(Group):
    """Takes `MODEL near WORD` and `near MODEL WORD` alike, and `near --help` without a model.

    A model whose folder has a command's name is written with its path: ./near.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        first, second, *rest = [*args, "", ""]
        if first in self.commands and second and not second.startswith("-"):
            args = [second, first, *rest[:-2]]
        elif first in self.commands:
            args = self._without_model(ctx, first, args[1:])
        elif not first.startswith("-") and second.startswith("-"):
            # A group's own options stand before its arguments; people write them behind.
            args = [second, *rest[:-2], first]
        return super().parse_args(ctx, args)

    def _without_model(self, ctx: Any, name: str, options: list[str]) -> list[str]:
        """What a question without a model stands for: its help, which needs none.

        Raises UsageError where no help is asked for.
        """
        if ctx.resilient_parsing:
            # A shell asks what may follow, and a model does.
            return []
        if not any(option in HELP for option in options):
            usage = f"ropewalk table MODEL {name}"
            raise UsageError(f"{name} asks about a model: {usage} ...; {usage} -h says more")
        return ["MODEL", name, HELP[-1]]


def _models_or_questions(incomplete: str) -> list[str]:
    """Either may come first."""
    questions = [name for name, _, _ in _COMMANDS if name.startswith(incomplete)]
    return [*tables(incomplete), *questions]


_COMMANDS = (
    ("near", near_command, "The rows nearest to a word; analogies."),
    ("similarity", similarity_command, "Cosines of words, as a heat map."),
    ("health", health_command, "Norms, faulty rows, under-trained tokens, isotropy, hubs."),
    ("positions", positions_command, "Learned positions: trained rows, likeness, spectrum."),
    ("clusters", clusters_command, "Rows of like direction, and their central tokens."),
    ("map", map_command, "Rows on their two widest axes, as a page."),
    ("compare", compare_command, "Two checkpoints' rows over the tokens they share."),
    ("context", context_command, "One word in several sentences, layer by layer."),
    ("score", score_command, "WordSim-353, SimLex-999, analogies; table and layers."),
    ("export", export_command, "Parquet, projector, npy, safetensors, word2vec."),
    ("resize", resize_command, "A checkpoint with new tokens, or with more rows or fewer."),
)

table_app = typer.Typer(
    cls=_EitherOrder,
    no_args_is_help=True,
    subcommand_metavar="[COMMAND]",
    epilog=EXAMPLES["table"],
    rich_markup_mode=None,
    help="Look into a model's embedding table without loading the model.",
)


@table_app.callback(invoke_without_command=True)
def _model(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A folder, a file (safetensors, GGUF, npy, npz, torch state_dict), a hub id or a "
            "known name.",
            autocompletion=_models_or_questions,
        ),
    ],
    as_json: AsJson = False,
    html: Html = None,
    open_page: Open = False,
) -> None:
    """Look into a model's embedding table without loading the model."""
    context.obj = model
    if context.invoked_subcommand is None:
        with_page(print_overview)(context, as_json=as_json, html=html, open_page=open_page)
    elif as_json or html is not None or open_page:
        question = context.invoked_subcommand
        raise UsageError(
            f"write options behind what is asked: ropewalk table {model} {question} ..."
        )


add_commands(table_app, _COMMANDS, "table")
