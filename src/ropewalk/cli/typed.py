"""A command's options as dictionaries with types: a long signature in parts that have names.

The options stand in a TypedDict: the type, the option as typer has it, and its default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import typer


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
    value = next(iter(more), False if kind is bool else None)
    if isinstance(option, typer.models.ArgumentInfo):
        value = inspect.Parameter.empty
    elif value is None:
        kind = kind | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=Annotated[kind, option]
    )
