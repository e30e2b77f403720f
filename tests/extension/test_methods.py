"""Methods against published figures, and against transformers' own rope functions."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleError
from ropewalk.extension.methods import (
    CLOSED_FORMS,
    Method,
    against,
    extended,
    searched,
)
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.schedules import LongRope, Yarn
from ropewalk.rope.schedules.longrope import critical_factors
from ropewalk.rope.spec import PositionSpec, RotarySpec
from tests.configurations import write_json

LLAMA_2: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


def spec(**changes: Any) -> PositionSpec:
    return read_config({**LLAMA_2, **changes})


def rotary(spec: PositionSpec) -> RotarySpec:
    (_, encoding), *_ = spec.rotary_groups()
    return encoding


def named(name: str) -> Method:
    return next(each for each in CLOSED_FORMS if each.name == name)


# 2310.05209, section 3, for Llama 2: the base that tuning at a length needs.
@pytest.mark.parametrize(
    ("target", "base"),
    [(8192, 26_784), (16384, 71_738), (32768, 192_144), (65536, 514_640), (131072, 1_378_414)],
)
def test_the_larger_base_is_the_published_critical_one(target: int, base: int) -> None:
    assert round(rotary(extended(spec(), target, named("base"))).rope_theta) == base


# The NTK-aware proposal's table for 128 channels and base 10,000.
@pytest.mark.parametrize(
    ("s", "base"), [(2, 20_221.3), (4, 40_889.9), (8, 82_684.6), (16, 167_198.7), (32, 338_096.9)]
)
def test_ntk_raises_the_base_as_published(s: int, base: float) -> None:
    after = extended(spec(), 4096 * s, named("ntk"))
    written = write_json(after, LLAMA_2, 4)
    assert written["rope_theta"] == pytest.approx(base, abs=0.05)
    assert written["max_position_embeddings"] == 4096 * s


def test_yarn_for_llama_2_at_16_times_has_the_published_ramp_and_amplitude() -> None:
    scaling = rotary(extended(spec(), 65536, named("yarn"))).scaling
    assert isinstance(scaling, Yarn)
    assert scaling.bounds(10000.0, 128) == (20, 46)
    assert scaling.amplitude()[0] == pytest.approx(1.277259, abs=1e-6)


def test_llama3_at_8_times_has_llama_3_1s_own_table() -> None:
    before = spec(max_position_embeddings=8192, rope_theta=500_000.0)
    after = extended(before, 65536, named("llama3"))
    divisors, _ = against(rotary(before), rotary(after), 65536)
    assert divisors[:29] == pytest.approx([1.0] * 29)
    assert divisors[29:35] == pytest.approx(
        [1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327], rel=1e-6
    )
    assert divisors[35:] == pytest.approx([8.0] * 29)


def test_longrope_has_phi_3s_amplitude_at_32_times() -> None:
    after = extended(spec(), 131072, named("longrope"))
    assert frequencies(after, 131072).attention_factor == pytest.approx(1.190238, abs=1e-6)
    assert rotary(after).pairs == len(critical_factors(rotary(spec()), 4096, 131072))


def test_the_rule_for_longrope_grows_to_the_published_critical_pair_of_llama_2() -> None:
    divisors = critical_factors(rotary(spec()), 4096, 32768)
    # 92 of 128 channels made a full turn in training (2310.05209, section 3).
    assert divisors[0] == 1.0
    assert divisors[45] < 8.0
    assert divisors[46:] == (8.0,) * 18
    assert all(a <= b for a, b in pairwise(divisors))


@pytest.mark.parametrize("method", CLOSED_FORMS, ids=lambda each: each.name)
def test_lengths_factor_and_base_are_changed_together(method: Method) -> None:
    before = spec()
    after = extended(before, 16384, method)
    assert (after.trained.tokens, after.claimed.tokens) == (4096, 16384)
    assert after.trained.stated
    assert frequencies(after, 16384).fingerprint() != frequencies(before, 16384).fingerprint()
    # Every method slows the slowest pair by the factor, or by more.
    divisors, _ = against(rotary(before), rotary(after), 16384)
    assert divisors[-1] >= 4.0 - 1e-9


@pytest.mark.parametrize("method", CLOSED_FORMS, ids=lambda each: each.name)
@pytest.mark.filterwarnings("ignore")
def test_transformers_rotates_by_what_is_written(method: Method) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    after = extended(spec(), 16384, method)
    written = write_json(after, LLAMA_2, 5)
    written.pop("model_type")
    module = LlamaRotaryEmbedding(LlamaConfig(**written))
    for length in (4096, 16384):
        module(torch.zeros(1), torch.tensor([[length - 1]]))
        wanted = frequencies(after, length)
        table = module.inv_freq.double()
        torch.testing.assert_close(
            table, torch.tensor(wanted.inv_freq, dtype=torch.float64), rtol=2e-6, atol=0.0
        )
        assert module.attention_scaling == pytest.approx(wanted.attention_factor)


def test_layers_with_a_window_keep_their_schedule() -> None:
    gemma = read_config(
        {
            "model_type": "gemma3_text",
            "hidden_size": 640,
            "num_attention_heads": 4,
            "head_dim": 256,
            "num_hidden_layers": 6,
            "sliding_window": 512,
            "max_position_embeddings": 32768,
        }
    )
    after = extended(gemma, 131072, named("linear"))
    changed = [b.encoding != a.encoding for b, a in zip(gemma.groups, after.groups, strict=True)]
    assert [group.window is None for group in gemma.groups] == changed


def test_a_searched_schedule_is_the_same_at_every_length() -> None:
    divisors = tuple(1.0 + i / 63 for i in range(64))
    after = extended(spec(), 8192, searched(divisors, 1.05))
    short, long = frequencies(after, 100), frequencies(after, 8192)
    assert short.fingerprint() == long.fingerprint()
    assert long.attention_factor == 1.05
    assert against(rotary(spec()), rotary(after), 8192)[0] == pytest.approx(divisors)


def test_a_factor_too_few_is_named() -> None:
    with pytest.raises(ScheduleError, match="holds 3 divisors for 64 rotary pairs"):
        extended(spec(), 8192, Method("longrope", LongRope, divisors=(1.0, 1.5, 2.0)))


def test_a_model_without_a_length_says_so() -> None:
    nameless = replace(spec(), claimed=replace(spec().claimed, tokens=None))
    with pytest.raises(ScheduleError, match="state no length"):
        extended(nameless, 8192, named("yarn"))


def test_the_ramp_in_rotations_is_not_the_ramp_by_index() -> None:
    # Llama 2 at 16 times, pair 33: 4.927 by the paper's ramp, 1.882 by that of its code.
    found = []
    for name in ("ntk-by-parts", "yarn"):
        divisors, _ = against(rotary(spec()), rotary(extended(spec(), 65536, named(name))), 65536)
        found.append(divisors[33])
    assert found == pytest.approx([4.927, 1.882], abs=1e-3)
    assert math.isclose(rotary(spec()).rope_theta, 10000.0)
