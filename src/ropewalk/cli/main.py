"""The `ropewalk` command. Every error of this package becomes one sentence and an exit code.

What the codes say stands in `ropewalk.errors.EXIT_CODES`.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer

from ropewalk.cli.audit import audit_command
from ropewalk.cli.commands import EXAMPLES, add_commands
from ropewalk.cli.compare import compare_command
from ropewalk.cli.convert import convert_command
from ropewalk.cli.demo import demo_command
from ropewalk.cli.doctor import doctor_command
from ropewalk.cli.explain import explain_app
from ropewalk.cli.extend import extend_command
from ropewalk.cli.help import HELP, Group
from ropewalk.cli.loss import loss_command
from ropewalk.cli.pack import pack_command
from ropewalk.cli.prove import prove_command
from ropewalk.cli.prove_diff import prove_diff_command
from ropewalk.cli.show import show_command
from ropewalk.cli.table.app import table_app
from ropewalk.cli.trace import trace_command
from ropewalk.cli.tune import tune_command
from ropewalk.cli.window import window_command
from ropewalk.errors import FAILED, RopewalkError


class _TwoWords(Group):
    """Takes `prove diff A B` beside `prove MODEL`: a command's name may be two words.

    A model whose folder has the second word's name is written with its path: ./diff.
    """

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """A shell completes word by word: the second one is offered behind the first."""
        found = super().shell_complete(ctx, incomplete)
        return [item for item in found if " " not in item.value]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = " ".join(args[:2])
        if len(args) > 1 and name in self.commands:
            return name, self.commands[name], args[2:]
        return super().resolve_command(ctx, args)


_COMMANDS = (
    ("audit", audit_command, "What a model's files say of position."),
    ("convert", convert_command, "Its position settings in another engine's words."),
    ("prove", prove_command, "What a model finds at every length and depth."),
    ("prove diff", prove_diff_command, "Two proofs on the same prompts, and what of it is chance."),
    ("window", window_command, "How much of a prompt a server really reads."),
    ("extend", extend_command, "A longer context, chosen by measurement and written."),
    ("loss", loss_command, "What each token of a long text costs, by its position."),
    ("tune", tune_command, "Brief training on long documents, and what it gained."),
    ("pack", pack_command, "Texts into rows for training, and the distances they train."),
    ("compare", compare_command, "Encodings trained alike, and measured beyond their length."),
    ("demo", demo_command, "Audit and proof of a small real model, in up to four minutes."),
    ("show", show_command, "A proof again, or one prompt of it."),
    ("trace", trace_command, "A text into a model, step by step, beside our own numbers."),
    ("doctor", doctor_command, "What is installed here, and what is missing."),
)

app = typer.Typer(
    cls=_TwoWords,
    no_args_is_help=True,
    subcommand_metavar="COMMAND",
    context_settings={"help_option_names": HELP},
    epilog=EXAMPLES[""],
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Audit and prove how much of its context window a language model really reads.",
)
add_commands(app, _COMMANDS)
app.add_typer(table_app, name="table", short_help="What is in a model's embedding table.")
app.add_typer(explain_app, name="explain", short_help="What position is for, in numbers.")


def _print_version(wanted: bool) -> None:
    if wanted:
        from ropewalk import __version__

        typer.echo(f"ropewalk {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Audit and prove how much of its context window a language model really reads."""


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        _run()
    except SystemExit as ended:
        world = sys.modules.get("ropewalk.extension.tune.world")
        if world is not None:
            world.leave(ended.code if isinstance(ended.code, int) else bool(ended.code))
        raise


def _run() -> None:
    # A stream that was closed before the start is None.
    streams = [s for s in (sys.stdout, sys.stderr) if isinstance(s, io.TextIOWrapper)]
    for stream in streams:
        # A file name or a model's text may hold what the terminal's encoding lacks.
        stream.reconfigure(errors="backslashreplace")
    try:
        try:
            app(prog_name="ropewalk")
        finally:
            for stream in streams:
                stream.flush()
    except RopewalkError as error:
        _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; nobody is left to be told.
        _discard_output()
        sys.exit(FAILED)
    except OSError as error:
        # Files have been turned into errors of our own where they are used, and have names.
        named = error.filename is not None
        reason = str(error) if named else f"the output cannot be written: {error.strerror or error}"
        _discard_output()
        _fail(reason, FAILED)


def _fail(message: str, exit_code: int) -> NoReturn:
    """Say one sentence on stderr, with nothing in it that a terminal would obey, and exit."""
    from ropewalk.report.text import visible

    typer.echo(f"ropewalk: {visible(' '.join(message.split()))}", err=True)
    sys.exit(exit_code)


def _discard_output() -> None:
    """Send what is still buffered nowhere, or the interpreter would fail on it at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
