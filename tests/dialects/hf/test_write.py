"""What is written is what transformers rotates by, or it is refused; nothing else is touched."""

from __future__ import annotations

import importlib
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.override import override
from ropewalk.rope.schedules import (
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
)
from ropewalk.rope.spec import Length, PositionSpec, RotarySpec
from tests.configurations import write_json

Version = Literal[4, 5]

SMALL: dict[str, Any] = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 6}
CONFIGS = Path(os.environ.get("ROPEWALK_CONFIGS", Path(__file__).parents[4] / "shared/configs"))


def config(model_type: str = "llama", **keys: Any) -> dict[str, Any]:
    return {"model_type": model_type, "max_position_embeddings": 32768, **SMALL, **keys}


def scaled(spec: PositionSpec, scaling: Scaling, **changes: Any) -> PositionSpec:
    """The spec with every full-attention rotary group on `scaling`."""
    groups = tuple(
        replace(g, encoding=replace(g.encoding, scaling=scaling, **changes))
        if isinstance(g.encoding, RotarySpec) and g.window is None
        else g
        for g in spec.groups
    )
    return replace(spec, groups=groups)


def prints(spec: PositionSpec) -> list[str]:
    """Fingerprints of every rotary group at every telling length."""
    lengths = (None, 1000, 4096, 4097, 32768, 32769, 200_000)
    return [schedule(r, n).fingerprint() for _, r in spec.rotary_groups() for n in lengths]


def theirs(model_type: str, written: dict[str, Any], length: int | None) -> Any:
    """transformers' own inverse frequencies and amplitude, from its class and its rule."""
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    keys = {k: v for k, v in json.loads(json.dumps(written)).items() if k != "model_type"}
    made = transformers.AutoConfig.for_model(model_type, **keys)
    kind = made.rope_parameters["rope_type"]
    if kind != "default":
        return ROPE_INIT_FUNCTIONS[kind](made, None, seq_len=length)
    module = importlib.import_module(type(made).__module__.replace("configuration_", "modeling_"))
    names = [n for n in dir(module) if n.endswith("RotaryEmbedding")]
    rotary = getattr(module, names[0])(made)
    return rotary.inv_freq, rotary.attention_scaling


FACTORS = st.floats(1.0, 64.0)
LISTS = st.lists(st.floats(1.0, 64.0), min_size=32, max_size=32).map(tuple)
AMPLITUDES = st.none() | st.floats(0.5, 2.0)
SCALINGS: st.SearchStrategy[Scaling] = st.one_of(
    st.just(Unscaled()),
    st.builds(Linear, FACTORS),
    st.builds(LargerBase, st.floats(1e4, 1e9)),
    st.builds(Ntk, FACTORS),
    st.builds(DynamicNtk, FACTORS, st.just(32768)),
    st.builds(
        Yarn,
        FACTORS,
        st.sampled_from([2048, 4096, 8192]),
        beta_fast=st.floats(16.0, 40.0),
        beta_slow=st.floats(0.5, 4.0),
        truncate=st.booleans(),
        attention_factor=AMPLITUDES,
        mscale=st.none() | st.floats(0.1, 2.0),
        mscale_all_dim=st.none() | st.floats(0.1, 2.0),
    ),
    st.builds(Llama3, FACTORS, st.just(1.0), st.floats(2.0, 8.0), st.just(8192)),
    st.builds(NtkByParts, FACTORS, st.just(4096)),
    st.builds(LongRope, LISTS, LISTS, st.just(4096), FACTORS, AMPLITUDES),
    st.builds(PairDivisors, LISTS),
    st.builds(Proportional, st.floats(0.1, 1.0), FACTORS),
)


@pytest.mark.parametrize("version", [4, 5])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scaling=SCALINGS, base=st.floats(100.0, 1e8), claimed=st.integers(40_000, 10**6))
def test_what_is_written_is_read_back_and_turned_by_transformers(
    version: Version, scaling: Scaling, base: float, claimed: int
) -> None:
    if isinstance(scaling, DynamicNtk):
        scaling = replace(scaling, max_position_embeddings=claimed)
    before = config(rope_theta=5e5, rope_scaling={"type": "linear", "factor": 2.0})
    wanted = scaled(read_config(before), scaling, rope_theta=base)
    wanted = replace(wanted, claimed=Length(claimed, "test"))
    written = write_json(wanted, before, version)
    found = read_config(written)
    assert prints(found) == prints(wanted)
    assert found.claimed.tokens == claimed
    for length in (None, 4096, 4097, 4 * claimed):
        inv_freq, amplitude = theirs("llama", written, length)
        (_, ours) = next(wanted.rotary_groups())
        built = schedule(ours, length)
        assert inv_freq.tolist() == pytest.approx(built.inv_freq, rel=1e-5)
        assert amplitude == pytest.approx(built.attention_factor, rel=1e-12)


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("gpt_neox", {"rotary_pct": 0.25, "rotary_emb_base": 20000}),
        ("gpt_neox", {}),
        ("stablelm", {"partial_rotary_factor": 0.5}),
        ("phi", {}),
        ("nemotron", {}),
        ("glm4", {"head_dim": 64}),
        ("apertus", {}),
        ("qwen3", {"head_dim": 64}),
        ("smollm3", {}),
        ("gpt_oss", {"head_dim": 64}),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("scaling", [Unscaled(), Linear(4.0), Yarn(4.0, 8192, truncate=False)])
def test_families_with_their_own_keys_turn_as_written(
    model_type: str, keys: dict[str, Any], version: Version, scaling: Scaling
) -> None:
    before = config(model_type, **keys)
    spec = read_config(before)
    groups = tuple(
        replace(g, encoding=replace(g.encoding, scaling=scaling, rope_theta=30000.0))
        if isinstance(g.encoding, RotarySpec)
        else g
        for g in spec.groups
    )
    wanted = replace(spec, groups=groups, trained=Length.unknown())
    written = write_json(wanted, before, version)
    (_, ours) = next(wanted.rotary_groups())
    inv_freq, amplitude = theirs(model_type, written, None)
    assert inv_freq.tolist() == pytest.approx(schedule(ours).inv_freq, rel=1e-5)
    assert amplitude == pytest.approx(schedule(ours).attention_factor)


@pytest.mark.parametrize("version", [4, 5])
def test_gemma_3_keeps_two_bases_and_scales_the_full_layers(version: Version) -> None:
    transformers = pytest.importorskip("transformers")
    before = config("gemma3_text", head_dim=64, rope_scaling={"rope_type": "linear", "factor": 8.0})
    wanted = scaled(read_config(before), Linear(16.0), rope_theta=2e6)
    written = write_json(wanted, before, version)
    assert prints(read_config(written)) == prints(wanted)
    keys = {k: v for k, v in written.items() if k != "model_type"}
    rope = transformers.AutoConfig.for_model("gemma3_text", **keys).rope_parameters
    assert (rope["full_attention"]["factor"], rope["full_attention"]["rope_theta"]) == (16.0, 2e6)
    assert rope["sliding_attention"]["rope_type"] == "default"
    assert rope["sliding_attention"]["rope_theta"] == 1e4


def test_gemma_4_is_written_by_kind_of_layer_and_has_no_older_spelling() -> None:
    before = config("gemma4_text")
    spec = read_config(before)
    written = write_json(spec, before, 5)
    assert prints(read_config(written)) == prints(spec)
    full = scaled(spec, Linear(2.0))
    assert prints(read_config(write_json(full, before, 5))) == prints(full)
    with pytest.raises(ScheduleError, match="gemma4_text: this family has no keys"):
        write_json(spec, before, 4)


@pytest.mark.parametrize("version", [4, 5])
def test_phi_3_states_the_original_length_outside_where_its_class_looks(version: Version) -> None:
    lists = tuple(1.0 + i / 8 for i in range(32))
    before = config("phi3", original_max_position_embeddings=2048)
    wanted = scaled(read_config(before), LongRope(lists, lists, 8192, 4.0))
    written = write_json(replace(wanted, trained=Length.unknown()), before, version)
    assert written["original_max_position_embeddings"] == 8192
    _, amplitude = theirs("phi3", written, None)
    assert amplitude == pytest.approx(math.sqrt(1 + math.log(4) / math.log(8192)))


def test_leftovers_of_the_other_spelling_are_gone() -> None:
    before = config(rope_theta=5e5, rope_scaling={"type": "yarn", "factor": 2.0})
    new = write_json(override(read_config(config(rope_theta=5e5)), "none"), before, 5)
    assert new["rope_parameters"] == {"rope_type": "default", "rope_theta": 5e5}
    # mlx-lm and transformers 4 read no other key.
    assert new["rope_theta"] == 5e5
    assert "rope_scaling" not in new
    old = write_json(read_config(new), new, 4)
    assert (old["rope_theta"], old.get("rope_scaling")) == (5e5, None)
    assert "rope_parameters" not in old


def test_everything_else_is_left_as_it_was_and_the_given_config_too() -> None:
    before = config(rope_theta=1e4, quantization_config={"bits": [4, 8]}, bos_token_id=None)
    kept = json.dumps(before)
    written = write_json(override(read_config(before), "yarn:4"), before, 5)
    assert json.dumps(before) == kept
    touched = {"rope_theta", "rope_parameters", "rope_scaling", "max_position_embeddings"}
    assert {k: v for k, v in written.items() if k not in touched} == {
        k: v for k, v in before.items() if k not in touched
    }


def test_mrope_sections_stay_with_a_new_schedule() -> None:
    rope = {"type": "mrope", "mrope_section": [8, 12, 12]}
    before = {"model_type": "qwen2_vl", "text_config": config("qwen2_vl_text", rope_scaling=rope)}
    written = write_json(override(read_config(before), "yarn:2"), before, 5)
    text = written["text_config"]
    assert isinstance(text, dict)
    assert text["rope_parameters"]["mrope_section"] == [8, 12, 12]
    assert text["rope_parameters"]["rope_type"] == "yarn"
    assert "rope_parameters" not in written


@pytest.mark.parametrize("version", [4, 5])
def test_one_schedule_a_model_is_all_that_most_families_have(version: Version) -> None:
    before = config("gpt_oss", head_dim=64)
    wanted = scaled(read_config(before), Linear(2.0))
    with pytest.raises(ScheduleError, match=r"version [45] spelling cannot hold rope_parameters"):
        write_json(wanted, before, version)


def test_version_4_scales_sliding_layers_of_gemma_3_never() -> None:
    before = config("gemma3_text", head_dim=64)
    spec = read_config(before)
    groups = tuple(
        replace(g, encoding=replace(g.encoding, scaling=Linear(2.0)))
        for g in spec.groups
        if isinstance(g.encoding, RotarySpec)
    )
    wanted = replace(spec, groups=groups)
    with pytest.raises(ScheduleError, match=r"sliding layers 'linear'.*write version 5"):
        write_json(wanted, before, 4)
    written = write_json(wanted, before, 5)
    assert prints(read_config(written)) == prints(wanted)


def test_a_nested_truncate_false_is_refused_because_transformers_does_not_look_there() -> None:
    before = config("gemma3_text", head_dim=64)
    wanted = scaled(read_config(before), Yarn(4.0, 8192, truncate=False))
    with pytest.raises(ScheduleError, match=r"truncate false.*by kind of layer"):
        write_json(wanted, before, 5)


def test_phi_3_takes_no_yarn() -> None:
    before = config("phi3", original_max_position_embeddings=4096)
    wanted = scaled(read_config(before), Yarn(4.0, 4096))
    with pytest.raises(ScheduleError, match="rope_type 'yarn': transformers' phi3 takes longrope"):
        write_json(wanted, before, 5)


def test_dynamic_scaling_starts_at_the_claimed_length_or_not_at_all() -> None:
    wanted = scaled(read_config(config()), DynamicNtk(2.0, 4096))
    with pytest.raises(ScheduleError, match=r"max_position_embeddings 4096.*claimed length 32768"):
        write_json(wanted, config(), 5)


def test_a_fixed_table_cannot_be_rescaled() -> None:
    before = config("gptj", rotary_dim=64)
    assert write_json(read_config(before), before, 4) == before
    with pytest.raises(ScheduleError, match="cannot hold"):
        write_json(scaled(read_config(before), Linear(2.0)), before, 4)


def test_an_encoding_that_is_not_the_models_is_refused() -> None:
    wanted = scaled(read_config(config()), Unscaled(), rotary_dim=32)
    with pytest.raises(ScheduleError, match="cannot hold rotary_dim of all layers 32"):
        write_json(wanted, config(), 5)


def test_a_scaling_without_a_rule_in_transformers_is_refused_by_name() -> None:
    wanted = scaled(read_config(config()), UnknownScaling("spiral"))
    with pytest.raises(ScheduleError, match="scaling 'spiral'"):
        write_json(wanted, config(), 5)


PUBLISHED = sorted(CONFIGS.glob("*/config.json")) + sorted(CONFIGS.glob("*.json"))


@pytest.mark.skipif(not PUBLISHED, reason=f"no published configurations in {CONFIGS}")
@pytest.mark.parametrize("version", [4, 5])
def test_published_configurations_say_the_same_in_both_spellings(version: Version) -> None:
    done = 0
    for path in PUBLISHED:
        found = json.loads(path.read_text())
        if "model_type" not in found:
            continue
        spec = read_config(found)
        written = write_json(spec, found, version)
        assert prints(read_config(written)) == prints(spec), path
        done += 1
    assert done > 20


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("rates", [[0, 4, 128, 0], [4, 128, 4, 128]], ids=["mixed", "compressed"])
def test_deepseek_v4_as_written_turns_in_transformers_as_the_spec_says(
    rates: list[int], version: Version
) -> None:
    transformers = pytest.importorskip("transformers")
    from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4RotaryEmbedding

    config = {
        "model_type": "deepseek_v4",
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "num_hidden_layers": 4,
        "compress_ratios": rates,
        "max_position_embeddings": 1_048_576,
        "rope_scaling": {
            "type": "yarn",
            "factor": 16,
            "original_max_position_embeddings": 65_536,
        },
    }
    spec = read_config(config)
    written = write_json(spec, config, version)
    keys = {k: v for k, v in written.items() if k != "model_type"}
    module = DeepseekV4RotaryEmbedding(transformers.AutoConfig.for_model("deepseek_v4", **keys))
    for group, rotary in spec.rotary_groups():
        label = "main" if group.window else "compress"
        made = schedule(rotary)
        theirs = getattr(module, f"{label}_inv_freq").tolist()
        assert made.inv_freq == pytest.approx(theirs, rel=2e-6)
        assert made.attention_factor == getattr(module, f"{label}_attention_scaling") == 1.0
        assert rotary.placement == "last"
