"""The scaling types: values, comparable, hashable, each with the name configurations use."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import get_args

import pytest

from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.scaling import (
    NAMES,
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
    UnknownScaling,
    Unscaled,
    Yarn,
    depends_on_length,
    name_of,
)
from ropewalk.rope.spec import RotarySpec


def test_every_type_of_the_union_has_a_name() -> None:
    assert set(NAMES) == set(get_args(Scaling))
    assert len(set(NAMES.values())) == len(NAMES)


def test_the_names_are_those_of_transformers_registry() -> None:
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    theirs = set(rope_utils.ROPE_INIT_FUNCTIONS) & {
        "default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"
    }  # fmt: skip
    assert theirs <= set(NAMES.values())


def test_an_unknown_scaling_keeps_its_own_name() -> None:
    assert name_of(UnknownScaling("telescope")) == "telescope"
    assert name_of(UNSCALED) == "default"


def test_scalings_are_values() -> None:
    assert Unscaled() == UNSCALED
    assert hash(Yarn(4.0, 4096)) == hash(Yarn(4.0, 4096))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Yarn(4.0, 4096).factor = 2.0  # type: ignore[misc]


def test_yarns_defaults_are_those_of_the_paper() -> None:
    yarn = Yarn(4.0, 4096)
    assert (yarn.beta_fast, yarn.beta_slow, yarn.truncate) == (32.0, 1.0, True)


LENGTH = "it must be a whole number of tokens"
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Linear(0.0), "linear scaling factor is 0.0; it must be a number above 0"),
    (lambda: Linear(-2.0), "linear scaling factor is -2.0"),
    (lambda: Linear(math.nan), "linear scaling factor is nan"),
    (lambda: Linear(math.inf), "linear scaling factor is inf"),
    (lambda: Linear(1e16), "at most 1e"),
    (lambda: Linear("4"), "linear scaling factor is '4'"),  # type: ignore[arg-type]
    (lambda: Linear(True), "linear scaling factor is True"),
    (lambda: Ntk(0.5), "ntk scaling factor is 0.5; it must be a number of at least 1"),
    (lambda: LargerBase(1.0), "larger base is 1.0; it must be a number above 1"),
    (lambda: DynamicNtk(0.9, 4096), "dynamic scaling factor is 0.9"),
    (lambda: DynamicNtk(2.0, 0), f"dynamic max_position_embeddings is 0; {LENGTH}"),
    (lambda: NtkByParts(0.5, 4096), "by-parts scaling factor is 0.5"),
    (lambda: NtkByParts(4.0, 4096, beta_slow=33.0), "beta_slow is 33.0 and above beta_fast 32"),
    (lambda: NtkByParts(4.0, None), "original_max_position_embeddings is missing"),  # type: ignore[arg-type]
    (lambda: Yarn(0.5, 4096), "yarn scaling factor is 0.5; .*the new length over the trained one"),
    (lambda: Yarn(4.0, None), f"yarn original_max_position_embeddings is missing; {LENGTH}"),  # type: ignore[arg-type]
    (lambda: Yarn(4.0, -1), "yarn original_max_position_embeddings is -1"),
    (lambda: Yarn(4.0, 4096.5), "yarn original_max_position_embeddings is 4096.5"),  # type: ignore[arg-type]
    (lambda: Yarn(4.0, 2**53 + 1), "2\\^53"),
    (lambda: Yarn(4.0, 4096, beta_fast=0.0), "yarn beta_fast is 0.0"),
    (lambda: Yarn(4.0, 4096, beta_fast=1.0, beta_slow=32.0), "above beta_fast 1.0.*swapped"),
    (lambda: Yarn(4.0, 4096, attention_factor=0.0), "attention_factor is 0.0.*leave it out"),
    (lambda: Yarn(4.0, 4096, mscale=-1.0), "yarn mscale is -1.0"),
    (lambda: Yarn(4.0, 4096, mscale_all_dim=math.nan), "mscale_all_dim is nan"),
    (lambda: Llama3(8.0, 4.0, 1.0, 8192), "low_freq_factor is 4.0 and above high_freq_factor 1.0"),
    (lambda: Llama3(8.0, 0.0, 4.0, 8192), "low_freq_factor is 0.0"),
    (lambda: Llama3(0.5, 1.0, 4.0, 8192), "llama3 scaling factor is 0.5"),
    (lambda: Llama3(8.0, 1.0, 4.0, 0), "llama3 original_max_position_embeddings is 0"),
    (lambda: LongRope((1.0,) * 3, (1.0,) * 4, 4096, 2.0), "holds 3 divisors and long_factor 4"),
    (lambda: LongRope((), (), 4096, 2.0), r"short_factor is \(\); it must be a tuple of numbers"),
    (lambda: LongRope((1.0,), (-1.0,), 4096, 2.0), "long_factor holds the divisor -1.0 for pair 0"),
    (lambda: LongRope((1.0,), (1.0,), 1, 2.0), "original_max_position_embeddings is 1; .*from 2"),
    (lambda: LongRope((1.0,), (1.0,), 4096, 0.5), "longrope scaling factor is 0.5"),
    (lambda: PairDivisors((1.0, 0.0)), "rope_freqs holds the divisor 0.0 for pair 1"),
    (lambda: PairDivisors((math.inf,)), "holds the divisor inf"),
    (lambda: PairDivisors([1.0]), r"rope_freqs is \[1.0\]; it must be a tuple"),  # type: ignore[arg-type]
    (lambda: Proportional(0.0), "proportional partial_rotary_factor is 0.0"),
    (lambda: Proportional(1.5), "proportional partial_rotary_factor is 1.5; .*at most 1"),
    (lambda: Proportional(0.25, 0.5), "proportional scaling factor is 0.5"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_impossible_values_are_refused_when_they_are_made(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ScheduleError, match=message) as told:
        make()
    assert len(str(told.value)) < 250


def test_what_published_models_hold_is_accepted() -> None:
    Llama3(16.0, 1.0, 1.0, 8192)  # Llama 4 Scout: a hard cut
    Yarn(40.0, 4096, mscale=0.707, mscale_all_dim=0.0)
    LongRope((1.03,), (64.81,), 4096, 32.0)  # Phi-3: divisors above the factor
    PairDivisors((1.0, 1e30))  # Gemma 4 as GGUF: a pair that stands still
    Linear(0.5)  # squeezes, and engines do so when told
    Proportional(0.25)


@pytest.mark.parametrize(
    "scaling",
    [
        UNSCALED,
        Linear(2.0),
        Ntk(2.0),
        DynamicNtk(2.0, 64),
        DynamicNtk(1.0, 64),
        Yarn(4.0, 4096),
        Llama3(8.0, 1.0, 4.0, 64),
        LongRope((1.0,) * 4, (2.0,) * 4, 64, 2.0),
        LongRope((2.0,) * 4, (2.0,) * 4, 64, 2.0),
        Proportional(0.5),
    ],
    ids=repr,
)
def test_what_depends_on_the_length_is_what_changes_with_it(scaling: Scaling) -> None:
    rotary = RotarySpec(8, 8, 1e4, scaling=scaling)
    changes = schedule(rotary, 64).inv_freq != schedule(rotary, 4096).inv_freq
    assert depends_on_length(scaling) == changes
