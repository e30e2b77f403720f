"""Published files whose keys are those of a code of their own, and what they rotate by.

The values were computed from each publisher's code or measured on the engine that is named.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk.dialects.hf import read_config
from ropewalk.findings import audit
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.log_rule import LogRule
from ropewalk.rope.schedules import Llama3, LongRope, SteppedNtk, Yarn
from ropewalk.rope.spec import (
    AlibiSpec,
    ContentBias,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    Window,
)

FILES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("own_keys.json").read_text(encoding="utf-8")
)


def spec(name: str, **changes: Any) -> PositionSpec:
    return read_config({**FILES[name], **changes})


def layers(found: PositionSpec, kind: type[object]) -> list[int]:
    return sorted(
        layer
        for group in found.groups
        if isinstance(group.encoding, kind)
        for layer in group.layers
    )


def rotary(found: PositionSpec) -> dict[str, RotarySpec]:
    return {group.name: encoding for group, encoding in found.rotary_groups()}


def codes(found: PositionSpec) -> list[str]:
    return [each.code for each in audit(found).findings if each.severity == "warning"]


def test_a_base_of_0_means_that_a_layer_has_no_position() -> None:
    found = spec("granite-swa")
    assert layers(found, NoPositionSpec) == list(range(0, 24, 4))
    assert rotary(found)["sliding attention"].rope_theta == 10_000.0
    assert codes(found) == []


@pytest.mark.parametrize("period", [2, 3, 5, 8])
@pytest.mark.parametrize("base", [10_000.0, 5e5, 3e6])
def test_a_base_for_each_layer_is_that_layers_own(period: int, base: float) -> None:
    words = ["full_attention" if i % period == 0 else "sliding_attention" for i in range(24)]
    bases = [0 if i % period == 0 else base for i in range(24)]
    found = spec("granite-swa", layer_types=words, layer_rope_theta=bases)
    assert layers(found, NoPositionSpec) == list(range(0, 24, period))
    assert {each.rope_theta for each in rotary(found).values()} == {base}


def test_lists_that_go_on_for_layers_of_further_tokens_are_read() -> None:
    found = rotary(spec("step-3.5-flash"))
    full, sliding = found["full attention"], found["sliding attention"]
    assert (full.rotary_dim, full.rope_theta, type(full.scaling)) == (64, 5e6, Llama3)
    assert (sliding.rotary_dim, sliding.rope_theta) == (128, 10_000.0)
    assert not sliding.scaling.stretches
    assert sum(len(group.layers) for group in spec("step-3.5-flash").groups) == 45


def test_scaling_is_for_the_kinds_that_are_listed_alone() -> None:
    found = rotary(spec("step-3.5-scalar"))
    assert found["full attention"].rotary_dim == 64
    assert isinstance(found["full attention"].scaling, Llama3)
    assert found["sliding attention"].rotary_dim == 128
    assert not found["sliding attention"].scaling.stretches
    both = rotary(spec("step-3.5-scalar", yarn_only_types=["full_attention", "sliding_attention"]))
    assert all(each.scaling.stretches for each in both.values())


def test_sliding_layers_have_the_base_and_the_sinks_that_their_own_keys_state() -> None:
    found = spec("mimo-v2-flash")
    by_name = {group.name: group for group in found.groups}
    full, sliding = by_name["full attention"], by_name["sliding attention"]
    assert (len(full.layers), len(sliding.layers)) == (9, 39)
    assert sliding.window is not None
    assert (sliding.window.size, sliding.softmax.sinks, full.softmax.sinks) == (128, True, False)
    bases = {name: each.rope_theta for name, each in rotary(found).items()}
    assert bases == {"full attention": 5e6, "sliding attention": 10_000.0}
    assert {each.rotary_dim for each in rotary(found).values()} == {64}


@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_group_of_layers_ends_with_one_that_attends(size: int) -> None:
    found = spec("ling-2.6", layer_group_size=size)
    attending = list(range(size - 1, 32, size))
    assert layers(found, RotarySpec) == attending
    assert layers(found, Recurrent) == [i for i in range(32) if i not in attending]
    ((_, encoding),) = found.rotary_groups()
    assert (encoding.rotary_dim, encoding.head_dim) == (64, 192)


@pytest.mark.parametrize("flags", [[0, 1] * 16, [1, 1, 1, 0] * 8])
def test_a_flag_for_each_layer_tells_linear_from_full_attention(flags: list[int]) -> None:
    config = {k: v for k, v in FILES["ling-2.6"].items() if k != "layer_group_size"}
    found = read_config({**config, "attn_type_list": flags})
    assert layers(found, RotarySpec) == [i for i, flag in enumerate(flags) if flag]


def test_latent_attention_that_rotates_nothing_says_so() -> None:
    found = spec("kimi_linear")
    assert layers(found, NoPositionSpec) == [3, 7, 11, 15, 19, 23, 26]
    assert len(layers(found, Recurrent)) == 20
    assert layers(found, RotarySpec) == []
    assert layers(spec("glm5_next"), NoPositionSpec) == list(range(8))


def test_a_base_that_is_null_is_no_rotation_where_the_family_says_so() -> None:
    config = {
        "model_type": "olmo_hybrid", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 2, "max_position_embeddings": 4096,
        "layer_types": ["linear_attention", "full_attention"],
    }  # fmt: skip
    assert layers(read_config({**config, "rope_theta": None}), NoPositionSpec) == [1]
    assert layers(read_config({**config, "rope_theta": 5e5}), RotarySpec) == [1]


@pytest.mark.parametrize("word", ["Full_attention", "full-attention", "fullattention", "attn"])
def test_an_unknown_word_for_a_layer_is_a_finding_and_no_recurrent_layer(word: str) -> None:
    found = spec("llama-typo-layer-type", layer_types=[word, "full_attention"])
    assert layers(found, RotarySpec) == [0, 1]
    assert "unknown-layer-type" in codes(found)


@pytest.mark.parametrize("word", ["deepseek_sparse_attention", "qwen_sparse_attention"])
def test_sparse_attention_is_attention(word: str) -> None:
    found = spec("deepseek-v32-sparse-words", layer_types=[word, word])
    ((_, encoding),) = found.rotary_groups()
    assert (encoding.rotary_dim, encoding.head_dim) == (64, 192)
    assert isinstance(encoding.scaling, Yarn)


@pytest.mark.parametrize("name", ["exaone-4.5-33b", "trinity-mini"])
def test_full_layers_among_sliding_ones_have_no_rotation(name: str) -> None:
    found = spec(name)
    assert {group.name for group, _ in found.rotary_groups()} == {"sliding attention"}
    assert "unknown-model-type" not in codes(found)


def test_phimoe_multiplies_by_keys_of_its_own_and_takes_the_short_factors() -> None:
    ((group, encoding),) = spec("phi-3.5-moe-instruct").rotary_groups()
    assert isinstance(encoding.scaling, LongRope)
    at = frequencies(group, 131_072)
    assert at.attention_factor == pytest.approx(1.243163, abs=1e-6)
    # transformers 5.24, pair 40 at 131,072 tokens.
    assert at.inv_freq[40] == pytest.approx(1.58e-3, rel=5e-3)
    rope = dict(FILES["phi-3.5-moe-instruct"]["rope_scaling"])
    rope.pop("long_mscale")
    assert "phimoe-amplitude-missing" in codes(spec("phi-3.5-moe-instruct", rope_scaling=rope))


def test_relative_buckets_are_told_with_and_without_a_model_type() -> None:
    plain = {k: v for k, v in FILES["longt5"].items() if k != "model_type"}
    for config in (FILES["longt5"], plain, plain | {"model_type": "switch_transformers"}):
        (group,) = read_config(config).groups
        assert isinstance(group.encoding, RelativeBuckets)
        # The scores are not divided: 1 is sqrt(64) times the usual scale.
        assert group.softmax.factor == 8.0


def test_baichuan_has_alibi_at_13b_and_rotates_at_7b() -> None:
    assert layers(spec("baichuan-13b"), AlibiSpec) == list(range(40))
    ((_, encoding),) = spec("baichuan-7b").rotary_groups()
    assert (encoding.rope_theta, encoding.rotary_dim) == (10_000.0, 128)


@pytest.mark.parametrize("model_type", ["bert", "roberta", "xlm-roberta"])
def test_an_encoders_alibi_is_symmetric(model_type: str) -> None:
    found = spec("jina-alibi", model_type=model_type)
    assert layers(found, AlibiSpec) == list(range(12))
    assert "alibi-both-ways" in {each.code for each in found.findings}


@pytest.mark.parametrize(("rows", "usable"), [(514, 512), (8194, 8192)])
def test_rows_that_serve_no_position_are_counted_in_the_key_and_not_in_the_length(
    rows: int, usable: int
) -> None:
    config = {
        "model_type": "roberta", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 2, "max_position_embeddings": rows,
    }  # fmt: skip
    options = ropewalk.convert(config, "vllm").options
    assert options is not None
    assert options.endswith(f"--max-model-len {usable}")
    assert f'"max_position_embeddings": {rows}' in options
    written = ropewalk.convert(config, "hf4").config
    assert written is not None
    assert written["max_position_embeddings"] == rows


def test_the_original_length_of_dual_chunk_attention_stands_in_its_key() -> None:
    found = spec("qwen25_1m")
    assert found.trained.tokens == 262_144
    assert "dual-chunk-attention" in codes(found)


@pytest.mark.parametrize("model_type", ["inkling_text", "inkling2_text", "inkling2_loop_text"])
@pytest.mark.parametrize(("extent", "window", "width"), [(1024, 512, 16), (2048, 256, 8)])
def test_a_bias_that_each_query_mixes_is_told_with_its_reach(
    model_type: str, extent: int, window: int, width: int
) -> None:
    keys = {"rel_extent": extent, "sliding_window_size": window, "d_rel": width}
    found = spec("inkling2", model_type=model_type, **keys)
    by_name = {group.name: group for group in found.groups}
    full, sliding = by_name["hybrid"], by_name["hybrid sliding"]
    assert (full.layers, full.window) == ((5, 11), None)
    assert full.encoding == ContentBias(extent, width)
    assert sliding.window == Window(window)
    assert sliding.encoding == ContentBias(window, width)
    rule = full.softmax.log_rule
    assert rule is not None
    # tau = 1 + alpha ln(max((position + 1) / floor, 1))
    assert rule.factor(255_999) == pytest.approx(1.0 + 0.1 * math.log(2.0))
    assert rule.factor(127_999) == 1.0
    assert sliding.softmax.log_rule is None
    assert codes(found) == []


def test_qwen_s_first_models_raise_their_base_in_steps_and_their_queries_by_a_logarithm() -> None:
    ((group, encoding),) = spec("qwen-7b").rotary_groups()
    assert encoding.scaling == SteppedNtk(8192)
    # 10,000 x 7^(128 / 126), and 3^(128 / 126) one doubling before.
    for length, base in ((8192, 10_000.0), (8193, 30_527.737), (16_384, 30_527.737),
                         (16_385, 72_195.46), (32_768, 72_195.46)):  # fmt: skip
        at = frequencies(group, length).inv_freq
        assert at[1] == pytest.approx(base ** (-1 / 64), rel=1e-6)
    rule = group.softmax.log_rule
    assert rule is not None
    assert rule.keys == ("use_logn_attn", "seq_length")
    assert rule.factor(32_767) == pytest.approx(15 / 13)
    assert codes(spec("qwen-7b")) == []
    told = {each.code: each.text for each in audit(spec("qwen-7b")).findings}
    assert "1.154 at 32768 tokens (use_logn_attn, seq_length)" in told["log-rule"]
    assert "alpha 3 up to 16384 tokens, 7 up to 32768" in told["depends-on-length"]


@pytest.mark.parametrize("key", ["use_dynamic_ntk", "use_logn_attn"])
def test_length_rules_of_a_family_that_is_not_known_are_named(key: str) -> None:
    found = spec("llama31-v4", **{key: True})
    (told,) = (each for each in found.findings if each.code == "own-length-rules")
    assert told.text.startswith(key)
    assert "own-length-rules" not in codes(spec("llama31-v4", **{key: False}))


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        (
            "qwen25_1m", {},
            LogRule("by ratio", "keys", "length", 262_144.0, 0.1, 0,
                    ("dual_chunk_attention_config.original_max_position_embeddings",)),
        ),
        ("llama31-v4", {"use_ssmax": True}, LogRule("learned", first=1, keys=("use_ssmax",))),
        ("llama31-v4", {"use_ssmax": False}, None),
        (
            "llama31-v4",
            {"llama_4_scaling": {"beta": 0.2, "original_max_position_embeddings": 8192}},
            LogRule("in steps", start=8192.0, scale=0.2, keys=(
                "llama_4_scaling.beta", "llama_4_scaling.original_max_position_embeddings")),
        ),
        ("qwen-7b", {"use_logn_attn": False}, None),
    ],
)  # fmt: skip
def test_every_factor_that_grows_with_a_logarithm_is_one_rule_with_its_keys(
    name: str, changes: dict[str, Any], expected: LogRule | None
) -> None:
    found = spec(name, **changes)
    assert {group.softmax.log_rule for group in found.groups} == {expected}
    told = [each for each in audit(found).findings if each.code == "log-rule"]
    assert [all(key in each.text for key in expected.keys) for each in told if expected] == (
        [True] if expected else []
    )
    assert "key-not-read" not in codes(found)


@pytest.mark.parametrize(
    "key",
    [
        *("rope_of_tomorrow", "swa_rope_theta_2", "hybrid_window_list", "layer_pattern"),
        *("global_attn_layers", "yarn_max_len", "alibi_slopes", "no_position_layers"),
        *("ntk_alpha", "chunked_window", "xdrope_section", "mrope_layout"),
    ],
)
def test_a_key_that_bears_on_position_and_is_not_read_is_a_warning(key: str) -> None:
    found = spec("llama31-v4", **{key: 7})
    assert codes(found) == ["key-not-read"]
    assert any(key in each.text for each in found.findings)
    assert "key-not-read" not in codes(spec("llama31-v4", **{key: None}))


def test_dictionaries_by_kind_of_layer_are_named_where_the_class_knows_nothing_of_them() -> None:
    for model_type, words in (
        ("exaone4", "stops with KeyError"),
        ("qwen3", "stops with KeyError"),
        ("llama", "takes base 10000"),
        ("mixtral", "takes base 1000000"),
        ("apertus", "takes base 12000000"),
        ("cohere", "takes base 500000"),
    ):
        found = spec("exaone4-nested", model_type=model_type)
        (told,) = (each for each in found.findings if each.code == "nested-rope-not-read")
        assert words in told.text
    for model_type in ("gemma3_text", "olmo3"):
        assert "nested-rope-not-read" not in codes(spec("exaone4-nested", model_type=model_type))
