"""Published files whose keys are those of a code of their own, and what they rotate by.

The values were computed from each publisher's code or measured on the engine that is named.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ropewalk
from ropewalk.dialects.engines import engine_views
from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError, ScheduleError
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


def test_glm_and_ernie_rotate_as_their_classes_do() -> None:
    ((_, glm),) = spec("glm4-9b").rotary_groups()
    assert (glm.rotary_dim, glm.head_dim, glm.layout) == (64, 128, "interleaved")
    ((_, ernie),) = spec("ernie-4.5-21b-a3b").rotary_groups()
    assert (ernie.rotary_dim, ernie.layout, ernie.rope_theta) == (128, "interleaved", 5e5)
    assert codes(spec("glm4-9b")) == codes(spec("ernie-4.5-21b-a3b")) == []


@pytest.mark.parametrize("width", [64, 128])
def test_mlx_lm_reads_no_share_for_glm(width: int) -> None:
    sizes = {"intermediate_size": 64, "rms_norm_eps": 1e-5, "attention_bias": False}
    found = spec("glm4-9b", head_dim=width, **sizes)
    views = {each.engine: each for each in engine_views(found)}
    assert f"rotates {width} channels of {width}" in " ".join(views["mlx-lm"].rules)


def test_mlx_lm_takes_base_10_000_from_a_llama_of_version_5_alone() -> None:
    sizes = {"intermediate_size": 14336, "rms_norm_eps": 1e-5}
    views = {each.engine: each for each in engine_views(spec("llama31-v5", **sizes))}
    assert views["mlx-lm"].rope_theta == 10_000.0
    assert views["transformers 5.24"].rope_theta == 500_000.0
    both = ropewalk.convert(FILES["llama31-v4"], "hf5").config
    assert both is not None
    assert both["rope_theta"] == both["rope_parameters"]["rope_theta"] == 500_000.0
    assert both["rope_scaling"]["rope_type"] == "llama3"


def test_laguna_scales_its_full_layers_alone_and_llama_cpp_reads_both_betas() -> None:
    found = rotary(spec("laguna-xs.2"))
    full, sliding = found["full attention"], found["sliding attention"]
    assert isinstance(full.scaling, Yarn)
    assert (full.scaling.beta_fast, full.scaling.beta_slow, full.rotary_dim) == (64.0, 1.0, 64)
    assert (sliding.rope_theta, sliding.rotary_dim) == (10_000.0, 128)
    assert not sliding.scaling.stretches
    views = [each for each in engine_views(spec("laguna-xs.2")) if each.engine == "llama.cpp"]
    assert {each.group: each.rope_theta for each in views} == {
        "full attention": 500_000.0, "sliding attention": 10_000.0,
    }  # fmt: skip
    by_group = {each.group: each for each in views}
    at = frequencies(spec("laguna-xs.2").groups[0], 262_144)
    assert by_group["full attention"].inv_freq == pytest.approx(at.inv_freq, rel=1e-6)


def test_mistral_s_cancelling_pair_stays_and_has_no_warning() -> None:
    ((group, encoding),) = spec("ministral-3-3b-2512").rotary_groups()
    assert frequencies(group, 262_144).attention_factor == 1.0
    assert codes(spec("ministral-3-3b-2512")) == []
    assert isinstance(encoding.scaling, Yarn)
    # What removing both keys would leave.
    alone = replace(encoding.scaling, mscale=None, mscale_all_dim=None)
    assert alone.amplitude()[0] == pytest.approx(1.27726, abs=1e-5)


def test_mistral_small_4_keeps_its_32_pairs_in_version_4() -> None:
    ((_, encoding),) = spec("mistral-small-4-119b-2603").rotary_groups()
    assert encoding.pairs == 32
    written = ropewalk.convert(FILES["mistral-small-4-119b-2603"], "hf4").config
    assert written is not None
    ((_, again),) = read_config(written).rotary_groups()
    assert (again.pairs, again) == (32, encoding)


def test_qwen_1_is_refused_where_its_rules_are_lost_and_the_keys_are_named() -> None:
    for to in ("vllm", "llamacpp", "hf5"):
        with pytest.raises(ScheduleError, match=r"use_dynamic_ntk.*use_logn_attn"):
            ropewalk.convert(FILES["qwen-7b"], to)
    (view,) = (each for each in engine_views(spec("qwen-7b")) if each.engine == "transformers 5.24")
    assert view.rope_theta is None
    assert "no type qwen" in view.rules[0]


def test_a_publisher_s_own_line_has_the_original_length() -> None:
    options = ropewalk.convert(FILES["qwen3-40960"], "vllm", rope="yarn:4").options
    assert options is not None
    assert '"original_max_position_embeddings": 32768' in options
    assert options.endswith("--max-model-len 131072")
    other = ropewalk.convert(FILES["qwen3-40960"], "vllm", rope="yarn:4", original=40_960).options
    assert other is not None
    assert '"original_max_position_embeddings": 40960' in other


@pytest.mark.parametrize(("factor", "claimed"), [(4.0, 131_072), (2.0, 65_536), (1.0, 32_768)])
@pytest.mark.parametrize("kind", ["type", "rope_type"])
def test_yarn_on_the_length_that_is_claimed_claims_the_factor_times_that(
    factor: float, claimed: int, kind: str
) -> None:
    rope = {kind: "yarn", "factor": factor, "original_max_position_embeddings": 32_768}
    config = {**FILES["qwen3-40960"], "max_position_embeddings": 32_768, "rope_scaling": rope}
    found = read_config(config)
    assert (found.claimed.tokens, found.trained.tokens) == (claimed, 32_768)
    assert codes(found) == []
    if factor > 1.0:
        line = ropewalk.convert(config, "llamacpp").options
        assert line is not None
        # The converted file says 32,768, at which the server would stop.
        assert f"--override-kv qwen3.context_length=int:{claimed}" in line
        written = ropewalk.convert(config, "hf5").config
        assert written is not None
        assert written["max_position_embeddings"] == claimed
    beyond = read_config({**config, "max_position_embeddings": 131_072})
    assert beyond.claimed.tokens == 131_072


@pytest.mark.parametrize("model_type", ["exaone4", "qwen3", "llama", "mixtral", "olmo2"])
@pytest.mark.parametrize("kinds", [("sliding_attention",), ("sliding_attention", "full_attention")])
def test_dictionaries_by_kind_are_written_as_one_where_the_class_takes_one_alone(
    model_type: str, kinds: tuple[str, ...]
) -> None:
    rope = {"rope_type": "default", "rope_theta": 2e6}
    nested = dict.fromkeys(kinds, rope)
    if model_type != "exaone4":
        # There the layers without a dictionary do rotate.
        nested["full_attention"] = rope
    config = {**FILES["exaone4-nested"], "model_type": model_type, "rope_parameters": nested}
    written = ropewalk.convert(config, "hf5").config
    assert written is not None
    assert written["rope_parameters"] == rope
    nested["full_attention"] = rope | {"rope_theta": 3e6}
    with_two = {**config, "rope_parameters": {"sliding_attention": rope, **nested}}
    if model_type != "exaone4":
        with pytest.raises(ScheduleError, match="one schedule for all layers"):
            ropewalk.convert(with_two, "hf5")


@pytest.mark.parametrize(
    "model_type",
    [
        *("deepseek_v32", "deepseek_v4", "glm_moe_dsa", "minimax_m3_vl_text", "inkling_text"),
        *("inkling2_text", "inkling2_loop_text", "modernbert", "modernbert-decoder", "gpt_neo"),
        *(
            "lfm2",
            "gemma3n_text",
            "llama4_text",
            "smollm3",
            "cohere2_moe",
            "minimax",
            "molmo2_text",
        ),
        *("molmo2_text", "nemotron_h", "recurrent_gemma", "qwen3_next", "csm", "step3p7"),
    ],
)
def test_what_a_class_writes_of_itself_has_no_key_that_is_not_read(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(model_type).to_dict()
    found = read_config(config)
    assert [each.text for each in found.findings if each.code == "key-not-read"] == []
    assert "unknown-model-type" not in {each.code for each in found.findings}


@pytest.mark.parametrize("period", [2, 3, 4, 5])
@pytest.mark.parametrize("window", [64, 128])
def test_modernbert_s_decoder_takes_its_period_and_half_of_its_window(
    period: int, window: int
) -> None:
    config = {
        "model_type": "modernbert-decoder", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 10, "global_attn_every_n_layers": period, "local_attention": window,
    }  # fmt: skip
    by_name = {group.name: group for group in read_config(config).groups}
    sliding = by_name["sliding attention"]
    assert by_name["full attention"].layers == tuple(range(0, 10, period))
    assert sliding.window == Window(window // 2)
    words = ["full_attention" if i % 5 == 0 else "sliding_attention" for i in range(10)]
    stated = read_config({**config, "layer_types": words})
    assert codes(stated) == []
    assert stated.groups[0].layers == (0, 5)


@pytest.mark.parametrize("turns", [[["global", "local"], 4], [["local", "local", "global"], 2]])
@pytest.mark.parametrize("window", [128, 256])
def test_gpt_neo_s_turns_of_words_are_read(turns: list[Any], window: int) -> None:
    words = turns[0] * turns[1]
    config = {
        "model_type": "gpt_neo", "hidden_size": 64, "num_heads": 4, "num_layers": len(words),
        "max_position_embeddings": 2048, "attention_types": [turns], "window_size": window,
    }  # fmt: skip
    by_name = {group.name: group for group in read_config(config).groups}
    local = tuple(i for i, word in enumerate(words) if word == "local")
    assert by_name["sliding attention"].layers == local
    assert by_name["sliding attention"].window == Window(window)
    with pytest.raises(ConfigError, match="a list of turns"):
        read_config({**config, "attention_types": [["global", 4]]})


def test_every_attending_layer_of_recurrent_gemma_has_its_window() -> None:
    config = {
        "model_type": "recurrent_gemma", "hidden_size": 64, "num_attention_heads": 4,
        "num_hidden_layers": 8, "block_types": ["recurrent", "recurrent", "attention"],
        "attention_window_size": 2048, "rope_theta": 10_000.0,
    }  # fmt: skip
    (group,) = (each for each, _ in read_config(config).rotary_groups())
    assert (group.layers, group.window) == ((2, 5), Window(2048))


def misspelt(key: str) -> list[str]:
    middle = len(key) // 2
    swapped = key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :]
    return [
        key + "s" if not key.endswith("s") else key[:-1], key[:middle] + "x" + key[middle + 1 :],
        key[:middle] + key[middle + 1 :], swapped, key.replace("_", "-", 1), key.upper(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "key",
    [
        *("num_hidden_layers", "max_position_embeddings", "rope_theta", "rope_scaling"),
        *("num_attention_heads", "hidden_size"),
    ],
)
def test_a_key_that_is_one_letter_from_one_that_is_absent_is_named(key: str) -> None:
    config = FILES["llama31-v4"]
    for given in misspelt(key):
        if given == key:
            continue
        changed = {given if name == key else name: value for name, value in config.items()}
        found = read_config(changed)
        told = [each.text for each in found.findings if each.code == "key-misspelt"]
        assert any(given in text and key in text for text in told), given
    # A key more beside the right one is no slip.
    assert "key-misspelt" not in codes(spec("llama31-v4", **{misspelt(key)[0]: config[key]}))


@pytest.mark.parametrize("word", ["sliding_attentions", "Full_attention", "linear", "local"])
def test_a_dictionary_under_a_word_that_names_no_kind_of_layer_is_a_warning(word: str) -> None:
    rope = {**FILES["laguna-xs.2"]["rope_parameters"], word: {"rope_theta": 1e4}}
    found = spec("laguna-xs.2", rope_parameters=rope)
    (told,) = (each for each in found.findings if each.code == "unknown-rope-kind")
    assert word in told.text


def test_a_slip_within_the_list_of_layers_is_named() -> None:
    linear = dict(FILES["kimi_linear"]["linear_attn_config"])
    linear["full_attn_layer"] = linear.pop("full_attn_layers")
    assert "key-misspelt" in codes(spec("kimi_linear", linear_attn_config=linear))
