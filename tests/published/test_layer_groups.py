"""Published models whose layers differ, or that do not rotate: groups, windows, softmax rules."""

from __future__ import annotations

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import Yarn
from ropewalk.rope.spec import (
    AlibiSpec,
    Encoding,
    IncompleteRotary,
    LearnedPositions,
    NoPositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    Window,
)


def shape(width: int, heads: int, layers: int) -> dict[str, object]:
    """The three keys that give a model its shape."""
    return {"hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": layers}


UNROTATED: list[tuple[str, dict[str, object], int | None, Encoding]] = [
    (
        "MPT-7B",
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "max_seq_len": 2048,
            "learned_pos_emb": True,
            "attn_config": {"alibi": True, "alibi_bias_max": 8},
        },
        2048,
        AlibiSpec(32, 8.0),
    ),
    (
        "BLOOM",
        {"model_type": "bloom", "n_embed": 2048, "num_attention_heads": 16, "seq_length": 4096},
        4096,
        AlibiSpec(16, 8.0),
    ),
    (
        "Falcon-RW-1B",
        {**shape(2048, 32, 24), "model_type": "falcon", "alibi": True},
        2048,
        AlibiSpec(32, 8.0),
    ),
    (
        "GPT-2",
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024},
        1024,
        LearnedPositions(1024),
    ),
    (
        "BERT-base",
        {**shape(768, 12, 12), "model_type": "bert", "max_position_embeddings": 512},
        512,
        LearnedPositions(512),
    ),
    (
        "RoBERTa-base",
        {**shape(768, 12, 12), "model_type": "roberta", "max_position_embeddings": 514},
        512,
        LearnedPositions(512, 2),
    ),
    (
        "OPT-125M",
        {**shape(768, 12, 12), "model_type": "opt", "max_position_embeddings": 2048},
        2048,
        LearnedPositions(2048, 2),
    ),
    (
        "T5-v1.1-XXL",
        {"model_type": "t5", "d_kv": 64, "num_layers": 24, "relative_attention_num_buckets": 32},
        None,
        RelativeBuckets(32, 128),
    ),
]


@pytest.mark.parametrize(
    ("config", "claimed", "encoding"),
    [case[1:] for case in UNROTATED],
    ids=[case[0] for case in UNROTATED],
)
def test_a_model_without_rotation_is_described_as_what_it_is(
    config: dict[str, object], claimed: int | None, encoding: Encoding
) -> None:
    spec = read_config(config)
    assert [group.encoding for group in spec.groups] == [encoding]
    assert spec.claimed.tokens == claimed
    assert spec.trained.tokens is None


def test_gemma_2_alternates_windows_and_caps_its_scores() -> None:
    config = {
        **shape(3584, 16, 42),
        "model_type": "gemma2",
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
        "query_pre_attn_scalar": 256,
    }
    sliding, full = read_config(config).groups
    assert (len(sliding.layers), sliding.layers[:2]) == (21, (0, 2))
    assert (sliding.window, full.window) == (Window(4096), None)
    assert sliding.softmax.softcap == full.softmax.softcap == 50.0


def test_gemma_3_has_one_full_layer_in_six() -> None:
    text = {
        **shape(5376, 32, 62),
        "model_type": "gemma3_text",
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }
    spec = read_config({"model_type": "gemma3", "text_config": text})
    sliding, full = spec.groups
    assert (len(sliding.layers), len(full.layers), full.layers[0]) == (52, 10, 5)
    assert sliding.window == Window(1024)


def test_llama_4_chunks_rotated_layers_and_warms_the_others() -> None:
    text = {
        **shape(5120, 40, 48),
        "model_type": "llama4_text",
        "rope_theta": 500000.0,
        "no_rope_layers": [],
    }
    spec = read_config({"model_type": "llama4", "text_config": text})
    rotated, plain = spec.groups
    assert (len(rotated.layers), plain.layers[:2]) == (36, (3, 7))
    assert rotated.window == Window(8192, "chunked")
    assert plain.encoding == NoPositionSpec()
    assert plain.softmax.log_rule == LogRule("in steps", start=8192.0, scale=0.1, first=1)
    assert rotated.softmax.log_rule is None


@pytest.mark.parametrize("model_type", [None, "smollm3"])
def test_smollm3_leaves_out_every_fourth_layer_with_or_without_a_type(
    model_type: str | None,
) -> None:
    config = {
        **shape(2048, 16, 36),
        "model_type": model_type,
        "max_position_embeddings": 65536,
        "rope_theta": 5000000.0,
        "no_rope_layers": [1, 1, 1, 0] * 9,
    }
    spec = read_config(config)
    rotated, plain = spec.groups
    assert isinstance(rotated.encoding, RotarySpec)
    assert plain.encoding == NoPositionSpec()
    assert plain.layers == tuple(range(3, 36, 4))


def test_gpt_oss_has_sinks_and_a_window_in_every_second_layer() -> None:
    spec = read_config({**shape(2880, 64, 24), "model_type": "gpt_oss"})
    sliding, full = spec.groups
    assert (sliding.window, full.window) == (Window(128), None)
    assert sliding.softmax.sinks
    assert full.softmax.sinks
    assert isinstance(full.encoding, RotarySpec)
    assert isinstance(full.encoding.scaling, Yarn)
    assert not full.encoding.scaling.truncate


def test_mistral_01_sees_4096_tokens_back_and_02_all_the_way() -> None:
    base = {**shape(4096, 32, 32), "model_type": "mistral", "max_position_embeddings": 32768}
    first = read_config({**base, "rope_theta": 10000.0, "sliding_window": 4096})
    second = read_config({**base, "rope_theta": 1000000.0, "sliding_window": None})
    assert [g.window for g in first.groups] == [Window(4096)]
    assert [g.window for g in second.groups] == [None]


def test_granite_4_hybrid_rotates_nothing_although_a_theta_is_there() -> None:
    config = {
        **shape(4096, 32, 4),
        "model_type": "granitemoehybrid",
        "layer_types": ["mamba", "mamba", "mamba", "attention"],
        "max_position_embeddings": 131072,
        "position_embedding_type": "nope",
        "rope_theta": 10000,
    }
    spec = read_config(config)
    assert [g.encoding for g in spec.groups] == [Recurrent("mamba"), NoPositionSpec()]
    assert "unused-rope-keys" in {r.code for r in spec.findings}


def test_hybrids_without_rotation_are_read_from_their_patterns() -> None:
    jamba = {
        **shape(2048, 8, 4),
        "model_type": "jamba",
        "attn_layer_period": 4,
        "attn_layer_offset": 2,
        "max_position_embeddings": 262144,
    }
    nemotron = {
        **shape(8192, 64, 8),
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "M-M-M*-M",
        "max_position_embeddings": 8192,
    }
    assert [(g.layers, g.encoding) for g in read_config(jamba).groups] == [
        ((0, 1, 3), Recurrent("mamba")),
        ((2,), NoPositionSpec()),
    ]
    assert [(g.layers, g.encoding) for g in read_config(nemotron).groups] == [
        ((0, 2, 4, 7), Recurrent("mamba")),
        ((5,), NoPositionSpec()),
    ]


def test_qwens_documented_yarn_edit_is_read_as_far_as_it_goes() -> None:
    snippet = {
        "max_position_embeddings": 131072,
        "rope_scaling": {
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
            "type": "yarn",
        },
    }
    spec = read_config(snippet)
    (group,) = spec.groups
    assert isinstance(group.encoding, IncompleteRotary)
    assert group.encoding.missing == ("rope_theta", "head_dim", "rotary_dim")
    assert round(group.encoding.scaling.amplitude()[0], 5) == 1.13863
    assert (spec.claimed.tokens, spec.trained.tokens) == (131072, 32768)


def test_the_longlora_snippet_gives_a_factor_and_no_length() -> None:
    spec = read_config({"rope_scaling": {"factor": 25.0, "type": "linear"}})
    assert (spec.claimed.tokens, spec.trained.tokens) == (None, None)


def test_phi_2s_older_file_has_no_base_and_none_is_made_up() -> None:
    config = {
        "model_type": "phi-msft",
        "n_embd": 2560,
        "n_head": 32,
        "n_layer": 32,
        "n_positions": 2048,
        "rotary_dim": 32,
    }
    (group,) = read_config(config).groups
    assert isinstance(group.encoding, IncompleteRotary)
    assert group.encoding.missing == ("rope_theta",)
    assert (group.encoding.head_dim, group.encoding.rotary_dim) == (80, 32)
    assert "phi-msft" in group.encoding.reason
