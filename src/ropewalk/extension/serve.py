"""How engines serve a schedule: their options, with the version they were checked against.

Where an engine has no options for a schedule, the reason stands in their place.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ropewalk.dialects import llamacpp, vllm
from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.given import Engine
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.engines.mlx import MLX
from ropewalk.dialects.engines.transformers import TRANSFORMERS_5
from ropewalk.dialects.engines.vllm import VLLM
from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF
from ropewalk.dialects.gguf.write import check_holds
from ropewalk.dialects.hf.family import ConfigSource, config_source
from ropewalk.dialects.same import Dialect, require_one_list, require_same
from ropewalk.errors import ScheduleError
from ropewalk.rope.spec import PositionSpec, Source, SourceKind
from ropewalk.short import short

For = Literal["transformers", "vllm", "llamacpp", "mlx"]
ENGINES: dict[For, str] = {
    "transformers": "transformers",
    "vllm": "vLLM",
    "llamacpp": "llama.cpp",
    "mlx": "mlx-lm",
}
"""Whom a checkpoint can be made for, and its name in sentences."""

_RULES = {
    "transformers": "rules of transformers 5.24",
    "vllm": vllm.VERSION,
    "llamacpp": llamacpp.VERSION,
    "mlx": "rules of mlx-lm 0.32",
}
_COMPUTED: dict[For, Engine] = {
    "transformers": TRANSFORMERS_5,
    "vllm": VLLM,
    "llamacpp": LLAMACPP,
    "mlx": MLX,
}
_OTHERWISE = "give --out, and serve what is written"
_ANOTHER = "choose another method"


@short
@dataclass(frozen=True, slots=True)
class Options:
    """Options by which `engine` serves files; `line` None: `reason` why not.

    `checked` says against which version the rules were checked, `steps` the commands that have to
    be run on the files before, in order.
    """

    engine: str
    checked: str
    line: str | None
    reason: str = ""
    steps: tuple[str, ...] = ()


def options(
    before: PositionSpec, after: PositionSpec, engine: For | None = None
) -> tuple[Options, ...]:
    """Options with which an engine rotates the original files by `after`: each engine, or one."""
    source, length = before.source, after.claimed.tokens
    found = []
    if isinstance(source, ConfigSource):
        found.append(_options("vllm", lambda: vllm.write_overrides(after, source, length)))

    def flags() -> str:
        file = as_computed(LLAMACPP, before, served=length)
        return llamacpp.write_flags(after, file, length, remedy=_OTHERWISE)

    found.append(_options("llamacpp", flags))
    return tuple(each for each in found if engine is None or each.engine == ENGINES[engine])


def own_options(
    written: PositionSpec, after: PositionSpec, name: str, engine: For | None = None
) -> tuple[Options, ...]:
    """What serves the folder `name`, whose configuration was `written` to say `after`.

    By `engine`, or else by vLLM and by llama.cpp.
    """
    names: tuple[For, ...] = ("vllm", "llamacpp") if engine is None else (engine,)
    return tuple(folder_options(each, written, after, name) for each in names)


def folder_options(engine: For, written: PositionSpec, after: PositionSpec, name: str) -> Options:
    """What serves the folder `name`, whose configuration was `written` to say `after`."""
    quoted = shlex.quote(name)
    match engine:
        case "vllm":
            return _options(engine, lambda: vllm.write_own(after, config_source(written)))
        case "llamacpp":
            return _converted(written, after, quoted)
        case "mlx":
            return _as_it_is(engine, f"--model {quoted}", written, after)
        case "transformers":
            line = f"AutoModelForCausalLM.from_pretrained({name!r})"
            return _as_it_is(engine, line, written, after)


def file_options(engine: For, copy: PositionSpec, name: str) -> Options:
    """What serves a GGUF file `name` that says `copy`, by one engine."""
    length = copy.claimed.tokens
    match engine:
        case "llamacpp":

            def flags() -> str:
                file = as_computed(LLAMACPP, copy, served=length)
                return llamacpp.write_flags(copy, file, length, remedy=_ANOTHER)

            return _options(engine, flags)
        case "vllm":
            return _as_it_is(engine, f"--max-model-len {length}", copy, copy)
        case _:
            line = f"AutoModelForCausalLM.from_pretrained('.', gguf_file={name!r})"
            return _as_it_is(engine, line, copy, copy)


def _as_it_is(engine: For, line: str, written: PositionSpec, after: PositionSpec) -> Options:
    """An engine without options: it rotates by the files as `after` says, or does not."""

    def same() -> str:
        length = after.claimed.tokens
        found = as_computed(_COMPUTED[engine], written, served=length)
        dialect = Dialect(ENGINES[engine], _ANOTHER, most=length)
        if engine != "transformers":
            require_one_list(after, length or 0, dialect)
        require_same(after, found, dialect)
        return line

    return _options(engine, same)


def _converted(written: PositionSpec, after: PositionSpec, name: str) -> Options:
    """llama.cpp on the file that its converter makes of a folder: as it comes out, or with the
    schedule written into it where the converter loses that.
    """
    length = after.claimed.tokens

    def as_converted() -> str:
        file = as_computed(LLAMACPP, written, served=length)
        return llamacpp.write_flags(after, file, length)

    def rewritten() -> str:
        architecture = ARCHITECTURE_OF.get(after.model_type)
        if architecture is None:
            raise ScheduleError(
                f"what llama.cpp calls {after.model_type} is not known here, nor whether it loads "
                f"such a schedule; convert the model first, and extend that file"
            )
        check_holds(after, architecture)
        copy = replace(after, model_type=architecture, source=Source(SourceKind.GGUF))
        file = as_computed(LLAMACPP, copy, served=length)
        return llamacpp.write_flags(after, file, length, remedy=_ANOTHER)

    convert = f"python convert_hf_to_gguf.py {name} --outfile"
    plain = _options("llamacpp", as_converted, (f"{convert} {name}.gguf",))
    if plain.line is not None:
        return plain
    write = f"ropewalk convert {name} --to gguf --weights {name}-converted.gguf --out {name}.gguf"
    return _options("llamacpp", rewritten, (f"{convert} {name}-converted.gguf", write))


def _options(engine: For, write: Callable[[], str], steps: tuple[str, ...] = ()) -> Options:
    name, checked = ENGINES[engine], _RULES[engine]
    try:
        return Options(name, checked, write(), steps=steps)
    except ScheduleError as error:
        return Options(name, checked, None, str(error))
