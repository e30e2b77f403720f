from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ropewalk.errors import GgufError
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import (
    Linear,
    LongRope,
    Ntk,
    PairDivisors,
    Proportional,
    UnknownScaling,
    Unscaled,
    Yarn,
)
from ropewalk.rope.spec import (
    PositionSpec,
    RotarySpec,
    Window,
)

Spec = Callable[..., PositionSpec]

YARN_KEYS: dict[str, Any] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 40.0,
    "rope__scaling__original_context_length": 4096,
}

# The searched lists of Phi-3-mini-128k (Microsoft's config.json), original length 4096.
PHI3_LONG = (
    "1.03 1.05 1.05 1.08 1.23 1.23 1.30 1.45 1.60 1.65 1.90 2.86 3.69 5.42 5.49 5.49 9.09 11.58 "
    "15.66 15.77 15.79 18.36 21.99 23.08 30.01 32.35 32.59 35.56 39.95 53.84 56.20 57.95 59.29 "
    "59.77 59.92 61.19 61.96 62.50 63.37 63.48 63.48 63.66 63.85 64.08 64.76 64.80 64.81 64.81"
)
PHI3_SHORT = (
    [1.05] * 3 + [1.1] * 3 + [1.25] * 2 + [1.4, 1.45, 1.55, 1.85, 1.9] + [2.0] * 19
    + [2.1, 2.1, 2.2] + [2.35] * 4 + [2.4, 2.4, 2.65, 2.7, 2.9, 2.95] + [3.05] * 3
)  # fmt: skip


def rotary(spec: PositionSpec) -> RotarySpec:
    (group,) = spec.groups
    assert isinstance(group.encoding, RotarySpec)
    return group.encoding


def codes(spec: PositionSpec) -> set[str]:
    return {r.code for r in spec.findings}


def llama3_divisors(
    factor: float, dim: int, base: float, length: int = 8192
) -> np.ndarray[Any, Any]:
    """The loop of Meta's reference code (llama-models, apply_scaling), as divisors."""
    out = []
    for i in range(0, dim, 2):
        freq = 1.0 / base ** (i / dim)
        wavelength = 2 * math.pi / freq
        if wavelength < length / 4.0:
            out.append(1.0)
        elif wavelength > length / 1.0:
            out.append(factor)
        else:
            smooth = (length / wavelength - 1.0) / (4.0 - 1.0)
            out.append(freq / ((1 - smooth) * freq / factor + smooth * freq))
    return np.array(out, dtype=np.float32)


def test_llama_31s_schedule_is_found_in_its_tensor(gguf_spec: Spec) -> None:
    divisors = llama3_divisors(8.0, 128, 5e5)
    # The blended pairs, as published for Llama 3.1.
    published = [1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327]
    assert divisors[29:35] == pytest.approx(published, abs=1e-6)
    read = gguf_spec("llama", {"rope_freqs.weight": divisors})
    found = rotary(read)
    assert found.scaling == PairDivisors(tuple(divisors.tolist()))
    assert found.scaling_source == "tensor rope_freqs.weight"
    remark = next(r for r in read.findings if r.code == "rope-freqs-llama3")
    assert "factor 8," in remark.text
    assert (read.trained.tokens, read.trained.stated) == (8192, False)
    assert schedule(found).inv_freq[29] == pytest.approx(0.0021665708, rel=1e-6)


def test_llama_32s_factor_of_32_is_recognised(gguf_spec: Spec) -> None:
    divisors = llama3_divisors(32.0, 64, 5e5)
    read = gguf_spec("llama", {"rope_freqs.weight": divisors}, attention__head_count=8)
    assert "factor 32," in next(r.text for r in read.findings if r.code == "rope-freqs-llama3")


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("factor", [4.0, 8.0, 32.0])
@pytest.mark.parametrize("made", [10_000.0, 250_000.0, 1e6, 8_000_000.0])
def test_llama_3s_rule_is_recognised_when_it_was_made_for_another_base(
    gguf_spec: Spec, made: float, factor: float, dim: int
) -> None:
    divisors = llama3_divisors(factor, dim, made)
    read = gguf_spec("llama", {"rope_freqs.weight": divisors}, attention__key_length=dim)
    told = next(r for r in read.findings if r.code == "rope-freqs-other-base")
    assert told.severity == "warning"
    assert f"factor {factor:g}," in told.text
    assert f"made for the base {made:,.0f}" in told.text
    assert "llama.rope.freq_base is 500,000" in told.text


@pytest.mark.parametrize("length", [4096, 16384, 131072])
def test_llama_3s_rule_is_recognised_at_another_reference_length(
    gguf_spec: Spec, length: int
) -> None:
    divisors = llama3_divisors(8.0, 128, 5e5, length)
    read = gguf_spec("llama", {"rope_freqs.weight": divisors})
    told = next(r.text for r in read.findings if r.code == "rope-freqs-llama3")
    assert f"original length {length}" in told
    assert read.trained.tokens == length


def test_divisors_of_another_rule_are_not_taken_for_llama_3s(gguf_spec: Spec) -> None:
    divisors = np.linspace(1, 8, 64, dtype=np.float32)
    read = gguf_spec("llama", {"rope_freqs.weight": divisors})
    assert codes(read) == {"rope-freqs-own"}
    assert read.trained.tokens is None


@pytest.mark.parametrize(("head", "live"), [(512, 64), (128, 16), (96, 7), (22, 3)])
def test_gemma_4_s_still_pairs_are_a_proportional_schedule(
    gguf_spec: Spec, head: int, live: int
) -> None:
    # Gemma 4's converter: 1 for the pairs that turn, 1e30 for the others.
    divisors = np.array([1.0] * live + [1e30] * (head // 2 - live), dtype=np.float32)
    spec = gguf_spec("llama", {"rope_freqs.weight": divisors}, attention__key_length=head)
    (_, found) = next(spec.rotary_groups())
    assert isinstance(found.scaling, Proportional)
    inv_freq = schedule(found).inv_freq
    assert inv_freq[:live] == tuple(500_000.0 ** (-2 * i / head) for i in range(live))
    assert set(inv_freq[live:]) == {0.0}
    assert [r.code for r in spec.findings] == ["rope-freqs-proportional"]


def test_still_pairs_in_the_midst_are_divisors(gguf_spec: Spec) -> None:
    divisors = np.array([1.0, 1e30] * 32, dtype=np.float32)
    (_, found) = next(gguf_spec("llama", {"rope_freqs.weight": divisors}).rotary_groups())
    assert isinstance(found.scaling, PairDivisors)


def test_divisors_of_single_layers_part_the_layers(gguf_spec: Spec) -> None:
    one, two = (np.full(64, v, dtype=np.float32) for v in (1.0, 2.0))
    read = gguf_spec("llama", {"rope_freqs.weight": one, "blk.2.rope_freqs.weight": two})
    layers = {g.layers: g.encoding for g in read.groups}
    assert set(layers) == {(0, 1, 3), (2,)}
    own = layers[(2,)]
    assert isinstance(own, RotarySpec)
    assert own.scaling == PairDivisors((2.0,) * 64)
    assert len({g.name for g in read.groups}) == 2


def test_divisors_and_a_linear_factor_multiply(gguf_spec: Spec) -> None:
    read = gguf_spec(
        "llama", {"rope_freqs.weight": np.full(64, 2, np.float32)}, rope__scale_linear=4.0
    )
    assert rotary(read).scaling == PairDivisors((8.0,) * 64)


def test_divisors_beside_yarn_are_not_guessed_at(gguf_spec: Spec) -> None:
    yarn = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}
    read = gguf_spec("llama", {"rope_freqs.weight": np.full(64, 2, np.float32)}, **yarn)
    assert isinstance(rotary(read).scaling, UnknownScaling)
    assert "divisors-and-scaling" in codes(read)


def test_phi_3s_lists_keep_the_amplitude_that_the_converter_baked_in(gguf_spec: Spec) -> None:
    long = np.array([float(v) for v in PHI3_LONG.split()], dtype=np.float32)
    short = np.array(PHI3_SHORT, dtype=np.float32)
    read = gguf_spec(
        "phi3",
        {"rope_factors_long.weight": long, "rope_factors_short.weight": short},
        embedding_length=3072,
        attention__head_count=32,
        rope__dimension_count=96,
        rope__scaling__attn_factor=1.1902380714238083,
        rope__scaling__original_context_length=4096,
        attention__sliding_window=262144,
    )
    found = rotary(read)
    assert isinstance(found.scaling, LongRope)
    assert (found.scaling.original_max_position_embeddings, found.scaling.factor) == (4096, 32.0)
    assert found.scaling.amplitude()[0] == pytest.approx(1.190238, abs=1e-6)
    assert schedule(found, 4096).inv_freq[0] == pytest.approx(1 / 1.05)
    assert schedule(found, 4097).inv_freq[0] == pytest.approx(1 / 1.03)
    assert (read.trained.tokens, read.trained.stated) == (4096, True)
    assert read.groups[0].window == Window(262144)
    assert codes(read) == {"window-ignored"}


def test_one_of_two_lists_is_not_enough(gguf_spec: Spec) -> None:
    with pytest.raises(GgufError, match="no rope_factors_short"):
        gguf_spec("phi3", {"rope_factors_long.weight": np.ones(64, np.float32)})


def test_lists_without_an_amplitude_are_remarked_on(gguf_spec: Spec) -> None:
    ones = np.ones(64, np.float32)
    read = gguf_spec("phi3", {"rope_factors_long.weight": ones, "rope_factors_short.weight": ones})
    assert "longrope-amplitude-missing" in codes(read)
    assert rotary(read).scaling.amplitude()[0] == 1.0


def test_divisors_must_be_one_a_pair_and_positive(gguf_spec: Spec) -> None:
    with pytest.raises(GgufError, match="48 divisors for 64 rotary pairs"):
        gguf_spec("llama", {"rope_freqs.weight": np.ones(48, np.float32)})
    for bad in (0.0, -1.0, math.nan, math.inf):
        values = np.ones(64, np.float32)
        values[5] = bad
        with pytest.raises(GgufError, match=r"rope_freqs\.weight' holds"):
            gguf_spec("llama", {"rope_freqs.weight": values})


@pytest.mark.parametrize(
    ("keys", "scaling", "source"),
    [
        ({}, Unscaled(), "no scaling factor"),
        ({"rope__scaling__factor": 4.0}, Linear(4.0), "without a type: linear"),
        ({"rope__scale_linear": 2.0}, Linear(2.0), "rope.scale_linear, without a type"),
        ({"rope__scaling__factor": 0.0}, Unscaled(), "no scaling factor"),
        ({"rope__scaling__type": "none", "rope__scaling__factor": 4.0}, Unscaled(), "'none'"),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 8.0}, Linear(8.0), "factor"),
        ({"rope__scaling__alpha": 1000.0}, Ntk(1000.0), "rope.scaling.alpha"),
    ],
)
def test_keys_alone_are_read_by_llama_cpps_rules(
    gguf_spec: Spec, keys: dict[str, Any], scaling: object, source: str
) -> None:
    found = rotary(gguf_spec("hunyuan-dense", **keys))
    assert found.scaling == scaling
    assert source in found.scaling_source


YARN: dict[str, Any] = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 40.0,
    "rope__scaling__original_context_length": 4096,
}


def test_yarn_has_the_published_amplitude_and_ramp_length(gguf_spec: Spec) -> None:
    read = gguf_spec("qwen2", **YARN)
    found = rotary(read)
    assert found.scaling == Yarn(40.0, 4096)
    assert found.scaling.amplitude()[0] == pytest.approx(1.3688879454)
    assert (read.trained.tokens, read.trained.stated) == (4096, True)
    assert read.trained.source == "qwen2.rope.scaling.original_context_length"


def test_yarn_without_an_original_length_falls_back_and_says_so(gguf_spec: Spec) -> None:
    keys = {k: v for k, v in YARN.items() if "original" not in k}
    read = gguf_spec("qwen2", **keys)
    assert rotary(read).scaling == Yarn(40.0, 131072)
    assert read.trained.tokens is None
    assert "original-length-missing" in codes(read)


def test_attn_factor_multiplies_yarns_own_amplitude(gguf_spec: Spec) -> None:
    found = rotary(gguf_spec("qwen2", **YARN, rope__scaling__attn_factor=0.5))
    # 0.5 * (0.1 ln 40 + 1); the same dictionary in llama.cpp gives 0.68444.
    assert found.scaling.amplitude()[0] == pytest.approx(0.68444, abs=1e-5)


def test_a_yarn_attn_factor_is_overwritten_and_said_to_be(gguf_spec: Spec) -> None:
    read = gguf_spec("qwen2", **YARN, rope__scaling__yarn_attn_factor=0.5)
    assert rotary(read).scaling.amplitude()[0] == pytest.approx(1.3688879454)
    assert codes(read) == {"yarn-attn-factor-overwritten"}


def test_deepseek_moves_yarns_amplitude_into_the_softmax(gguf_spec: Spec) -> None:
    read = gguf_spec(
        "deepseek2",
        **YARN,
        attention__key_length_mla=192,
        attention__key_length=576,
        rope__dimension_count=64,
        # A tenth of mscale_all_dim, as the converter writes it.
        rope__scaling__yarn_log_multiplier=0.0707,
    )
    found = rotary(read)
    assert (found.head_dim, found.rotary_dim, found.layout) == (192, 64, "interleaved")
    assert found.scaling.amplitude()[0] == pytest.approx(1.0)
    # m(40, 0.707)^2, from DeepSeek-V2's own code.
    assert read.groups[0].softmax.factor == pytest.approx(1.58963, abs=1e-5)


def test_mistral_3_reads_the_multiplier_as_it_stands(gguf_spec: Spec) -> None:
    found = rotary(gguf_spec("mistral3", **YARN, rope__scaling__yarn_log_multiplier=1.0))
    assert found.scaling.amplitude()[0] == pytest.approx(1.0)


def test_the_multiplier_of_another_architecture_is_unread(gguf_spec: Spec) -> None:
    read = gguf_spec("llama", **YARN, rope__scaling__yarn_log_multiplier=0.1)
    assert rotary(read).scaling.amplitude()[0] == pytest.approx(1.3688879454)
    assert codes(read) == {"yarn-log-multiplier-unread"}


def test_glm_s_sparse_attention_does_not_read_the_multiplier(gguf_spec: Spec) -> None:
    keys = {"rope__scaling__yarn_log_multiplier": 0.1, "attention__key_length": 192}
    spec = gguf_spec("glm-dsa", rope__dimension_count=64, **YARN_KEYS, **keys)
    assert "yarn-log-multiplier-unread" in [r.code for r in spec.findings]
    # What is left is YaRN's own amplitude, which llama.cpp has in the softmax a second time.
    assert spec.groups[0].softmax.factor == pytest.approx((0.1 * math.log(40) + 1) ** 2)


def test_deepseek_ocr_has_plain_heads(gguf_spec: Spec) -> None:
    spec = gguf_spec("deepseek2-ocr", **YARN_KEYS)
    (group, found) = next(spec.rotary_groups())
    assert (found.placement, found.rotary_dim, group.softmax.factor) == ("first", 128, 1.0)


def test_partial_yarn_is_named_and_not_computed(gguf_spec: Spec) -> None:
    read = gguf_spec("grok", **YARN, rope__scaling__yarn_ext_factor=0.5)
    assert isinstance(rotary(read).scaling, UnknownScaling)
    assert rotary(gguf_spec("grok", **YARN, rope__scaling__yarn_ext_factor=0.0)).scaling == Linear(
        40.0
    )


@pytest.mark.parametrize(
    ("key", "value", "usual"),
    [("yarn_beta_fast", 16.0, "32"), ("yarn_beta_slow", 2.0, "1"), ("yarn_ext_factor", 0.0, "1")],
)
def test_most_architectures_do_not_read_yarns_finer_keys(
    gguf_spec: Spec, key: str, value: float, usual: str
) -> None:
    read = gguf_spec("llama", **YARN, **{f"rope__scaling__{key}": value})
    assert rotary(read).scaling == rotary(gguf_spec("llama", **YARN)).scaling
    (remark,) = (r for r in read.findings if r.code == "yarn-key-unread")
    assert f"llama.rope.scaling.{key} is {value:g}" in remark.text
    assert remark.text.endswith(f"computes with {usual}")
    # A share of YaRN is no schedule that training has seen: no option brings it back.
    option = "" if key == "yarn_ext_factor" else f"--{key.replace('_', '-')} {value:g}"
    assert remark.remedy == (option and f"state it when serving: {option}")


def test_the_usual_value_of_an_unread_key_needs_no_remark(gguf_spec: Spec) -> None:
    usual = {"yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0, "yarn_ext_factor": 1.0}
    read = gguf_spec("llama", **YARN, **{f"rope__scaling__{k}": v for k, v in usual.items()})
    assert codes(read) == set()


def test_mistral_3_reads_the_ends_of_the_ramp(gguf_spec: Spec) -> None:
    keys = {"rope__scaling__yarn_beta_fast": 4.0, "rope__scaling__yarn_beta_slow": 2.0}
    found = rotary(gguf_spec("mistral3", **YARN, **keys)).scaling
    assert isinstance(found, Yarn)
    assert (found.beta_fast, found.beta_slow) == (4.0, 2.0)


def test_an_unknown_scaling_type_keeps_its_name(gguf_spec: Spec) -> None:
    read = gguf_spec("llama", rope__scaling__type="spiral", rope__scaling__factor=2.0)
    assert rotary(read).scaling == UnknownScaling("spiral", (("factor", "2"),))
    assert "scaling-unknown" in codes(read)


def test_a_factor_that_is_missing_is_remarked_on(gguf_spec: Spec) -> None:
    read = gguf_spec("llama", rope__scaling__type="linear")
    assert rotary(read).scaling == Unscaled()
    assert "factor-missing" in codes(read)


def test_an_amplitude_that_stands_alone_is_remarked_on(gguf_spec: Spec) -> None:
    assert "amplitude-alone" in codes(gguf_spec("llama", rope__scaling__attn_factor=1.2))
