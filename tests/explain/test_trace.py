"""Traces of small random models: what their own hooks show is what we compute, or it says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ModelFileError, PositionError, UsageError
from ropewalk.explain.steps import TraceStep
from ropewalk.explain.trace import Trace, trace
from ropewalk.rope.spec import LearnedPositions, PositionSpec, RotarySpec

Build = Callable[..., Any]

TEXT = "The cat sat"
GEMMA3 = {
    "head_dim": 12,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
    },
}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10_000.0,
}


def steps_of(traced: Trace) -> dict[str, TraceStep]:
    return {step.name: step for step in traced.steps}


def assert_equal_wherever_seen(traced: Trace, *names: str) -> None:
    """All agrees, to 2e-6 in fp32, and what is named was really compared."""
    assert traced.agrees
    steps = steps_of(traced)
    for name in names:
        difference = steps[name].difference
        assert difference is not None, name
        assert difference < 2e-6, name


def test_bert_adds_learned_rows_and_token_types_and_norms_them(build: Build, words: Any) -> None:
    model = build("bert")
    traced = trace(model, words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "position", "types", "norm", "block 1")
    steps = steps_of(traced)
    row = model.embeddings.position_embeddings.weight[2]
    assert steps["position"].values[2] == pytest.approx(row[:4].tolist())
    assert steps["block 1"].shape == (3, 48)
    assert steps["block 1"].dtype == "float32"
    assert steps["block 1"].norms[0] == pytest.approx(float(_first_hidden(model, words)[0].norm()))
    assert traced.rotations == ()


def _first_hidden(model: Any, words: Any) -> torch.Tensor:
    """What transformers itself gives out as hidden state 0."""
    ids = torch.tensor([words(TEXT)["input_ids"]])
    hidden: torch.Tensor = model(ids, output_hidden_states=True).hidden_states[0][0]
    return hidden


def test_roberta_begins_its_positions_behind_the_padding_row(build: Build, words: Any) -> None:
    model = build("roberta")
    traced = trace(model, words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "position", "types", "norm", "block 1")
    assert "rows 2 to 4" in steps_of(traced)["position"].sentence


def test_gpt2_adds_learned_rows_and_nothing_else(build: Build, words: Any) -> None:
    traced = trace(build("gpt2"), words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "position", "block 1")
    assert {"types", "norm"}.isdisjoint(steps_of(traced))


def test_llama_adds_nothing_and_rotates_q_and_k(build: Build, words: Any) -> None:
    traced = trace(build("llama", num_key_value_heads=2), words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "block 1")
    assert steps_of(traced)["position"].shape is None
    (rotation,) = traced.rotations
    q_before, q_after, k_before, k_after = rotation.steps
    for after, before in ((q_after, q_before), (k_after, k_before)):
        assert after.difference is not None
        assert after.difference < 2e-6
        assert after.norms == pytest.approx(before.norms, rel=1e-6)
        assert after.values[0] == pytest.approx(before.values[0])
        assert after.values[2] != pytest.approx(before.values[2], rel=0.01)


def test_a_score_is_the_same_a_hundred_positions_on(build: Build, words: Any) -> None:
    (rotation,) = trace(build("llama"), words, TEXT, name="tiny").rotations
    here, there = rotation.scores
    assert (here.query, here.key) == (2, 0)
    assert (there.query, there.key) == (102, 100)
    assert there.model == pytest.approx(here.model, rel=1e-5)
    assert there.difference < 1e-5


def test_the_amplitude_of_yarn_is_taken_off_what_stands_before_the_rotation(
    build: Build, words: Any
) -> None:
    traced = trace(build("llama", rope_parameters=YARN), words, TEXT, name="tiny")
    assert traced.agrees
    q_before, q_after, *_ = traced.rotations[0].steps
    factor = 0.1 * 1.3862943611198906 + 1.0
    assert q_after.norms[1] / q_before.norms[1] == pytest.approx(factor, rel=1e-6)


def test_gpt_neox_rotates_a_part_of_each_head_behind_one_fused_product(
    build: Build, words: Any
) -> None:
    traced = trace(build("gpt_neox", rotary_pct=0.5), words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "block 1")
    (rotation,) = traced.rotations
    assert (rotation.rotated, rotation.head_dim) == (6, 12)
    assert all(step.agrees for step in rotation.steps[1::2])


def test_bloom_norms_its_rows_and_lowers_the_scores_by_its_slopes(build: Build, words: Any) -> None:
    model = build("bloom", n_head=4, n_layer=2)
    traced = trace(model, words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "norm", "block 1", "scores")
    # Four heads: 1/4, 1/16, 1/64, 1/256.
    assert steps_of(traced)["scores"].values[0] == (-0.5, -0.25, 0.0)
    assert steps_of(traced)["scores"].values[3][0] == -2 / 256


def test_gemma3_scales_its_rows_and_rotates_by_two_bases(build: Build, words: Any) -> None:
    traced = trace(build("gemma3_text", **GEMMA3), words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "scale", "block 1")
    steps = steps_of(traced)
    assert steps["scale"].norms[0] / steps["rows"].norms[0] == pytest.approx(48**0.5)
    bases = {rotation.block: rotation.rope_theta for rotation in traced.rotations}
    assert bases == {0: 10_000.0, 1: 1_000_000.0}
    assert all(step.agrees for r in traced.rotations for step in r.steps[1::2])


def test_in_bfloat16_gemma3_rounds_the_factor_and_so_do_we(build: Build, words: Any) -> None:
    model = build("gemma3_text", **GEMMA3).to(torch.bfloat16)
    traced = trace(model, words, TEXT, name="tiny")
    scale = steps_of(traced)["scale"]
    assert scale.difference == 0.0
    assert scale.dtype == "bfloat16"
    assert "6.9375" in scale.sentence
    assert traced.agrees


def test_granite_multiplies_by_a_number_of_its_configuration(build: Build, words: Any) -> None:
    traced = trace(build("granite", embedding_multiplier=12.0), words, TEXT, name="tiny")
    assert_equal_wherever_seen(traced, "rows", "block 1")
    assert "x 12" in steps_of(traced)["scale"].sentence


def changed(model: Any, kind: type, **fields: Any) -> PositionSpec:
    spec = read_config(model.config.to_dict(), where="test")
    groups = tuple(
        replace(group, encoding=replace(group.encoding, **fields))
        if isinstance(group.encoding, kind)
        else group
        for group in spec.groups
    )
    return replace(spec, groups=groups)


def test_another_base_than_the_models_is_seen(build: Build, words: Any) -> None:
    model = build("llama")
    traced = trace(
        model, words, TEXT, name="tiny", spec=changed(model, RotarySpec, rope_theta=500_000.0)
    )
    assert not traced.agrees
    assert [step.agrees for step in traced.rotations[0].steps] == [None, False, None, False]


def test_another_offset_than_the_models_is_seen(build: Build, words: Any) -> None:
    model = build("bert")
    spec = changed(model, LearnedPositions, offset=2)
    steps = steps_of(trace(model, words, TEXT, name="tiny", spec=spec))
    assert steps["rows"].agrees is True
    assert steps["position"].agrees is steps["block 1"].agrees is False


def test_an_attention_that_hides_its_q_and_k_is_said_to(build: Build, words: Any) -> None:
    model = build("llama")
    model.set_attn_implementation("eager")
    (rotation,) = trace(model, words, TEXT, name="tiny").rotations
    assert rotation.steps == ()
    assert "does not show" in rotation.reason


def test_the_model_is_left_as_it_was(build: Build, words: Any) -> None:
    model = build("llama")
    trace(model, words, TEXT, name="tiny")
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_text_longer_than_a_learned_table_is_refused_with_its_place(
    build: Build, words: Any
) -> None:
    with pytest.raises(
        PositionError, match=r"has 65 tokens, and tiny cannot.*holds 64 at column 64"
    ):
        trace(build("bert"), words, "word " * 65, name="tiny")


def test_a_text_without_tokens_is_refused(build: Build, words: Any) -> None:
    with pytest.raises(UsageError, match="no tokens"):
        trace(build("llama"), words, " ", name="tiny")


def test_an_encoder_with_a_decoder_is_refused(build: Build, words: Any) -> None:
    model = build("bart", d_model=48, encoder_layers=1, decoder_layers=1,
                  encoder_attention_heads=4, decoder_attention_heads=4)  # fmt: skip
    with pytest.raises(ModelFileError, match="one stack"):
        trace(model, words, TEXT, name="tiny")


def test_blocks_that_are_no_list_are_refused(build: Build, words: Any) -> None:
    with pytest.raises(ModelFileError, match="in one list"):
        trace(build("albert", embedding_size=16), words, TEXT, name="tiny")
