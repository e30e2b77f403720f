"""How the length was obtained: published recipes are recognised, the rest is left open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.findings import audit
from ropewalk.rope.frequencies import scaled_inv_freq
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
    UnknownScaling,
    Yarn,
    plain_inv_freq,
)
from ropewalk.rope.spec import (
    AlibiSpec,
    Encoding,
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    NoPositionSpec,
    PositionSpec,
    Recurrent,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
    Window,
)

MakeSpec = Callable[..., PositionSpec]


@pytest.mark.parametrize(
    ("model_type", "trained", "factor", "code", "words"),
    [
        ("qwen2", 32768, 4.0, "yarn-inference", "at inference only"),
        ("qwen3_moe", 40960, 4.0, "yarn-inference", "at inference only"),
        ("deepseek_v3", 4096, 40.0, "yarn-trained", "DeepSeek reports"),
        ("gpt_oss", 4096, 32.0, "yarn-trained", "gpt-oss"),
        ("arcee", 4096, 20.0, "yarn", "does not say whether"),
    ],
)
def test_yarn_is_told_by_the_family_and_otherwise_left_open(
    make_spec: MakeSpec, model_type: str, trained: int, factor: float, code: str, words: str
) -> None:
    claimed = int(trained * factor)
    spec = make_spec(
        scaling=Yarn(factor, trained), model_type=model_type, trained=trained, claimed=claimed
    )
    origin = audit(spec).origin
    assert origin.code == code
    assert words in origin.sentence


@pytest.mark.parametrize(
    ("model_type", "base", "claimed", "code", "words"),
    [
        ("llama", 1e4, 4096, "as-trained", "nothing in the file stretches"),
        ("nomic_bert", 1e3, 8192, "as-trained", "nothing in the file stretches"),
        ("llama", 5e5, 8192, "as-trained", "Llama 3"),
        ("mistral", 1e6, 32768, "larger-base", "v0.2"),
        ("qwen2", 1e6, 32768, "larger-base", "Qwen"),
        ("smollm3", 5e6, 65536, "larger-base", "SmolLM3"),
        ("llama", 8e6, 65536, "larger-base", "ProLong"),
        ("llama", 1e5, 8192, "larger-base", "does not say whether"),
        ("olmo2", 5e5, 4096, "larger-base", "does not say whether"),
    ],
)
def test_the_base_is_told_from_the_original_one(
    make_spec: MakeSpec, model_type: str, base: float, claimed: int, code: str, words: str
) -> None:
    origin = audit(make_spec(base=base, claimed=claimed, model_type=model_type)).origin
    assert origin.code == code
    assert words in origin.sentence


def test_a_claim_beyond_the_stated_length_with_nothing_to_explain_it_is_unknown(
    make_spec: MakeSpec,
) -> None:
    origin = audit(make_spec(trained=2048, claimed=8192)).origin
    assert origin.code == "unknown"
    assert "nothing in the schedule accounts" in origin.sentence


def test_gemma_3_is_interpolated_on_some_of_its_layers(make_spec: MakeSpec) -> None:
    local = LayerGroup("local", (2,), RotarySpec(256, 256, 1e4), Window(1024))
    spec = make_spec(
        scaling=Linear(8.0), base=1e6, model_type="gemma3_text", claimed=131072, more=(local,)
    )
    origin = audit(spec).origin
    assert origin.code == "position-interpolation"
    assert "on some of the layers" in origin.sentence


@pytest.mark.parametrize(
    ("scaling", "code"),
    [
        (Linear(4.0), "position-interpolation"),
        (Linear(1.0), "as-trained"),
        (Ntk(4.0), "ntk"),
        (NtkByParts(4.0, 4096), "ntk-by-parts"),
        (LargerBase(5e5), "larger-base"),
        (Proportional(0.25), "as-trained"),
        (Proportional(0.25, 4.0), "position-interpolation"),
        (PairDivisors((1.0,) * 32 + (1e30,) * 32), "pair-divisors"),
        (DynamicNtk(2.0, 4096), "dynamic"),
        (Llama3(8.0, 1.0, 4.0, 8192), "llama3"),
        (LongRope((1.0,) * 64, (2.0,) * 64, 4096, 2.0), "longrope"),
        (PairDivisors((1.0,) * 32 + (3.0,) * 32), "pair-divisors"),
        (UnknownScaling("telescope"), "unknown"),
    ],
)
def test_each_scaling_has_its_origin(make_spec: MakeSpec, scaling: object, code: str) -> None:
    assert audit(make_spec(scaling=scaling)).origin.code == code


def test_longrope_with_equal_lists_is_no_extension(make_spec: MakeSpec) -> None:
    # MiniCPM3-4B: original and maximum are equal, and so are the lists.
    lists = (1.5,) * 64
    origin = audit(make_spec(scaling=LongRope(lists, lists, 4096, 1.0), trained=4096)).origin
    assert "not an extension" in origin.sentence


def test_divisors_made_by_the_llama3_rule_are_recognised(make_spec: MakeSpec) -> None:
    rule = RotarySpec(64, 64, 5e5, scaling=Llama3(32.0, 1.0, 4.0, 8192))
    plain = plain_inv_freq(5e5, 64)
    baked = tuple(p / f for p, f in zip(plain, scaled_inv_freq(rule), strict=True))
    origin = audit(make_spec(scaling=PairDivisors(baked), base=5e5, dim=64, claimed=131072)).origin
    assert origin.code == "llama3"
    assert "factor 32" in origin.sentence


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        (AlibiSpec(8), "ALiBi"),
        (LearnedPositions(1024), "learned table"),
        (SinusoidalSpec(512), "sines"),
        (RelativeBuckets(32, 128), "buckets"),
        (NoPositionSpec(), "no layer is told"),
        (Recurrent("mamba"), "no layer is told"),
    ],
)
def test_models_without_rotary_layers_say_what_they_have(
    make_spec: MakeSpec, encoding: Encoding, words: str
) -> None:
    origin = audit(make_spec(encoding)).origin
    assert origin.code == "not-rotary"
    assert words in origin.sentence


def test_an_incomplete_rotary_encoding_has_an_unknown_origin(make_spec: MakeSpec) -> None:
    assert audit(make_spec(IncompleteRotary(("rope_theta",)))).origin.code == "unknown"
