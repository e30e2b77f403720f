"""Published and worked-out figures of what engines make of the same settings.

The amplitudes are those of the engines' sources, worked out by hand for a factor of 40; each
cell was computed outside this package.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from ropewalk.dialects.engines import EngineView, engine_views, parting
from ropewalk.dialects.gguf.archs import ARCHITECTURE_OF, ARCHITECTURES
from ropewalk.dialects.hf import read_config

YARN_40 = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 2,
    "max_position_embeddings": 163840,
}
DEEPSEEK = {
    **LLAMA,
    "model_type": "deepseek_v2",
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
}
OLD, NEW, HF, CPP, MLX = (
    "vLLM 0.28",
    "vLLM 0.32",
    "transformers 5.24",
    "llama.cpp",
    "mlx-lm",
)


def views(config: dict[str, Any], **options: Any) -> dict[str, EngineView]:
    return {v.engine: v for v in engine_views(read_config(config), **options)}


def amplitudes(config: dict[str, Any], **keys: Any) -> dict[str, float]:
    found = views({**config, "rope_scaling": {**YARN_40, **keys}})
    return {name: round(v.attention_factor or 0.0, 5) for name, v in found.items()}


PAIR = {"mscale": 0.707, "mscale_all_dim": 0.707}
ALONE = {"mscale": 0.707, "mscale_all_dim": 0}

# dictionary, (HF 5, vLLM as read, llama.cpp, mlx-lm) on a model with plain attention
PLAIN: list[tuple[dict[str, Any], tuple[float, float, float, float]]] = [
    ({}, (1.36889, 1.36889, 1.36889, 1.36889)),
    (PAIR, (1.0, 1.36889, 1.36889, 1.0)),
    (ALONE, (1.36889, 1.36889, 1.36889, 1.26080)),
    ({"attention_factor": 1.0}, (1.0, 1.36889, 1.36889, 1.36889)),
    ({"attn_factor": 0.5}, (1.36889, 0.68444, 0.68444, 1.36889)),
]


@pytest.mark.parametrize(("keys", "expected"), PLAIN, ids=[str(k) for k, _ in PLAIN])
def test_one_dictionary_has_as_many_amplitudes_as_engines(
    keys: dict[str, Any], expected: tuple[float, ...]
) -> None:
    found = amplitudes(LLAMA, **keys)
    assert tuple(found[name] for name in (HF, OLD, CPP, MLX)) == pytest.approx(expected, abs=1.1e-5)
    # The alignment of September 2026 brought vLLM to transformers' rule.
    assert found[NEW] == found[HF]


def test_llama_cpp_reads_yarns_finer_keys_for_mistral_3_and_for_few_others() -> None:
    fine = {"rope_scaling": {**YARN_40, **PAIR, "beta_fast": 4.0}}
    ministral = views({**LLAMA, "model_type": "ministral3", **fine})[CPP]
    llama = views({**LLAMA, **fine})[CPP]
    # 1.3688879 / 1.2608038: mscale is taken for 1.
    assert ministral.attention_factor == pytest.approx(1.08572, abs=1e-5)
    assert {"mscale_all_dim", "beta_fast"} <= {*llama.ignored} - {*ministral.ignored}
    plain = views({**LLAMA, "rope_scaling": YARN_40})[CPP]
    assert llama.claim is not None
    assert llama.claim == plain.claim
    assert ministral.claim != plain.claim


# dictionary, amplitude of vLLM's deepseek_yarn, its softmax factor
LATENT: list[tuple[dict[str, Any], float, float]] = [
    ({}, 1.36889, 1.0),
    (PAIR, 1.0, 1.58963),
    (ALONE, 1.26080, 1.0),
    ({"attention_factor": 1.0}, 1.36889, 1.0),
    ({"attn_factor": 0.5}, 0.68444, 1.0),
]


@pytest.mark.parametrize(("keys", "amplitude", "softmax"), LATENT, ids=lambda v: str(v))
def test_latent_attention_goes_by_deepseeks_rule(
    keys: dict[str, Any], amplitude: float, softmax: float
) -> None:
    found = views({**DEEPSEEK, "rope_scaling": {**YARN_40, **keys}})
    stated = keys.get("attn_factor", 1.0)
    # attn_factor is gone since 0.30.0.
    for name, expected in ((OLD, amplitude), (NEW, amplitude / stated)):
        assert found[name].attention_factor == pytest.approx(expected, abs=2.2e-5)
        assert found[name].softmax_factor == pytest.approx(softmax, abs=1e-5)


def test_the_pair_that_cancels_is_carried_by_the_softmax_of_latent_attention() -> None:
    found = views({**DEEPSEEK, "rope_scaling": {**YARN_40, **PAIR}})
    for name in (HF, OLD, NEW, CPP, MLX):
        assert found[name].attention_factor == pytest.approx(1.0)
        assert found[name].softmax_factor == pytest.approx(1.58963, abs=1e-5)


def test_laguna_asks_for_an_amplitude_of_one_and_an_older_vllm_did_not_hear() -> None:
    keys = {"factor": 64.0, "attention_factor": 1.0}
    found = views({**LLAMA, "rope_scaling": {**YARN_40, **keys}})
    assert found[OLD].attention_factor == pytest.approx(1.4158883)
    assert "attention_factor" in found[OLD].ignored
    assert found[HF].attention_factor == 1.0
    apart = parting(found[HF], found[OLD])
    assert apart is not None
    assert (apart.position, round(apart.attention, 7)) == (None, 1.4158883)
    assert not apart.agree


@pytest.mark.parametrize("factor", [2.0, 4.0, 8.0])
def test_vllm_asks_its_dynamic_rule_for_the_file_s_own_length(factor: float) -> None:
    # Measured on 0.28.0 and 0.32.0: the table has the file's length in rows, at the plain base.
    rope = {"rope_type": "dynamic", "factor": factor}
    config = {**LLAMA, "max_position_embeddings": 4096, "rope_scaling": rope}
    for served in (512, 4096, 65536):
        found = views(config, served=served)
        for name in (OLD, NEW):
            assert found[name].rope_theta == pytest.approx(10000.0)
            short = any("has 4096 rows for 65536 positions" in rule for rule in found[name].rules)
            assert short == (served == 65536)


@pytest.mark.parametrize(("factor", "multiplier"), [(2.0, 3), (4.0, 13), (8.0, 57)])
def test_sglang_fixes_dynamic_scaling_at_one_multiplier(factor: float, multiplier: int) -> None:
    # The multiplier 3 for a factor of 2 was measured on 0.5.23.
    rope = {"rope_type": "dynamic", "factor": factor}
    config = {**LLAMA, "max_position_embeddings": 4096, "rope_scaling": rope}
    found = views(config)["SGLang 0.5.23"]
    # base x multiplier^(d/(d-2))
    assert found.rope_theta == pytest.approx(10000.0 * multiplier ** (128 / 126))
    assert found.prompt == found.claim


def test_transformers_fixes_it_by_each_prompt() -> None:
    rope = {"rope_type": "dynamic", "factor": 2.0}
    config = {**LLAMA, "max_position_embeddings": 4096, "rope_scaling": rope}
    # T = 4096, L = 8192, s = 2: multiplier 3, base 30527.74
    found = views(config, served=8192)
    prompt = found[HF].prompt
    assert prompt is not None
    assert prompt.inv_freq[-1] == pytest.approx(1e4 ** (-126 / 128))
    assert found[HF].inv_freq[-1] == pytest.approx(30527.7367 ** (-126 / 128))
    apart = parting(found[HF], found[NEW])
    assert apart is not None
    assert apart.position is not None
    assert "a base that grows with the prompt is not known" in found[CPP].rules[0]


def test_a_prompt_of_1000_tokens_to_a_long_phi_3_differs_by_engine() -> None:
    config = {
        **LLAMA,
        "model_type": "phi3",
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0 + i / 100 for i in range(64)],
            "long_factor": [1.0 + i for i in range(64)],
        },
    }
    found = views(config, prompt=1000)
    plain = [1e4 ** (-2 * i / 128) for i in range(64)]
    short = [f / (1.0 + i / 100) for i, f in enumerate(plain)]
    long = [f / (1.0 + i) for i, f in enumerate(plain)]
    for name, expected in ((HF, short), (OLD, long), (NEW, long), (CPP, long), (MLX, long)):
        view = found[name]
        assert view.prompt is not None
        assert view.prompt.inv_freq == pytest.approx(expected)
        assert view.inv_freq == pytest.approx(long)
        assert view.attention_factor == pytest.approx(1.1902380714)
    assert "short_factor" in found[MLX].ignored
    # Measured: it derives the original length where no option states another.
    assert any("without --max-model-len it serves 4096 tokens" in r for r in found[NEW].rules)
    # Served for no more than the switch, vLLM takes the short factors; mlx never does.
    small = views(config, served=4096)
    assert small[NEW].inv_freq == pytest.approx(short)
    assert small[MLX].inv_freq == pytest.approx(long)


def test_all_engines_hold_the_ramp_at_d_minus_one_and_not_at_the_last_pair() -> None:
    # T = 131072, base 10000: even the slowest pair makes a full turn in training.
    def by_hand(last: int, pairs: int) -> list[float]:
        dim = 2 * pairs
        low = math.floor(dim * math.log(131072 / (64 * math.pi)) / (2 * math.log(1e4)))
        high = math.ceil(dim * math.log(131072 / (2 * math.pi)) / (2 * math.log(1e4)))
        high = min(high, last)
        ramp = [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(pairs)]
        plain = [1e4 ** (-2 * i / dim) for i in range(pairs)]
        return [f * (1 - r) + f / 8 * r for f, r in zip(plain, ramp, strict=True)]

    for pairs, largest in ((32, 0.68), (64, 0.66)):
        right, other = by_hand(2 * pairs - 1, pairs), by_hand(pairs - 1, pairs)
        apart = max((a - b) / a for a, b in zip(right, other, strict=True))
        assert apart == pytest.approx(largest, abs=0.005)
        rope = {**YARN_40, "factor": 8.0, "original_max_position_embeddings": 131072}
        config = {**LLAMA, "head_dim": 2 * pairs, "rope_scaling": rope}
        for view in views(config).values():
            # exllamav3's factor is another one here, and two do not take YaRN.
            if view.engine.startswith("exllamav3") or view.claim is None:
                continue
            assert view.inv_freq == pytest.approx(right, rel=1e-12), view.engine
            assert view.inv_freq[-1] > 1e4 ** (-2 * (pairs - 1) / (2 * pairs)) / 8 * 1.5


def test_truncation_moves_gpt_oss_by_three_quarters_at_pair_17() -> None:
    rope = {**YARN_40, "factor": 32.0, "truncate": False}
    config = {**LLAMA, "head_dim": 64, "rope_theta": 150000.0, "rope_scaling": rope}
    found = views(config)
    raw, rounded = found[HF].inv_freq, found[CPP].inv_freq
    apart = [abs(a - b) / a for a, b in zip(raw, rounded, strict=True)]
    assert max(range(32), key=lambda i: apart[i]) == 17
    assert rounded[17] / raw[17] - 1 == pytest.approx(0.76, abs=0.005)
    assert found[MLX].inv_freq == rounded
    assert {"truncate"} <= set(found[CPP].ignored)
    assert found[OLD].inv_freq == found[NEW].inv_freq == raw


def test_mrope_with_yarn_had_a_ramp_for_four_times_the_length() -> None:
    rope = {**YARN_40, "original_max_position_embeddings": 32768, "mrope_section": [16, 24, 24]}
    config = {**LLAMA, "rope_theta": 1e6, "rope_scaling": {**rope, "truncate": False}}
    found = views(config)
    # right (23.596, 39.651), then (30.018, 46.073): pair 30 is kept there, half scaled here.
    plain = 1e6 ** (-60 / 128)
    share = (30 - 23.59595) / (39.65088 - 23.59595)
    assert found[HF].inv_freq[30] == pytest.approx(plain * (1 - share + share / 40), rel=1e-5)
    assert found[OLD].inv_freq[30] == pytest.approx(plain)


def test_llama_3_read_without_rope_parameters_rotates_the_last_pair_376_times_too_fast() -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    for dim, times in ((64, 354), (128, 376)):
        found = views({**LLAMA, "head_dim": dim, "rope_parameters": rope})
        old = found["transformers 4.57"]
        assert old.inv_freq[-1] / found[HF].inv_freq[-1] == pytest.approx(times, rel=2e-3)
        assert old.rope_theta == 10000.0
        assert "rope_parameters is not read" in old.rules[0]


def test_a_reference_length_inside_the_dictionary_is_not_seen_by_the_converter() -> None:
    rope = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 4096,
    }
    found = views({**LLAMA, "rope_scaling": rope})
    assert found[CPP].trained == 8192
    assert "original_max_position_embeddings" in found[CPP].ignored
    assert found[HF].trained == 4096


LISTS = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 64,
    "long_factor": [2.0] * 64,
    "original_max_position_embeddings": 4096,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize(
    ("rope", "model_type", "amplitude", "last_pair"),
    [
        # llama.cpp's converter: only classes with a rule of their own write divisors or lists,
        # and only Phi's write an amplitude with them, sqrt(1 + ln 40 / ln 4096).
        (LLAMA3, "llama", 1.0, 8.0),
        (LLAMA3, "qwen2", 1.0, 1.0),
        (LISTS, "phi3", 1.201455, 2.0),
        (LISTS, "minicpm3", 1.0, 2.0),
        (LISTS, "llama", 1.0, 1.0),
    ],
)
def test_the_converter_writes_divisors_only_for_families_that_it_has_a_rule_for(
    rope: dict[str, Any], model_type: str, amplitude: float, last_pair: float
) -> None:
    config = {**LLAMA, "model_type": model_type, "rope_scaling": rope, "head_dim": 128}
    if model_type == "minicpm3":
        config |= {"qk_rope_head_dim": 128, "qk_nope_head_dim": 64}
    if model_type == "phi3":
        config["original_max_position_embeddings"] = 4096
    found = views(config)[CPP]
    assert found.attention_factor == pytest.approx(amplitude, abs=1e-5)
    assert 1e4 ** (-126 / 128) / found.inv_freq[-1] == pytest.approx(last_pair)


@pytest.mark.parametrize("model_type", ["qwen3_moe", "gpt_neox", "llama4_text"])
def test_some_model_files_of_mlx_rotate_by_the_base_alone(model_type: str) -> None:
    # Their tables in mlx-lm 0.32.2 were plain, whatever rope_scaling said.
    config = {**LLAMA, "model_type": model_type, "rope_theta": 1e4, "rotary_pct": 1.0}
    config |= {"rotary_emb_base": 10000, "head_dim": 128, "no_rope_layers": [1, 1]}
    found = views({**config, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})[MLX]
    assert found.inv_freq[-1] == pytest.approx(1e4 ** (-126 / 128))
    assert found.rules == ("rope_scaling is not read for this family: the base alone",)


def test_latent_attention_in_vllm_takes_any_type_for_deepseek_s_yarn() -> None:
    # Measured on 0.32.0: 0.1 ln 8 + 1 for a llama3 of factor 8, and a KeyError for linear.
    found = views({**DEEPSEEK, "rope_scaling": LLAMA3})
    assert found[NEW].attention_factor == pytest.approx(1.20794, abs=1e-5)
    assert found[HF].attention_factor == 1.0
    linear = views({**DEEPSEEK, "rope_scaling": {"rope_type": "linear", "factor": 4.0}})[NEW]
    assert linear.claim is None
    assert "KeyError" in linear.rules[0]


@pytest.mark.parametrize(
    ("original", "rows"), [(1024, 4096), (2048, 8192), (4096, 16384), (512, 2048)]
)
def test_a_table_shorter_than_what_is_served_is_told(original: int, rows: int) -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": original}
    config = {**LLAMA, "max_position_embeddings": 8192, "rope_scaling": rope}
    for name in (OLD, NEW):
        told = " ".join(views(config)[name].rules)
        assert (f"{rows} rows for 8192 positions" in told) == (rows < 8192)
        assert ("crashes" in told) == (rows < 8192)


@pytest.mark.parametrize(
    ("model_type", "rope", "names", "told"),
    [
        ("phi3", {"type": "su"}, (HF, NEW), "KeyError"),
        ("phi3", {"rope_type": "yarn", "factor": 4.0}, (HF, NEW), "KeyError"),
        ("phi3", {"rope_type": "longrope"}, ("transformers 4.57",), "wants the key type"),
        ("llama", {"rope_type": "linear", "factor": 4}, (OLD, NEW), "TypeError"),
        ("gemma4_text", {"rope_type": "linear", "factor": 4.0}, ("transformers 4.57",), "not load"),
        ("persimmon", {"rope_type": "linear", "factor": 4.0}, (MLX,), "does not load it"),
        ("llama", {"rope_type": "yarn", "factor": 4.0}, ("mistral.rs 0.9.5",), "takes no yarn"),
    ],
)
def test_what_an_engine_refuses_is_told(
    model_type: str, rope: dict[str, Any], names: tuple[str, ...], told: str
) -> None:
    lists = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
    longrope = rope.get("rope_type") == "longrope" or rope.get("type") == "su"
    rope = {**rope, **(lists if longrope else {})}
    config = {**LLAMA, "model_type": model_type, "rope_scaling": rope}
    found = views({**config, "original_max_position_embeddings": 4096, "head_dim": 128})
    for name in names:
        assert found[name].claim is None, name
        assert told in found[name].rules[0]


def test_a_family_whose_long_list_transformers_never_takes_keeps_it_elsewhere() -> None:
    # phimoe: measured on vLLM 0.32.0 and mlx-lm 0.32.2, which rotate by the long factors.
    config = {**LLAMA, "model_type": "phimoe", "head_dim": 128, "rope_theta": 1e4}
    rope = {**LISTS, "short_mscale": 1.1, "long_mscale": 1.1}
    found = views({**config, "rope_scaling": rope, "original_max_position_embeddings": 4096})
    for name in (NEW, CPP, MLX, "lmdeploy 0.18"):
        assert 1e4 ** (-126 / 128) / found[name].inv_freq[-1] == pytest.approx(2.0), name


WITHOUT_FACTS = sorted(t for t, arch in ARCHITECTURE_OF.items() if arch not in ARCHITECTURES)


@pytest.mark.parametrize("model_type", WITHOUT_FACTS)
def test_llama_cpp_s_row_says_nothing_of_an_architecture_without_facts(model_type: str) -> None:
    config = {
        "model_type": model_type, "hidden_size": 512, "num_attention_heads": 8, "head_dim": 64,
        "num_hidden_layers": 6, "max_position_embeddings": 4096, "rope_theta": 1e4,
    }  # fmt: skip
    if model_type.startswith(("deepseek", "dots3", "glm5", "hy_v4")):
        config |= {"qk_rope_head_dim": 32, "qk_nope_head_dim": 32}
    views = [each for each in engine_views(read_config(config)) if each.engine == CPP]
    for view in views:
        assert view.rope_theta is None
        assert "is not known here" in view.rules[0]
