"""The commands of a group as a table: name, what runs, and the line in the group's help."""

from __future__ import annotations

from collections.abc import Callable

import typer

from ropewalk.cli.examples import EXAMPLES
from ropewalk.cli.help import Command
from ropewalk.cli.pages import with_page

Commands = tuple[tuple[str, Callable[..., None], str], ...]
"""In the order of the help."""


def add_commands(app: typer.Typer, commands: Commands, group: str = "") -> None:
    """Give the group its commands, each with its example, and with a page of its result where one
    is asked for; `group` is the name of the group.
    """
    for name, command, line in commands:
        example = EXAMPLES.get(f"{group} {name}".strip())
        app.command(name, cls=Command, short_help=line, epilog=example)(with_page(command))
