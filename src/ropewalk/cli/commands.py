"""The commands of a group as a table: name, what runs, and the line in the group's help."""

from __future__ import annotations

from collections.abc import Callable

import typer

Commands = tuple[tuple[str, Callable[..., None], str], ...]
"""In the order of the help."""


def add_commands(app: typer.Typer, commands: Commands) -> None:
    """Give the group its commands."""
    for name, command, line in commands:
        app.command(name, short_help=line)(command)
