"""Live transformers modules, sound and spoiled in the ways that real reports describe."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
)

import ropewalk
from ropewalk.dialects.hf import read_config
from ropewalk.errors import UsageError
from ropewalk.findings.live import LiveCheck, compare_tables
from ropewalk.rope.diagnostics import alibi_slopes
from ropewalk.rope.schedules import Linear
from ropewalk.rope.spec import AlibiSpec, LayerGroup, Length, PositionSpec, RotarySpec

YARN = {
    "rope_type": "yarn", "factor": 4.0, "rope_theta": 50_000.0,
    "original_max_position_embeddings": 512,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "rope_theta": 500_000.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
PLAIN = {"rope_type": "default", "rope_theta": 500_000.0}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10_000.0, "factor": 4.0,
    "short_factor": [1.0 + 0.1 * i for i in range(8)],
    "long_factor": [1.0 + 2.0 * i for i in range(8)],
    "original_max_position_embeddings": 512,
}  # fmt: skip


def checked(module: torch.nn.Module, length: int | None = None) -> LiveCheck:
    found = ropewalk.audit(module, length=length).live
    assert found is not None
    return found


def llama(rope: dict[str, object] | None = None) -> LlamaForCausalLM:
    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        num_attention_heads=4,
        intermediate_size=64,
        vocab_size=64,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        rope_parameters=dict(rope or PLAIN),
    )
    return LlamaForCausalLM(config)


@pytest.mark.parametrize("rope", [PLAIN, YARN, LLAMA3, LINEAR, DYNAMIC, LONGROPE],
                         ids=lambda r: str(r["rope_type"]))  # fmt: skip
def test_a_freshly_built_model_agrees_with_its_configuration(rope: dict[str, object]) -> None:
    live = checked(llama(rope))
    assert live.verdict == "agrees", live.sentence
    (table,) = live.tables
    assert (table.path, table.table, table.dtype) == ("model.rotary_emb", "inv_freq", "float32")
    assert table.max_relative_difference < 2e-6
    assert table.attention_factor == pytest.approx(table.expected_attention_factor)


def test_rope_parameters_set_after_loading_do_nothing() -> None:
    model = llama(PLAIN)
    model.config.rope_parameters = {**YARN, "rope_theta": PLAIN["rope_theta"]}
    live = checked(model)
    assert live.verdict == "differs"
    assert live.tables[0].code == "unscaled"
    assert "set after loading" in live.sentence
    assert "GGUF" in live.sentence


def test_a_base_that_the_loader_did_not_find_is_named() -> None:
    model = llama(PLAIN)
    spoiled = llama({"rope_type": "default", "rope_theta": 10_000.0})
    model.model.rotary_emb = spoiled.model.rotary_emb
    live = checked(model)
    assert live.tables[0].code == "default-base"
    assert "500,000 is configured" in live.sentence
    assert live.tables[0].first_different_pair == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_table_cast_with_the_model_has_lost_precision(dtype: torch.dtype) -> None:
    for rope in (PLAIN, LLAMA3):
        model = llama(rope)
        torch.nn.Module.to(model, dtype)
        live = checked(model, 8192)
        assert live.tables[0].code == "half-precision", live.sentence
        assert str(dtype).removeprefix("torch.") in live.sentence
        assert (live.tables[0].phase_error or 0.0) > 1e-3


def test_casting_back_does_not_bring_the_precision_back() -> None:
    model = llama(PLAIN)
    torch.nn.Module.to(torch.nn.Module.to(model, torch.float16), torch.float32)
    table = checked(model).tables[0]
    assert (table.dtype, table.code) == ("float32", "half-precision")


@pytest.mark.parametrize(
    "values",
    [[6.93e-18] * 8, [0.0] * 8, [math.nan] * 8, [1.0, 0.5, 3e4] + [0.1] * 5, [-1.0] + [0.1] * 7,
     [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]],
)  # fmt: skip
def test_memory_that_was_never_written_is_recognised(values: list[float]) -> None:
    model = llama(YARN)
    model.model.rotary_emb.inv_freq.copy_(torch.tensor(values))
    live = checked(model)
    assert live.verdict == "differs"
    assert live.tables[0].code == "uninitialised"


def test_a_module_on_the_meta_device_holds_no_values() -> None:
    live = checked(torch.nn.Module.to(llama(PLAIN), "meta"))
    assert live.tables[0].code == "uninitialised"
    assert "meta device" in live.sentence


def test_one_wrong_pair_is_located() -> None:
    model = llama(PLAIN)
    model.model.rotary_emb.inv_freq[5] *= 1.001
    table = checked(model).tables[0]
    assert (table.code, table.first_different_pair) == ("different", 5)
    assert table.max_relative_difference == pytest.approx(1e-3, rel=1e-2)


def test_a_wrong_amplitude_alone_is_told() -> None:
    model = llama(YARN)
    model.model.rotary_emb.attention_scaling = 1.0
    table = checked(model).tables[0]
    assert table.code == "amplitude"
    assert "by 1 instead of 1.13863" in table.sentence  # 0.1 ln 4 + 1


def test_scaling_that_the_configuration_does_not_state_is_measured() -> None:
    model = llama(PLAIN)
    model.model.rotary_emb.inv_freq /= 4
    table = checked(model).tables[0]
    assert table.code == "interpolated"
    assert "divided by 4" in table.sentence


def test_longrope_tables_are_compared_at_the_length_asked_for() -> None:
    model = llama(LONGROPE)
    assert checked(model, 512).verdict == "agrees"
    long = checked(model, 513)
    assert long.tables[0].code == "other-mode"
    assert "holds the short factors" in long.sentence
    with torch.no_grad():
        model(torch.zeros(1, 513, dtype=torch.long))
    assert checked(model, 513).verdict == "agrees"


def test_a_head_size_that_differs_is_a_shape() -> None:
    spec = read_config({**llama(PLAIN).config.to_dict(), "head_dim": 32})
    (table,) = compare_tables(llama(PLAIN), spec)
    assert table.code == "shape"
    assert "holds 8 pairs where the configuration rotates 16" in table.sentence


def gemma() -> Gemma3ForCausalLM:
    config = Gemma3TextConfig(
        num_hidden_layers=7,
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        vocab_size=64,
        sliding_window=16,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    return Gemma3ForCausalLM(config)


def test_each_layer_type_has_its_own_table() -> None:
    live = checked(gemma())
    assert live.verdict == "agrees", live.sentence
    assert {(t.table, t.group) for t in live.tables} == {
        ("full_attention_inv_freq", "full attention"),
        ("sliding_attention_inv_freq", "sliding attention"),
    }


def test_tables_swapped_between_layer_types_are_found() -> None:
    model = gemma()
    rotary = model.model.rotary_emb
    full = rotary.full_attention_inv_freq.clone()
    rotary.full_attention_inv_freq.copy_(rotary.sliding_attention_inv_freq)
    rotary.sliding_attention_inv_freq.copy_(full)
    assert [t.agrees for t in checked(model).tables] == [False, False]


def test_a_learned_table_is_counted() -> None:
    config = GPT2Config(
        n_layer=1, n_embd=32, n_head=2, vocab_size=64, n_positions=64, bos_token_id=0,
        eos_token_id=1,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    live = checked(model)
    assert live.verdict == "agrees"
    assert live.parts[0].sentence == "transformer.wpe has 64 rows, as configured."
    model.transformer.wpe = torch.nn.Embedding(48, 32)
    shorter = checked(model)
    assert shorter.verdict == "differs"
    assert "48 rows where the configuration says 64" in shorter.sentence


def test_reserved_rows_count_as_rows_of_the_table() -> None:
    config = OPTConfig(
        num_hidden_layers=1, hidden_size=32, num_attention_heads=2, ffn_dim=32, vocab_size=64,
        word_embed_proj_dim=32, max_position_embeddings=64, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    live = checked(OPTForCausalLM(config))
    assert live.parts[0].sentence == "model.decoder.embed_positions has 66 rows, as configured."


def test_rotary_tables_without_a_readable_schedule_are_unchecked() -> None:
    model = llama(PLAIN)
    model.config.rope_parameters = {"rope_type": "telescope", "rope_theta": 500_000.0}
    live = checked(model)
    assert live.verdict == "unchecked"
    assert "no schedule to compare" in live.sentence


class Config:
    def to_dict(self) -> dict[str, object]:
        return {"model_type": "bloom", "n_head": 6, "n_layer": 1, "hidden_size": 48}


class WithSlopes(torch.nn.Module):
    def __init__(self, slopes: tuple[float, ...]) -> None:
        super().__init__()
        self.config = Config()
        self.register_buffer("slopes", torch.tensor(slopes))


def test_slopes_kept_as_a_buffer_are_compared_with_the_reference() -> None:
    assert checked(WithSlopes(alibi_slopes(6))).verdict == "agrees"
    geometric = tuple(2.0 ** (-8 * (h + 1) / 6) for h in range(6))
    live = checked(WithSlopes(geometric))
    assert live.verdict == "differs"
    assert "not those of the reference" in live.sentence


def test_a_module_without_a_configuration_is_refused() -> None:
    with pytest.raises(UsageError, match="Linear is no model, and has no configuration"):
        checked(torch.nn.Linear(2, 2))


def test_a_table_without_a_named_group_is_compared_with_the_closest_one() -> None:
    groups = (
        LayerGroup("a", (0,), RotarySpec(16, 16, 1e4)),
        LayerGroup("b", (1,), RotarySpec(16, 16, 5e5)),
    )
    spec = PositionSpec("x", "by hand", groups, Length.unknown(), Length.unknown())
    (table,) = compare_tables(llama(PLAIN), spec)
    assert (table.group, table.agrees) == ("b", True)


def test_a_spec_without_computable_angles_compares_nothing() -> None:
    groups = (LayerGroup("a", (0,), AlibiSpec(4)),)
    spec = PositionSpec("x", "by hand", groups, Length.unknown(), Length.unknown())
    assert compare_tables(llama(PLAIN), spec) == []


def test_the_spec_decides_and_not_the_modules_own_configuration() -> None:
    groups = (LayerGroup("a", (0,), RotarySpec(16, 16, 5e5, scaling=Linear(2.0))),)
    spec = PositionSpec("x", "by hand", groups, Length.unknown(), Length.unknown())
    (table,) = compare_tables(llama(PLAIN), spec)
    assert table.code == "unscaled"
