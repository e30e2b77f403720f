"""One rotary encoding in the terms of a Hugging Face rope dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from ropewalk.dialects.same import Dialect
from ropewalk.rope.schedules import (
    SCHEDULES,
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
)
from ropewalk.rope.spec import RotarySpec
from ropewalk.short import short

PARAMETERS = frozenset(
    {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
    | {"attn_factor", "apply_yarn_scaling", "extrapolation_factor"}
    | {"short_mscale", "long_mscale", "finetuned"}
).union(*(record.spelled.hf_keys for record in SCHEDULES))
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
    """The dictionary by which transformers rotates as `rotary` says.

    Types that transformers lacks are written as one that computes the same: a larger base for
    ntk, longrope with two equal lists for divisors, llama3 for the paper's ramp in rotations.
    Raises ScheduleError, through `dialect`, for types with no such form.
    """
    base, scaling = rotary.rope_theta, rotary.scaling
    match scaling:
        case Ntk(factor=s) if model_type.startswith("hunyuan"):
            return Terms(base, {"rope_type": DynamicNtk.spelled.hf5, "alpha": s, "factor": 1.0})
        case Unscaled() | LargerBase() | Ntk():
            return Terms(scaling.base(rotary), _keys(Unscaled()))
        case DynamicNtk(max_position_embeddings=anchor):
            return Terms(base, _keys(scaling), anchor=anchor)
        case Linear() | Proportional():
            return Terms(base, _keys(scaling))
        case Yarn() | Llama3() | LongRope():
            return Terms(base, _keys(scaling), scaling.original_max_position_embeddings)
        case NtkByParts(s, trained, fast, slow):
            return Terms(base, _keys(Llama3(s, slow, fast, trained)), trained)
        case PairDivisors(divisors=divisors):
            equal = LongRope(divisors, divisors, UNIT_LENGTH, 1.0, 1.0)
            return Terms(base, _keys(equal), UNIT_LENGTH)
        case SteppedNtk() | UnknownScaling():
            raise dialect.refusal(
                "scaling",
                repr(scaling.name),
                "it has no rope_type whose rule is known here",
                "choose yarn, linear, ntk, llama3 or a larger base",
            )
        case _:
            assert_never(scaling)


def _keys(scaling: Scaling) -> dict[str, object]:
    """The dictionary's keys: the fields of the record that transformers reads, where they are set.

    The two ends of yarn's ramp and its truncate are left out where they are the usual ones.
    """
    keys: dict[str, object] = {"rope_type": scaling.spelled.hf5}
    numbers = scaling.numbers()
    if isinstance(scaling, Yarn):
        if (scaling.beta_fast, scaling.beta_slow) == (32.0, 1.0):
            del numbers["beta_fast"], numbers["beta_slow"]
        if scaling.truncate:
            del numbers["truncate"]
    for name, value in numbers.items():
        if value is not None and name in scaling.spelled.hf_keys | {"partial_rotary_factor"}:
            keys[name] = list(value) if isinstance(value, tuple) else value
    return keys
