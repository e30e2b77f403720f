from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.values import shown
from ropewalk.errors import GgufError
from ropewalk.report.audit import encoding_words
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import Linear, Unscaled
from ropewalk.rope.spec import (
    AlibiSpec,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    Window,
)

Spec = Callable[..., PositionSpec]
GgufMaker = Callable[..., Path]

YARN: dict[str, Any] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 40.0,
    "rope__scaling__original_context_length": 4096,
}


def rotary(spec: PositionSpec) -> RotarySpec:
    (group,) = spec.groups
    assert isinstance(group.encoding, RotarySpec)
    return group.encoding


def by_name(spec: PositionSpec) -> dict[str, LayerGroup]:
    return {g.name: g for g in spec.groups}


def codes(spec: PositionSpec) -> set[str]:
    return {r.code for r in spec.findings}


def test_a_real_model_is_read_as_its_card_says(smollm2_gguf: Path) -> None:
    spec = read_gguf(smollm2_gguf)
    found = rotary(spec)
    assert (found.head_dim, found.rotary_dim, found.rope_theta) == (64, 64, 100000.0)
    assert (found.layout, found.scaling) == ("interleaved", Unscaled())
    assert spec.groups[0].layers == tuple(range(30))
    assert (spec.claimed.tokens, spec.claimed.source) == (8192, "llama.context_length")
    assert (spec.model_type, spec.format) == ("llama", "GGUF version 3")
    # The file says how long its context is, and not how long its training documents were.
    assert spec.trained.tokens is None
    assert spec.findings == ()


def test_a_missing_base_is_ten_thousand_and_says_so(gguf_spec: Spec) -> None:
    read = gguf_spec("llama", rope__freq_base=None)
    assert (rotary(read).rope_theta, rotary(read).rope_theta_source) == (
        10000.0,
        "llama.cpp's default",
    )
    assert "base-missing" in codes(read)


def test_gemma_3_has_two_bases_and_a_full_layer_in_six(gguf_spec: Spec) -> None:
    groups = by_name(
        gguf_spec(
            "gemma3",
            block_count=26,
            rope__freq_base=1000000.0,
            rope__scaling__type="linear",
            rope__scaling__factor=8.0,
            attention__key_length=256,
            attention__sliding_window=512,
        )
    )
    local, full = groups["sliding window"], groups["full attention"]
    assert full.layers == (5, 11, 17, 23)
    assert local.window == Window(512)
    assert full.window is None
    assert isinstance(local.encoding, RotarySpec)
    assert isinstance(full.encoding, RotarySpec)
    assert (local.encoding.rope_theta, local.encoding.scaling) == (1e4, Unscaled())
    assert (full.encoding.rope_theta, full.encoding.scaling) == (1e6, Linear(8.0))
    assert (full.encoding.head_dim, full.encoding.layout) == (256, "half")


def test_gemma_2_alternates_and_caps_its_scores(gguf_spec: Spec) -> None:
    read = gguf_spec("gemma2", block_count=46, attention__key_length=128, attention__head_count=3)
    groups = by_name(read)
    assert groups["sliding window"].layers == tuple(range(0, 46, 2))
    assert groups["sliding window"].window == Window(4096)
    assert groups["full attention"].softmax.softcap == 50.0
    # The 27B model scales by 1/sqrt(width / heads): here width / heads is 170.
    assert groups["full attention"].softmax.factor == pytest.approx(math.sqrt(128 / 170))


def test_gpt_oss_alternates_and_has_sinks(gguf_spec: Spec) -> None:
    sinks = {f"blk.{i}.attn_sinks.weight": np.ones(4, np.float32) for i in range(4)}
    read = gguf_spec("gpt-oss", sinks, attention__sliding_window=128, **YARN)
    groups = by_name(read)
    assert groups["sliding window"].layers == (0, 2)
    assert groups["full attention"].softmax.sinks
    assert all(isinstance(g.encoding, RotarySpec) for g in read.groups)


def test_llama_4_chunks_and_leaves_every_fourth_layer_without_position(gguf_spec: Spec) -> None:
    groups = by_name(gguf_spec("llama4", block_count=8))
    assert groups["chunked window"].window == Window(8192, "chunked")
    nope = groups["full attention, no position"]
    assert nope.layers == (3, 7)
    assert nope.encoding == NoPositionSpec()
    assert nope.softmax.log_rule == LogRule("in steps", start=8192.0, scale=0.1, first=1)


def test_smollm_3_leaves_every_fourth_layer_without_position(gguf_spec: Spec) -> None:
    groups = by_name(gguf_spec("smollm3", block_count=36))
    assert groups["full attention, no position"].layers == tuple(range(3, 36, 4))
    assert len(groups["full attention"].layers) == 27


def test_command_r7b_turns_only_its_windowed_layers(gguf_spec: Spec) -> None:
    groups = by_name(gguf_spec("cohere2", attention__sliding_window=4096))
    assert groups["sliding window"].layers == (0, 1, 2)
    assert isinstance(groups["sliding window"].encoding, RotarySpec)
    assert groups["full attention, no position"].layers == (3,)


def test_modern_bert_starts_each_period_with_the_full_layer(gguf_spec: Spec) -> None:
    keys = {"attention__sliding_window": 128, "rope__freq_base_swa": 10000.0}
    groups = by_name(gguf_spec("modern-bert", block_count=7, **keys))
    assert groups["full attention"].layers == (0, 3, 6)
    assert groups["two-sided window"].window == Window(128, "two-sided")


def test_a_pattern_by_layer_comes_before_the_architectures_own(gguf_spec: Spec) -> None:
    pattern = [True, False, False, True]
    keys = {"attention__sliding_window": 64, "attention__sliding_window_pattern": pattern}
    groups = by_name(gguf_spec("gemma4", **keys))
    assert groups["sliding window"].layers == (0, 3)


def test_a_window_that_no_layer_is_named_for_is_remarked_on(gguf_spec: Spec) -> None:
    read = gguf_spec("qwen2", attention__sliding_window=4096)
    assert read.groups[0].window is None
    assert codes(read) == {"window-unplaced"}


@pytest.mark.parametrize(
    ("arch", "layout"),
    [("llama", "interleaved"), ("qwen2", "half"), ("glm4", "interleaved"), ("gptneox", "half")],
)
def test_layouts_are_llama_cpps(gguf_spec: Spec, arch: str, layout: str) -> None:
    assert rotary(gguf_spec(arch)).layout == layout


def test_sections_make_the_layout_half_and_drop_the_filling(gguf_spec: Spec) -> None:
    found = rotary(gguf_spec("glm4", rope__dimension_sections=[16, 24, 24, 0]))
    assert (found.sections, found.layout) == ((16, 24, 24), "half")


@pytest.mark.parametrize(
    ("arch", "sections", "layout"),
    [
        ("qwen2vl", [16, 24, 24, 0], "chunked"),
        ("glm4", [16, 24, 24, 0], "chunked"),
        ("qwen3vl", [24, 20, 20, 0], "interleaved"),
        ("qwen3vlmoe", [24, 20, 20, 0], "interleaved"),
        ("qwen35", [22, 21, 21, 0], "interleaved"),
        ("qwen35moe", [22, 21, 21, 0], "interleaved"),
    ],
)
def test_sections_are_dealt_out_as_llama_cpp_does_for_the_architecture(
    gguf_spec: Spec, arch: str, sections: list[int], layout: str
) -> None:
    spec = gguf_spec(arch, rope__dimension_sections=sections)
    (_, found) = next(spec.rotary_groups())
    assert (found.sections, found.section_layout) == (tuple(sections[:3]), layout)
    # The fourth position of a text is 0, and llama.cpp gives it the pairs that are left over.
    left = [r.text for r in spec.findings if r.code == "pairs-without-axis"]
    assert bool(left) == (sections[0] == 24 and layout == "interleaved")
    assert all("leave the pairs 61, 62 over" in text for text in left)


def test_latent_attention_turns_the_last_channels_of_a_head(gguf_spec: Spec) -> None:
    for arch in ("deepseek2", "glm-dsa", "minicpm3"):
        found = rotary(gguf_spec(arch, attention__key_length=192, rope__dimension_count=64))
        assert (found.head_dim, found.rotary_dim, found.placement) == (192, 64, "last")
    assert rotary(gguf_spec("gptneox", rope__dimension_count=32)).placement == "first"


def test_part_of_a_head_may_turn(gguf_spec: Spec) -> None:
    found = rotary(gguf_spec("phi2", rope__dimension_count=32))
    assert (found.head_dim, found.rotary_dim) == (128, 32)


def test_bloom_and_mpt_have_slopes(gguf_spec: Spec) -> None:
    assert gguf_spec("bloom").groups[0].encoding == AlibiSpec(4, 8.0)
    read = gguf_spec("mpt", attention__max_alibi_bias=16.0)
    assert read.groups[0].encoding == AlibiSpec(4, 16.0)


def test_gpt_2_and_bert_have_as_many_positions_as_their_table_has_rows(gguf_spec: Spec) -> None:
    table = {"position_embd.weight": np.zeros((1024, 8), np.float32)}
    for arch in ("gpt2", "bert", "starcoder"):
        assert gguf_spec(arch, table).groups[0].encoding == LearnedPositions(1024)
    assert isinstance(gguf_spec("nomic-bert").groups[0].encoding, RotarySpec)


def test_t5_has_buckets_in_encoder_and_decoder(gguf_spec: Spec) -> None:
    keys = {"attention__relative_buckets_count": 32, "decoder_block_count": 6}
    groups = gguf_spec("t5", **keys).groups
    assert [g.name for g in groups] == ["encoder", "decoder"]
    assert [len(g.layers) for g in groups] == [4, 6]
    assert groups[0].encoding == RelativeBuckets(32, 128)
    assert len(gguf_spec("t5encoder", attention__relative_buckets_count=32).groups) == 1


def test_recurrent_models_have_no_attention_to_speak_of(gguf_spec: Spec) -> None:
    (group,) = gguf_spec("mamba", attention__head_count=0).groups
    assert group.encoding == Recurrent("mamba")
    assert gguf_spec("rwkv7").groups[0].encoding == Recurrent("rwkv")


def test_hybrids_are_parted_by_their_key_heads(gguf_spec: Spec) -> None:
    groups = by_name(gguf_spec("jamba", attention__head_count_kv=[0, 0, 4, 0]))
    assert groups["mamba"].layers == (0, 1, 3)
    assert groups["full attention, no position"].layers == (2,)
    lfm = by_name(gguf_spec("lfm2", attention__head_count_kv=[0, 4, 0, 4]))
    assert isinstance(lfm["full attention"].encoding, RotarySpec)
    qwen = by_name(gguf_spec("qwen3next", full_attention_interval=4))
    assert qwen["gated delta net"].layers == (0, 1, 2)


def test_feed_forward_layers_of_a_hybrid_stand_in_no_group(gguf_spec: Spec) -> None:
    keys = {"attention__head_count_kv": [0, 0, 4, 0], "feed_forward_length": [0, 64, 0, 64]}
    read = gguf_spec("nemotron_h", **keys)
    assert {g.name: g.layers for g in read.groups} == {
        "mamba2": (0,),
        "full attention, no position": (2,),
    }
    assert codes(read) == {"layers-without-mixing"}


def test_an_unknown_architecture_is_read_by_general_rules_and_says_so(gguf_spec: Spec) -> None:
    for arch in ("novel", "k2-horizon", "cohere2moe", "granite_swa", "hy_v4", "qwen4exp"):
        read = gguf_spec(arch)
        assert rotary(read).rope_theta == 500000.0
        assert not rotary(read).layout_known
        assert "layout not known" in encoding_words(rotary(read))
        remark = next(r for r in read.findings if r.code == "architecture-unknown")
        assert remark.severity == "warning"
    assert rotary(gguf_spec("llama")).layout_known


def test_a_file_without_layers_or_widths_states_what_it_can(gguf_spec: Spec) -> None:
    read = gguf_spec("llama", block_count=None, embedding_length=None)
    (group,) = read.groups
    assert group.layers == ()
    assert isinstance(group.encoding, IncompleteRotary)
    assert group.encoding.missing == ("head_dim",)


def test_the_parts_of_a_split_model_are_told_apart(
    make_gguf: GgufMaker, gguf_base: dict[str, Any]
) -> None:
    first = gguf_base | {"split.no": 0, "split.count": 3}
    assert "split-file" in codes(read_gguf(make_gguf("llama", first)))
    later = make_gguf("", {"split.no": 1, "split.count": 3})
    with pytest.raises(GgufError, match="part 2 of 3"):
        read_gguf(later)


def test_a_file_that_is_no_language_model_says_so(make_gguf: GgufMaker) -> None:
    with pytest.raises(GgufError, match=r"clip\.context_length is missing"):
        read_gguf(make_gguf("clip", {}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("context_length", 0),
        ("context_length", -1),
        ("context_length", "long"),
        ("context_length", 4096.5),
        ("block_count", 1 << 30),
        ("rope.freq_base", 0.0),
        ("rope.freq_base", -10000.0),
        ("rope.freq_base", math.nan),
        ("rope.freq_base", math.inf),
        ("rope.freq_base", "10000"),
        ("rope.freq_base", 0.5),
        ("rope.dimension_count", 0),
        ("rope.dimension_count", 63),
        ("rope.dimension_count", 4096),
        ("rope.scaling.factor", -2.0),
        ("rope.scaling.factor", math.nan),
        ("rope.scaling.factor", True),
        ("rope.scaling.type", 2),
        ("rope.scaling.original_context_length", 0),
        ("rope.scaling.finetuned", 1),
        ("attention.head_count", "four"),
        ("attention.head_count_kv", [4, 4]),
        ("attention.sliding_window", -5),
        ("attention.sliding_window", "wide"),
    ],
)
def test_an_impossible_value_is_an_error_with_key_and_value(
    make_gguf: GgufMaker, gguf_base: dict[str, Any], key: str, value: Any
) -> None:
    path = make_gguf("granite", gguf_base | {key: value})
    with pytest.raises(GgufError) as caught:
        read_gguf(path)
    assert f"granite.{key} is {shown(value)}; " in str(caught.value)
