"""How engines serve a schedule: their options, with the version they were checked against.

Where an engine has no options for a schedule, the reason stands in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ropewalk.dialects import llamacpp, vllm
from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.errors import ScheduleError
from ropewalk.models.resolve import ModelFiles
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class Options:
    """Options by which `engine` serves files; `line` None: `reason` why not.

    `checked` says against which version the rules were checked, `first` what has to be done with
    the files before.
    """

    engine: str
    checked: str
    line: str | None
    reason: str = ""
    first: str = ""


def options(files: ModelFiles, before: PositionSpec, after: PositionSpec) -> tuple[Options, ...]:
    """What turns the original files by `after`, for each engine that takes them."""
    config = None if files.kind == "gguf" else load_json(files.config_path)
    length = after.claimed.tokens
    found = []
    if config is not None:
        found.append(_vllm(lambda: vllm.write_overrides(after, config, length)))
    file = as_computed(LLAMACPP, before, config, served=length)
    found.append(_llamacpp(lambda: llamacpp.write_flags(after, file, length)))
    return tuple(found)


def own_options(config: Mapping[str, object], after: PositionSpec) -> tuple[Options, ...]:
    """What serves a folder whose `config` was written to say `after`, for each engine."""
    length = after.claimed.tokens

    def converted() -> str:
        file = as_computed(LLAMACPP, read_config(config), config, served=length)
        return llamacpp.write_flags(after, file, length)

    return (
        _vllm(lambda: vllm.write_own(after, config)),
        _llamacpp(converted, "converted by its convert_hf_to_gguf.py"),
    )


def gguf_options(copy: PositionSpec) -> tuple[Options, ...]:
    """What serves a GGUF file that says `copy`."""
    length = copy.claimed.tokens

    def flags() -> str:
        return llamacpp.write_flags(copy, as_computed(LLAMACPP, copy, served=length), length)

    return (_llamacpp(flags),)


def _vllm(write: Callable[[], str]) -> Options:
    return _options("vLLM", vllm.VERSION, write)


def _llamacpp(write: Callable[[], str], first: str = "") -> Options:
    return _options("llama.cpp", llamacpp.VERSION, write, first)


def _options(engine: str, checked: str, write: Callable[[], str], first: str = "") -> Options:
    try:
        return Options(engine, checked, write(), first=first)
    except ScheduleError as error:
        return Options(engine, checked, None, str(error), first)
