"""How engines serve a schedule: their options, with the version they were checked against.

Where an engine has no options for a schedule, the reason stands in their place.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects import llamacpp, vllm
from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.hf import load_json
from ropewalk.errors import ScheduleError
from ropewalk.models.resolve import ModelFiles
from ropewalk.rope.spec import PositionSpec


@dataclass(frozen=True, slots=True)
class Options:
    """Options by which `engine` serves the model as it was before; `line` None: `reason` why not.

    `checked` says against which version the rules were checked.
    """

    engine: str
    checked: str
    line: str | None
    reason: str = ""


def options(files: ModelFiles, before: PositionSpec, after: PositionSpec) -> tuple[Options, ...]:
    """What turns the original files by `after`, for each engine that takes them."""
    config = None if files.kind == "gguf" else load_json(files.config_path)
    length = after.claimed.tokens
    found = []
    if config is not None:
        try:
            line, why = vllm.write_overrides(after, config, length), ""
        except ScheduleError as error:
            line, why = None, str(error)
        found.append(Options("vLLM", vllm.VERSION, line, why))
    file = as_computed(LLAMACPP, before, config, served=length)
    try:
        line, why = llamacpp.write_flags(after, file, length), ""
    except ScheduleError as error:
        line, why = None, str(error)
    found.append(Options("llama.cpp", llamacpp.VERSION, line, why))
    return tuple(found)
