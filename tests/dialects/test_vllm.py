"""vLLM's options: what they say is what vLLM computes for every prompt served, or an error."""

from __future__ import annotations

import contextlib
import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.vllm import read_overrides, write_overrides
from ropewalk.errors import RopewalkError, ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.override import override
from ropewalk.rope.schedules import (
    DynamicNtk,
    LargerBase,
    Linear,
    Llama3,
    LongRope,
    Ntk,
    PairDivisors,
    Scaling,
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import PositionSpec, RotarySpec
from tests.configurations import source

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32768,
    "rope_theta": 5e5,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}
SOURCE = source(CONFIG)
LATENT: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 8192,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
}
GPT_OSS = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 1024,
}


def scaled(spec: PositionSpec, scaling: Scaling) -> PositionSpec:
    groups = tuple(
        replace(g, encoding=replace(g.encoding, scaling=scaling))
        if isinstance(g.encoding, RotarySpec)
        else g
        for g in spec.groups
    )
    return replace(spec, groups=groups)


def test_the_line_is_for_a_shell_and_states_everything() -> None:
    spec = override(override(read_config(CONFIG), "none"), "yarn:4")
    words = shlex.split(write_overrides(spec, SOURCE))
    assert words[0::2] == ["--hf-overrides", "--max-model-len"]
    assert words[3] == "32768"
    assert json.loads(words[1]) == {
        "max_position_embeddings": 32768,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 5e5,
            "factor": 4.0,
            # What it was trained on: its factor of 2 stretches that to the 32,768 it claims.
            "original_max_position_embeddings": 16384,
        },
    }


FACTORS = st.floats(1.0, 64.0)
LISTS = st.lists(st.floats(1.0, 64.0), min_size=32, max_size=32).map(tuple)
SCALINGS: st.SearchStrategy[Scaling] = st.one_of(
    st.just(Unscaled()),
    st.builds(Linear, FACTORS),
    st.builds(Ntk, FACTORS),
    st.builds(LargerBase, st.floats(1e4, 1e9)),
    st.builds(DynamicNtk, FACTORS, st.just(32768)),
    st.builds(
        Yarn,
        FACTORS,
        st.just(4096),
        truncate=st.booleans(),
        attention_factor=st.none() | st.floats(0.5, 2.0),
        mscale=st.none() | st.floats(0.1, 2.0),
        mscale_all_dim=st.none() | st.floats(0.1, 2.0),
    ),
    st.builds(Llama3, FACTORS, st.just(1.0), st.floats(2.0, 8.0), st.just(8192)),
    st.builds(LongRope, LISTS, LISTS, st.just(4096), FACTORS, st.none() | st.floats(0.5, 2.0)),
    st.builds(PairDivisors, LISTS),
)


@settings(max_examples=100, deadline=None)
@given(scaling=SCALINGS, served=st.integers(1, 32768))
def test_options_are_read_back_as_the_same_schedule_or_refused(
    scaling: Scaling, served: int
) -> None:
    wanted = scaled(read_config(CONFIG), scaling)
    try:
        line = write_overrides(wanted, SOURCE, served)
    except ScheduleError:
        assert isinstance(scaling, LongRope)
        assert served > scaling.original_max_position_embeddings
        return
    found = read_overrides(line, SOURCE)
    assert found.claimed.tokens == served
    (_, ours), (_, theirs) = next(wanted.rotary_groups()), next(found.rotary_groups())
    for length in (1, served // 2, served):
        assert schedule(ours, length).fingerprint() == schedule(theirs, length).fingerprint()


def test_lists_that_switch_are_written_for_one_side_of_the_switch() -> None:
    short, long = (1.0,) * 32, tuple(1.0 + i for i in range(32))
    spec = scaled(read_config(CONFIG), LongRope(short, long, 4096, 8.0))
    with pytest.raises(ScheduleError, match=r"longrope of two lists.*at most 4096 tokens"):
        write_overrides(spec, SOURCE)
    line = write_overrides(spec, SOURCE, 4096)
    # vLLM takes no attention_factor here; its own keys carry the amplitude.
    assert '"long_mscale": 1.118' in line


def test_a_text_part_is_overridden_where_it_is() -> None:
    whole = {"model_type": "qwen2_5_vl", "text_config": {**CONFIG, "model_type": "qwen2_5_vl_text"}}
    line = write_overrides(read_config(whole), source(whole))
    (inner,) = json.loads(shlex.split(line)[1]).items()
    assert inner[0] == "text_config"
    assert inner[1]["rope_parameters"]["factor"] == 2.0


def test_a_prompt_beyond_the_claim_needs_a_schedule() -> None:
    with pytest.raises(ScheduleError, match=r"max-model-len 65536.*--rope"):
        write_overrides(read_config(CONFIG), SOURCE, 65536)


@pytest.mark.parametrize(
    "text",
    [
        "--hf-overrides '{'",
        "--hf-overrides '[1]'",
        "--hf-overrides",
        "--rope-scaling yarn",
        "--max-model-len -5",
        "--max-model-len 1e99",
        '--hf-overrides "{',
        '--hf-overrides \'{"rope_parameters": {"rope_type": "yarn", "factor": "4"}}\'',
    ],
)
def test_options_that_are_none_are_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(RopewalkError):
        read_overrides(text, SOURCE)


@given(st.text(max_size=60))
def test_any_text_is_options_or_an_error(text: str) -> None:
    with contextlib.suppress(RopewalkError):
        read_overrides(text, SOURCE)


@pytest.mark.parametrize("model_type", ["deepseek_v2", "deepseek_v3", "glm4_moe_lite"])
@pytest.mark.parametrize(
    ("rope", "made"),
    [
        ({"rope_type": "linear", "factor": 4.0}, "KeyError: original_max_position_embeddings"),
        (
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 2048,
            },
            # 0.1 ln 8 + 1, as the cos and sin of vLLM 0.32.0's model of such a file have it.
            "cos and sin x 1.20794",
        ),
    ],
)
def test_what_vllm_s_latent_attention_makes_of_other_schedules_is_named(
    model_type: str, rope: dict[str, Any], made: str
) -> None:
    before = {**LATENT, "model_type": model_type, "rope_parameters": rope | {"rope_theta": 1e4}}
    with pytest.raises(ScheduleError, match=made):
        write_overrides(read_config(before), source(before))


def test_gpt_oss_is_given_both_ends_of_its_ramp() -> None:
    before = {**CONFIG, "model_type": "gpt_oss", "head_dim": 64, "rope_scaling": GPT_OSS}
    before.pop("rope_parameters", None)
    line = write_overrides(read_config(before), source(before))
    rope = json.loads(shlex.split(line)[1])["rope_parameters"]
    assert (rope["beta_fast"], rope["beta_slow"]) == (32.0, 1.0)
    with pytest.raises(ScheduleError, match="its gpt_oss computes YaRN whatever the type is"):
        write_overrides(override(read_config(before), "none"), source(before))
