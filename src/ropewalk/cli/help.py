"""How a command explains itself: usage as it is typed, options in groups, example, exit codes."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ropewalk.errors import EXIT_CODES

HELP = ["-h", "--help"]
"""What asks for help, of every command."""

OPTIONS, OTHER = "Options", "Other options"
"""The group of options that are in none: where it comes first, and where it comes behind groups."""

_AT_LEAST = re.compile(r"\bx>=([0-9.]+)")

_PLACEHOLDER = re.compile(r"<(?:list\[)?([^\]>]+)\]?>")
_WORDS = {"int": "N", "int range": "N", "float": "X", "str": "TEXT", "path": "PATH", "Path": "PATH"}


def argument_typed(argument: Any) -> str:
    """An argument as the usage has it: MODEL, [TEXT], FILE...

    A metavar that ends in ... is taken as it is written.
    """
    name = argument.metavar or argument.name.upper()
    if name.endswith("..."):
        return str(name)
    name += "..." if argument.nargs != 1 else ""
    return name if argument.required else f"[{name}]"


def option_typed(option: Any, context: Any) -> str:
    """An option with the word for its value: -k, --top N."""
    names = option.get_help_record(context)[0]
    return _PLACEHOLDER.sub(lambda found: _WORDS.get(found[1], found[1]), names)


def pieces_typed(command: Any, context: Any) -> list[str]:
    """What stands behind a command's name in its usage: what must be given, and then the rest."""
    params = command.get_params(context)
    options = [p for p in params if p.param_type_name == "option"]
    typed = [argument_typed(p) for p in params if p.param_type_name == "argument"]
    typed += [option_typed(p, context) for p in options if p.required]
    if isinstance(command, TyperGroup):
        typed.append(command.subcommand_metavar)
    free = [p for p in options if not p.required and "--help" not in p.opts]
    return [*typed, "[OPTIONS]"] if free or isinstance(command, TyperGroup) else typed


class Context(typer.Context):
    """Names a command in errors as it is typed: ropewalk table MODEL near."""

    @property
    def command_path(self) -> str:
        """The words before this command's own options."""
        own = self.info_name or ""
        if self.parent is None:
            return own
        params: list[Any] = self.parent.command.get_params(self.parent)
        before = [argument_typed(p) for p in params if p.param_type_name == "argument"]
        return " ".join([self.parent.command_path, *before, own])


def _write_usage(command: Any, context: Any, formatter: Any) -> None:
    pieces = " ".join(pieces_typed(command, context))
    if pieces:
        formatter.write_usage(context.command_path, pieces)
    else:
        formatter.write(f"Usage: {context.command_path}\n")


def _write_parameters(command: Any, context: Any, formatter: Any) -> None:
    """Arguments, then options group by group in the order in which each first comes."""
    arguments, groups = list[tuple[str, str]](), dict[str, list[tuple[str, str]]]()
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is None:
            continue
        if param.param_type_name == "argument":
            # That it is required stands in the usage.
            words = record[1].replace("[required]", "").rstrip()
            arguments.append((argument_typed(param).strip("[]"), words))
            continue
        # The option --help is made by typer and is in no group.
        group = getattr(param, "rich_help_panel", None)
        if group is None:
            group = OPTIONS if OPTIONS in groups or not groups else OTHER
        words = _AT_LEAST.sub(r"\1 or more", record[1])
        groups.setdefault(group, []).append((option_typed(param, context), words))
    for title, listed in {"Arguments": arguments, **groups}.items():
        if listed:
            with formatter.section(title):
                formatter.write_dl(listed)


def _write_end(command: Any, formatter: Any) -> None:
    """The example, unwrapped so that it can be copied, and the exit codes."""
    if command.epilog:
        formatter.write("\nExample:\n")
        for line in command.epilog.splitlines():
            formatter.write(f"  {line}\n")
    codes = ", ".join(f"{code} {words}" for code, words in EXIT_CODES.items())
    formatter.write_paragraph()
    formatter.write_text(f"Exit codes: {codes}.")


class Command(TyperCommand):
    """A command whose epilog is an example of it."""

    context_class = Context

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The usage as a person types it."""
        _write_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, and options in their groups."""
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer's signature
        """The example and the exit codes."""
        _write_end(self, formatter)


class Group(TyperGroup):
    """A group of such commands; what it holds is listed before its own options."""

    context_class = Context

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """The usage as a person types it."""
        _write_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The commands, then arguments and options."""
        self.format_commands(ctx, formatter)
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # typer's signature
        """The example and the exit codes."""
        _write_end(self, formatter)
