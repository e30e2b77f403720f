"""llama.cpp's options for rotary scaling, written and read.

They act on the layers that see everything, over what the file says; they cannot hold a list of
divisors, unrounded ramp ends or an amplitude, which only a GGUF file can. Its server serves no more
than the context length in the file, whatever --ctx-size says; --override-kv restates that key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from ropewalk.dialects.flags import split_flags, whole
from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF
from ropewalk.dialects.hf.family import ConfigSource
from ropewalk.dialects.hf.length_keys import CLAIMED_KEYS
from ropewalk.dialects.lost import require_kept
from ropewalk.dialects.same import Dialect, require_one_list, require_same
from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import (
    UNSCALED,
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Scaling,
    SteppedNtk,
    UnknownScaling,
    Unscaled,
    Yarn,
    yarn_mscale,
)
from ropewalk.rope.spec import LayerGroup, Length, PositionSpec, RotarySpec, SourceKind

VERSION = "rules of llama.cpp in autumn 2026"

_NUMBERS = ("--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-beta-fast",
            "--yarn-beta-slow")  # fmt: skip
_WORDS = ("--ctx-size", "--rope-scaling", "--yarn-orig-ctx", "--override-kv")
_OPTIONS = {**{name: name for name in (*_WORDS, *_NUMBERS)}, "-c": "--ctx-size"}
_IN_FILE = "write it into the file with --to gguf"
_IN_CONVERTED = (
    "convert the model with its convert_hf_to_gguf.py, and write the schedule into that file: "
    "ropewalk convert MODEL --to gguf --weights FILE.gguf --out NEW.gguf"
)

_IN_TENSORS = (Llama3, LongRope, PairDivisors, Proportional)
"""Scalings that lie in tensors of the file, which no option switches off."""


def write_flags(
    spec: PositionSpec, file: PositionSpec, length: int | None = None, *, remedy: str = ""
) -> str:
    """The options that make llama.cpp rotate a file as `spec` says, as one shell line.

    `file` is what llama.cpp computes for the file without options. `length` in tokens is the
    size of the context (the claimed length where None), always stated, and once more in place of
    the file's own where that is shorter. Raises ScheduleError, naming field, value and remedy
    (`remedy` where it is given), where options cannot make it so.
    """
    served = length or spec.claimed.tokens
    usual = _IN_FILE if _is_gguf(file) else _IN_CONVERTED
    dialect = Dialect("llama.cpp's options", remedy or usual, most=served)
    if served is None:
        raise dialect.refusal("--ctx-size", "of no tokens", "no length is claimed",
                              "give --length")  # fmt: skip
    require_kept(spec, dialect, "llamacpp")
    line = f"--ctx-size {served}{_restated(file, served, dialect)}"
    changed = [
        (group, group.encoding)
        for group, present in zip(spec.groups, file.groups, strict=False)
        if isinstance(group.encoding, RotarySpec) and _differs(group.encoding, present, served)
    ]
    if changed:
        require_one_list(spec, served, dialect)
        told = [_flags(group, rotary, dialect) for group, rotary in changed]
        if any(flags != told[0] for flags in told):
            raise dialect.refusal("more than one schedule", "", "one serves all layers")
        line = f"{told[0]} {line}"
    elif served > (file.claimed.tokens or served):
        # Without it a formula would take the restated length for that of the training.
        lengths = {_formula_length(rotary.scaling) for _, rotary in file.rotary_groups()}
        line = "".join(f"--yarn-orig-ctx {n} " for n in lengths if n is not None) + line
    try:
        found = read_flags(line, file)
    except ScheduleError as error:
        raise dialect.refusal("the schedule on this file", "", str(error)) from error
    trained = spec.trained if not changed else Length.unknown()
    wanted = replace(spec, claimed=Length(served, "--ctx-size"), trained=trained)
    require_same(wanted, found, dialect)
    return line


def read_flags(text: str, file: PositionSpec) -> PositionSpec:
    """What llama.cpp makes of a file under these options; `file` is the file's own spec.

    Raises ScheduleError for options that are none, and where options and file together rotate by
    a rule that is not known here.
    """
    options = split_flags(text, _OPTIONS, "llama.cpp")
    if (stated := options.pop("--override-kv", None)) is not None:
        file = _with_length(file, stated)
    numbers = {name: _number(name, options[name]) for name in _NUMBERS if name in options}
    kind = options.get("--rope-scaling")
    if kind not in (None, "none", "linear", "yarn"):
        raise ScheduleError(f"--rope-scaling is {kind!r}; none, linear and yarn are allowed")
    groups = file.groups
    if options.keys() - {"--ctx-size"}:
        if kind == "yarn" and any(g.window is not None for g, _ in file.rotary_groups()):
            raise ScheduleError(
                "yarn by option changes the amplitude of layers with a window too, which keep "
                "their frequencies"
            )
        groups = tuple(_under(group, kind, options, numbers, file) for group in groups)
    claimed = file.claimed
    if (size := options.get("--ctx-size")) is not None:
        asked = whole("--ctx-size", size)
        if claimed.tokens is None or asked <= claimed.tokens:
            claimed = Length(asked, "--ctx-size")
        else:
            source = f"{claimed.source}, which --ctx-size {asked} does not lift"
            claimed = Length(claimed.tokens, source)
    return replace(file, groups=groups, claimed=claimed)


def _is_gguf(file: PositionSpec) -> bool:
    return file.source.kind is SourceKind.GGUF


def _architecture(file: PositionSpec) -> str | None:
    """The prefix of the file's keys; None where its converter's word is not known here."""
    return file.model_type if _is_gguf(file) else ARCHITECTURE_OF.get(file.model_type)


def _restated(file: PositionSpec, served: int, dialect: Dialect) -> str:
    """The option that lifts the file's own length to `served`, "" where none is needed.

    The server caps every slot at it: "the slot context exceeds the training context of the model".
    """
    limit = _context_length(file)
    if limit is None or served <= limit:
        return ""
    if (name := _architecture(file)) is None:
        raise dialect.refusal(
            "--ctx-size",
            served,
            f"the server stops at the {limit} tokens that the file claims, and llama.cpp's name "
            f"for {file.model_type}, with which --override-kv begins, is not known here",
            "give the converted GGUF file",
        )
    return f" --override-kv {name}.context_length=int:{served}"


def _context_length(file: PositionSpec) -> int | None:
    """What the converter writes as the context length: the key's own number, and not the claim
    that a factor makes of it.
    """
    if not isinstance(file.source, ConfigSource):
        return file.claimed.tokens
    config = file.source.family.config
    stated = next((config.length(key) for key in CLAIMED_KEYS if config.has(key)), None)
    return file.claimed.tokens if stated is None else min(stated, file.claimed.tokens or stated)


def _with_length(file: PositionSpec, stated: str) -> PositionSpec:
    """The file with the length that --override-kv puts in place of its own."""
    key, _, value = stated.partition("=int:")
    name = _architecture(file)
    if not key.endswith(".context_length") or (name and key != f"{name}.context_length"):
        raise ScheduleError(
            f"--override-kv {stated[:80]!r} does not restate the length of this "
            f"{file.model_type} file; {name or 'ARCHITECTURE'}.context_length=int:TOKENS is allowed"
        )
    tokens, old = whole("--override-kv", value), file.claimed.tokens
    groups = []
    for group in file.groups:
        scaling = getattr(group.encoding, "scaling", None)
        fallen = not file.trained.stated and old is not None and _formula_length(scaling) == old
        if fallen and isinstance(scaling, Yarn) and isinstance(group.encoding, RotarySpec):
            # Its length was the file's own, for want of an original one.
            scaling = replace(scaling, original_max_position_embeddings=tokens)
            group = replace(group, encoding=replace(group.encoding, scaling=scaling))
        groups.append(group)
    return replace(file, groups=tuple(groups), claimed=Length(tokens, "--override-kv"))


def _formula_length(scaling: Scaling | None) -> int | None:
    """The original length that llama.cpp's formula takes, where the scaling has one."""
    match scaling:
        case (
            Yarn(original_max_position_embeddings=length)
            | LongRope(original_max_position_embeddings=length)
        ):
            return length
        case _:
            return None


def _differs(wanted: RotarySpec, present: LayerGroup, served: int) -> bool:
    if not isinstance(present.encoding, RotarySpec):
        return True
    return any(
        schedule(wanted, n).fingerprint() != schedule(present.encoding, n).fingerprint()
        for n in (None, served)
    )


def _flags(group: LayerGroup, rotary: RotarySpec, dialect: Dialect) -> str:
    """The options for one group's schedule."""
    scaling = rotary.scaling
    if group.window is not None:
        raise dialect.refusal(
            "the schedule of", group.name, "options act on layers without a window alone"
        )
    match scaling:
        case Unscaled() | LargerBase() | Ntk():
            told = f"{Unscaled.spelled.gguf}"
        case Linear(factor=s):
            told = f"{scaling.spelled.gguf} --rope-scale {_shown(s)}"
        case Yarn():
            told = _yarn_flags(scaling, dialect)
        case (
            DynamicNtk() | NtkByParts() | Llama3() | LongRope() | PairDivisors()
            | Proportional() | SteppedNtk() | UnknownScaling()
        ):  # fmt: skip
            raise dialect.refusal("scaling", repr(scaling.name), "they know none, linear and yarn")
        case _:
            assert_never(scaling)
    return f"--rope-scaling {told} --rope-freq-base {_shown(scaling.base(rotary))}"


def _yarn_flags(scaling: Yarn, dialect: Dialect) -> str:
    if not scaling.truncate:
        raise dialect.refusal(
            "truncate", "false", "the ramp's ends are always rounded to whole pairs",
            "there is no other way in llama.cpp",
        )  # fmt: skip
    amplitude = scaling.amplitude()[0]
    if amplitude != yarn_mscale(scaling.factor):
        raise dialect.refusal(
            "attention_factor",
            f"{amplitude:.10g}",
            f"{yarn_mscale(scaling.factor):.10g} is computed from the scale, and "
            "--yarn-attn-factor is overwritten",
        )
    original = scaling.original_max_position_embeddings
    told = (
        f"{scaling.spelled.gguf} --rope-scale {_shown(scaling.factor)} --yarn-orig-ctx {original}"
    )
    if (scaling.beta_fast, scaling.beta_slow) != (32.0, 1.0):
        told += f" --yarn-beta-fast {_shown(scaling.beta_fast)}"
        told += f" --yarn-beta-slow {_shown(scaling.beta_slow)}"
    return told


def _under(
    group: LayerGroup,
    kind: str | None,
    options: Mapping[str, str],
    numbers: Mapping[str, float],
    file: PositionSpec,
) -> LayerGroup:
    """One group under the options; layers with a window keep what the file says."""
    rotary = group.encoding
    if not isinstance(rotary, RotarySpec) or group.window is not None:
        return group
    base = numbers.get("--rope-freq-base", rotary.rope_theta)
    scale = numbers.get("--rope-scale")
    if "--rope-freq-scale" in numbers:
        scale = 1.0 / numbers["--rope-freq-scale"]
    present = rotary.scaling
    if isinstance(present, _IN_TENSORS):
        if scale not in (None, 1.0) or kind is not None:
            raise ScheduleError(
                f"the file's own {present.name} lies in a tensor, which no option switches off"
            )
        return replace(group, encoding=replace(rotary, rope_theta=base))
    if isinstance(present, Yarn) and present.mscale_all_dim:
        raise ScheduleError("the file moves yarn's amplitude into the softmax, by its own factor")
    if kind is None:
        kind = {Yarn: "yarn", Linear: "linear"}.get(type(present), "linear")
    factor = getattr(present, "factor", 1.0) if scale is None else scale
    scaling: Scaling = UNSCALED
    if kind == "linear" and factor != 1.0:
        scaling = Linear(factor)
    elif kind == "yarn":
        scaling = _yarn(present, factor, options, numbers, file)
    return replace(group, encoding=replace(rotary, rope_theta=base, scaling=scaling))


def _yarn(
    present: Scaling,
    factor: float,
    options: Mapping[str, str],
    numbers: Mapping[str, float],
    file: PositionSpec,
) -> Yarn:
    """YaRN by option; the file's own factor on the amplitude stays."""
    own = present if isinstance(present, Yarn) else None
    trained = file.trained.tokens or file.claimed.tokens
    ramp = own.original_max_position_embeddings if own else trained
    if (stated := options.get("--yarn-orig-ctx")) is not None:
        ramp = whole("--yarn-orig-ctx", stated)
    if ramp is None:
        raise ScheduleError("yarn needs --yarn-orig-ctx: the file states no length")
    times = own.amplitude()[0] / yarn_mscale(own.factor) if own else 1.0
    return Yarn(
        factor,
        ramp,
        beta_fast=numbers.get("--yarn-beta-fast", own.beta_fast if own else 32.0),
        beta_slow=numbers.get("--yarn-beta-slow", own.beta_slow if own else 1.0),
        attention_factor=None if times == 1.0 else yarn_mscale(factor) * times,
    )


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e15:
        raise ScheduleError(f"{name} is {text[:40]!r}; a number above 0 is allowed")
    return value


def _shown(value: float) -> str:
    """A number that reads back as it was, without a needless fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
