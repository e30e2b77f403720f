"""One rotary encoding in the terms of a Hugging Face rope dictionary."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.length_keys import ORIGINAL
from ropewalk.dialects.same import Dialect
from ropewalk.rope.frequencies import ntk_base
from ropewalk.rope.scaling import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    NtkByParts,
    PairDivisors,
    Proportional,
    Unscaled,
    Yarn,
    name_of,
)
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

PARAMETERS = frozenset(
    {"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "alpha", ORIGINAL}
    | {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"}
    | {"low_freq_factor", "high_freq_factor", "short_factor", "long_factor"}
    | {"attn_factor", "apply_yarn_scaling", "extrapolation_factor"}
    | {"short_mscale", "long_mscale", "finetuned"}
)
"""Every key by which some engine scales: none may be left over from another schedule."""

UNIT_LENGTH = 8192
"""tokens; stands where a rule needs some length and its numbers do not depend on it."""


@short
@dataclass(frozen=True, slots=True)
class Terms:
    """A base and the keys of a schedule beside it.

    `original`: the reference length among the keys, None where the type has none. `anchor`: the
    claimed length that the type takes for granted, in tokens.
    """

    base: float
    keys: dict[str, object]
    original: int | None = None
    anchor: int | None = None


def terms_of(rotary: RotarySpec, model_type: str, dialect: Dialect) -> Terms:
    """The dictionary that transformers turns by as `rotary` says.

    Types that transformers lacks are written as one that computes the same: a larger base for
    ntk, longrope with two equal lists for divisors, llama3 for the paper's ramp in turns.
    Raises ScheduleError, through `dialect`, for types with no such form.
    """
    base, scaling = rotary.rope_theta, rotary.scaling
    match scaling:
        case Unscaled():
            return Terms(base, {"rope_type": "default"})
        case LargerBase(rope_theta=larger):
            return Terms(larger, {"rope_type": "default"})
        case Ntk(factor=s) if model_type.startswith("hunyuan"):
            return Terms(base, {"rope_type": "dynamic", "alpha": s, "factor": 1.0})
        case Ntk(factor=s):
            return Terms(ntk_base(base, rotary.rotary_dim, s), {"rope_type": "default"})
        case Linear(factor=s):
            return Terms(base, {"rope_type": "linear", "factor": s})
        case DynamicNtk(factor=s, max_position_embeddings=anchor):
            return Terms(base, {"rope_type": "dynamic", "factor": s}, anchor=anchor)
        case Yarn():
            return _yarn(base, scaling)
        case Llama3(s, low, high, anchor):
            return _llama3(base, s, low, high, anchor)
        case NtkByParts(s, trained, fast, slow):
            return _llama3(base, s, slow, fast, trained)
        case LongRope():
            return _longrope(base, scaling)
        case PairDivisors(divisors=divisors):
            return _longrope(base, LongRope(divisors, divisors, UNIT_LENGTH, 1.0, 1.0))
        case Proportional(partial_rotary_factor=share, factor=s):
            keys = {"rope_type": "proportional", "partial_rotary_factor": share, "factor": s}
            return Terms(base, keys)
        case _:
            raise dialect.refusal(
                "scaling",
                repr(name_of(scaling)),
                "it has no rope_type whose rule is known here",
                "choose yarn, linear, ntk, llama3 or a larger base",
            )


def _yarn(base: float, scaling: Yarn) -> Terms:
    original = scaling.original_max_position_embeddings
    keys: dict[str, object] = {"rope_type": "yarn", "factor": scaling.factor, ORIGINAL: original}
    if (scaling.beta_fast, scaling.beta_slow) != (32.0, 1.0):
        keys |= {"beta_fast": scaling.beta_fast, "beta_slow": scaling.beta_slow}
    for name in ("attention_factor", "mscale", "mscale_all_dim"):
        if (value := getattr(scaling, name)) is not None:
            keys[name] = value
    if not scaling.truncate:
        keys["truncate"] = False
    return Terms(base, keys, original)


def _llama3(base: float, factor: float, low: float, high: float, original: int) -> Terms:
    keys: dict[str, object] = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        ORIGINAL: original,
    }
    return Terms(base, keys, original)


def _longrope(base: float, scaling: LongRope) -> Terms:
    original = scaling.original_max_position_embeddings
    keys: dict[str, object] = {
        "rope_type": "longrope",
        "factor": scaling.factor,
        "short_factor": list(scaling.short_factor),
        "long_factor": list(scaling.long_factor),
        ORIGINAL: original,
    }
    if scaling.attention_factor is not None:
        keys["attention_factor"] = scaling.attention_factor
    return Terms(base, keys, original)
