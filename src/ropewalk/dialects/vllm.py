"""vLLM's options: `--hf-overrides '{...}' --max-model-len N`, written and read.

Rules as measured on vLLM 0.32.0, with transformers 5. vLLM decides
everything that depends on a length when it is loaded, so a schedule that changes with the prompt
can be written only for lengths within which it does not.
"""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Mapping
from dataclasses import replace

from ropewalk.dialects.engines.views import as_computed
from ropewalk.dialects.engines.vllm import VLLM
from ropewalk.dialects.flags import split_flags, whole
from ropewalk.dialects.hf.family import TEXT_PARTS, ConfigSource, config_source
from ropewalk.dialects.hf.length_keys import CLAIMED_KEYS
from ropewalk.dialects.hf.reader import read_again
from ropewalk.dialects.hf.write import text_part, write_config
from ropewalk.dialects.lost import require_kept
from ropewalk.dialects.same import Dialect, require_one_list, require_same
from ropewalk.errors import ScheduleError
from ropewalk.rope.schedules import (
    LargerBase,
    Linear,
    LongRope,
    Ntk,
    Unscaled,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.spec import Length, PositionSpec

VERSION = "rules as of vLLM 0.32, with transformers 5"

_OPTIONS = {name: name for name in ("--hf-overrides", "--max-model-len")}
_REMEDY = "serve a shorter --length, or a schedule that is the same for every prompt"

Json = dict[str, object]


def write_overrides(spec: PositionSpec, source: ConfigSource, length: int | None = None) -> str:
    """The options that make vLLM rotate the model of `source` as `spec` says, as one shell line.

    `length` in tokens is the longest prompt to serve (the claimed length where None) and is
    always stated. Raises ScheduleError, naming field, value and remedy, where vLLM would compute
    anything else for a prompt of up to `length` tokens.
    """
    claimed = spec.claimed.tokens
    served = length or claimed
    dialect = Dialect("vLLM", _REMEDY, most=served)
    if served is None:
        raise dialect.refusal("--max-model-len", "of no tokens", "no length is claimed",
                              "give --length")  # fmt: skip
    if claimed is not None and served > claimed:
        raise dialect.refusal(
            "--max-model-len",
            served,
            f"it is above the claimed length {claimed}",
            "choose a schedule for that length with --rope",
        )
    require_one_list(spec, served, dialect)
    require_kept(spec, dialect, "vllm")
    _refuse_by_family(spec, dialect)
    written = dict(
        config_source(write_config(replace(spec, extended=None), source, 5, both=False)).config
    )
    path = [part for part in source.family.config.path.split(".") if part]
    before, text = source.family.config.values, text_part(written, source.family)
    overrides: Json = {
        key: value
        for key, value in text.items()
        if key in ("rope_parameters", CLAIMED_KEYS[0]) or before.get(key) != value
    }
    _state_amplitude(spec, overrides)
    for part in reversed(path):
        overrides = {part: overrides}
    stated = shlex.quote(json.dumps(overrides, allow_nan=False))
    line = f"--hf-overrides {stated} --max-model-len {served}"
    wanted = replace(spec, claimed=Length(served, "--max-model-len"))
    require_same(wanted, read_overrides(line, source), dialect)
    return line


def write_own(spec: PositionSpec, source: ConfigSource) -> str:
    """The options for a configuration that says itself what `spec` says: its claimed length alone,
    where vLLM rotates by the file as `spec` says.

    Without the length vLLM would multiply what the file claims by its factor. Raises as
    `write_overrides`, whose options these are where the file alone does not do.
    """
    served = spec.claimed.tokens
    line = f"--max-model-len {served}"
    wanted = replace(spec, claimed=Length(served, "--max-model-len"))
    try:
        require_same(wanted, read_overrides(line, source), Dialect("vLLM", _REMEDY, most=served))
    except ScheduleError:
        return write_overrides(spec, source)
    return line


def read_overrides(text: str, source: ConfigSource) -> PositionSpec:
    """What vLLM makes of the model of `source` under these options.

    A dictionary of a part of the model (`text_config`) is merged into it, any other value takes
    the place of the old one. The spec's claimed length is `--max-model-len`. Raises ScheduleError
    for options that are none, ConfigError for values that no configuration can have.
    """
    options = split_flags(text, _OPTIONS, "vLLM")
    changed: Json = copy.deepcopy(dict(source.config))
    if (stated := options.get("--hf-overrides")) is not None:
        try:
            overrides = json.loads(stated)
        except (ValueError, RecursionError) as error:
            raise ScheduleError(f"--hf-overrides holds no JSON: {error}") from error
        if not isinstance(overrides, dict):
            raise ScheduleError("--hf-overrides holds no JSON object; {...} is allowed")
        _merge(changed, overrides)
    named = replace(source, whole=replace(source.whole, where="--hf-overrides"))
    found = read_again(named, changed)
    limit = options.get("--max-model-len")
    served = found.claimed.tokens if limit is None else whole("--max-model-len", limit)
    computed = as_computed(VLLM, found, served=served)
    if limit is None:
        return computed
    return replace(computed, claimed=Length(served, "--max-model-len"))


def _refuse_by_family(spec: PositionSpec, dialect: Dialect) -> None:
    """What vLLM's code of a family makes of a schedule, whatever the file calls it.

    Seen on vLLM 0.32.0: DeepSeek's attention calls every type but default its own YaRN, and
    gpt-oss takes the numbers of YaRN out of every dictionary.
    """
    for _, rotary in spec.rotary_groups():
        match rotary.scaling:
            case Yarn():
                continue
            case Unscaled() | LargerBase() | Ntk() if spec.model_type != "gpt_oss":
                continue
            case scaling if spec.model_type == "gpt_oss":
                raise dialect.refusal(
                    "scaling",
                    repr(scaling.name),
                    "its gpt_oss computes YaRN whatever the type is, and stops with a KeyError "
                    "without YaRN's keys",
                    "use yarn",
                )
            case Linear() as scaling if _deepseek(spec):
                raise dialect.refusal(
                    "scaling",
                    repr(scaling.name),
                    "its latent attention calls every type YaRN, and stops with a KeyError: "
                    "original_max_position_embeddings",
                    "use yarn or base:THETA",
                )
            case scaling if _deepseek(spec):
                s = float(getattr(scaling, "factor", 1.0))
                raise dialect.refusal(
                    "scaling",
                    repr(scaling.name),
                    "its latent attention calls every type YaRN, and would rotate by YaRN's ramp "
                    f"with cos and sin x {yarn_mscale(s):.6g}",
                    "use yarn or base:THETA",
                )


def _deepseek(spec: PositionSpec) -> bool:
    """Whether vLLM runs the model by DeepSeek's attention; MiniCPM3 has latent attention too."""
    return spec.source.latent and spec.model_type != "minicpm3"


def _merge(config: Json, overrides: Mapping[str, object]) -> None:
    for key, value in overrides.items():
        part = config.get(key)
        if key in TEXT_PARTS and isinstance(part, dict) and isinstance(value, dict):
            _merge(part, value)
        else:
            config[key] = value
    if "rope_parameters" in overrides:
        # transformers 5 has moved it there before the overrides are applied.
        config.pop("rope_scaling", None)


def _state_amplitude(spec: PositionSpec, overrides: Json) -> None:
    """LongRoPE's amplitude in vLLM's own words: it does not read factor or attention_factor."""
    rope = overrides.get("rope_parameters")
    amplitudes = {
        rotary.scaling.amplitude()[0]
        for _, rotary in spec.rotary_groups()
        if isinstance(rotary.scaling, LongRope)
    }
    if isinstance(rope, dict) and rope.get("rope_type") == "longrope":
        value = amplitudes.pop() if amplitudes else 1.0
        rope |= {"short_mscale": value, "long_mscale": value}
