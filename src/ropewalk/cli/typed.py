"""A command's options as fields of its settings, by name and type, which mypy compares.

The options stand in a TypedDict: the field's type, the option as typer has it, how its text is read
where typer cannot, and the default as it is typed. `settings = Settings(**part(given, Options))` is
then checked by mypy, field by field. What a user does not give is left out, so that the settings'
own defaults hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_type_hints

import typer

Given = TypeVar("Given")


class ReadsValue(NamedTuple):
    """How the text of an option is read. typer would take a UsageError for a ValueError."""

    text: Callable[[str], Any]


def later(module: str, name: str, *more: str) -> Callable[..., Any]:
    """A reader of an option's text that is imported when there is one to read."""
    return lambda *given: getattr(import_module(module), name)(*given, *more)


def with_options(
    *kinds: type, panels: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes anything the options of these dictionaries.

    The help has its groups in the order of `panels`, and what is in none behind them.
    """
    parameters = [
        _parameter(name, *hint.__metadata__, kind=hint.__origin__)
        for each in kinds
        for name, hint in get_type_hints(each, include_extras=True).items()
    ]

    order = [*panels, None]
    parameters.sort(key=lambda each: order.index(_option_of(each).rich_help_panel))

    def give(command: Callable[..., None]) -> Callable[..., None]:
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return give


def _option_of(parameter: inspect.Parameter) -> Any:
    return parameter.annotation.__metadata__[0]


def _parameter(name: str, option: Any, *more: Any, kind: Any) -> inspect.Parameter:
    """As typer reads it: a text where it is read by `part`."""
    value = next((each for each in more if not isinstance(each, ReadsValue)), None)
    if any(isinstance(each, ReadsValue) for each in more):
        kind = str
    elif kind is bool:
        value = False
    if isinstance(option, typer.models.ArgumentInfo):
        value = inspect.Parameter.empty
    elif value is None:
        kind = kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=Annotated[kind, option]
    )


def part(given: Mapping[str, Any], kind: type[Given]) -> Given:
    """The options of one of the dictionaries that were given, or have a default, read from texts.

    Raises UsageError for a text that cannot be read.
    """
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if given[name] is not None:
            reads = (each.text for each in hint.__metadata__ if isinstance(each, ReadsValue))
            found[name] = next(reads, lambda text: text)(given[name])
    return cast(Given, found)
