"""What a verb is given, in the forms that people have: a model by name, path, spec or live."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ropewalk.dialects.hf import read_config
from ropewalk.errors import UsageError
from ropewalk.lengths import parse_length
from ropewalk.models.resolve import KINDS, ModelFiles, read_spec, resolve
from ropewalk.rope.spec import PositionSpec, SourceKind
from ropewalk.short import short


class LiveModel(Protocol):
    """A loaded model of transformers: a torch module with its configuration."""

    config: Any


class Configuration(Protocol):
    """A configuration of transformers."""

    def to_dict(self) -> dict[str, Any]:
        """As its config.json has it."""


Named = str | os.PathLike[str]
"""A name or a path."""
AnyModel = Named | PositionSpec | Mapping[str, object] | Configuration | LiveModel
"""A name or path, a spec, a parsed config.json, a configuration of transformers, a live model."""
Tokens = int | str
"""A length in tokens: 4096, "4k", "1M"; k is 1024."""
Several = str | float | Iterable[str | int | float]
"""One value, several in a list, or several in one text with commas, as an option has them."""


@short
@dataclass(frozen=True, slots=True)
class Taken:
    """A model as it was given. `files` None: it has none. `module`: what is live, or None."""

    title: str
    spec: PositionSpec
    files: ModelFiles | None = None
    module: Any = None


def taken(model: AnyModel) -> Taken:
    """What any model says of position. Reads headers only.

    Raises UsageError for what is no model, and as `models.resolve.resolve` and `read_spec`.
    """
    if isinstance(model, str | os.PathLike):
        files = resolve(os.fspath(model))
        return Taken(files.title, read_spec(files), files)
    if isinstance(model, PositionSpec):
        return Taken(model.model_type, model)
    if isinstance(model, Mapping):
        return _configured("the configuration", model)
    own = getattr(model, "config", None)
    configuration = model if own is None else own
    to_dict = getattr(configuration, "to_dict", None)
    if not callable(to_dict):
        raise UsageError(
            f"{type(model).__name__} is no model, and has no configuration of transformers; give "
            f"{KINDS}, a parsed config.json, a PositionSpec, or a loaded model of transformers"
        )
    title = str(getattr(configuration, "_name_or_path", "") or type(model).__name__)
    return _configured(title, to_dict(), None if own is None else model)


def _configured(title: str, parsed: Mapping[str, object], module: Any = None) -> Taken:
    where, kind = title, SourceKind.CONFIG
    if module is not None:
        where, kind = f"{type(module).__name__}.config", SourceKind.MODULE
    return Taken(title, read_config(dict(parsed), where=where, kind=kind), None, module)


def named(model: object, verb: str) -> str:
    """The name or path of a model, for a verb that needs its files. Raises UsageError."""
    if isinstance(model, str | os.PathLike):
        return os.fspath(model)
    raise UsageError(
        f"{verb} was given a {type(model).__name__}, and works on a model's files; give {KINDS}"
    )


def tokens(length: Tokens, option: str) -> int:
    """A length in tokens. Raises LengthError for what is none."""
    return parse_length(str(length), option)


def listed(values: Several | None) -> str | None:
    """Values as the command line has them, with commas between; None for none."""
    if values is None or isinstance(values, str):
        return values
    return ",".join(map(str, values)) if isinstance(values, Iterable) else str(values)


def depths_of(values: Several) -> tuple[float, ...]:
    """Depths as shares, from percents: several in a list, or as the option --depths has them.

    One whole number is how many, evenly spaced. Raises LengthError.
    """
    from ropewalk.proof.plan import parse_depths

    if isinstance(values, Iterable) and not isinstance(values, str):
        # With its sign one depth alone is a depth, and no count of them.
        values = ",".join(f"{each}%" for each in values)
    return parse_depths(str(values))


def seconds(minutes: float | None) -> float | None:
    """The seconds of --minutes. Raises UsageError for no time, or for ever."""
    if minutes is None:
        return None
    if not (math.isfinite(minutes) and minutes > 0):
        raise UsageError(f"--minutes {minutes:g} is impossible: give a time above 0, like 10")
    return 60 * minutes


def path(given: Named | None) -> Path | None:
    """A path, or None."""
    return None if given is None else Path(given)
