"""What llama.cpp's loader reads of which architecture, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.llamacpp import LLAMACPP
from ropewalk.dialects.engines.transformers import TRANSFORMERS_5
from ropewalk.dialects.gguf.archs import ARCHITECTURES
from ropewalk.dialects.gguf.loader import MEANT_BASES, READS_SECTIONS, YARN_KEYS
from ropewalk.errors import GgufError, ScheduleError
from ropewalk.rope.schedules import Unscaled, Yarn
from ropewalk.rope.spec import PositionSpec

Spec = Callable[..., PositionSpec]
YARN = {
    "rope__scaling__type": "yarn",
    "rope__scaling__factor": 8.0,
    "rope__scaling__original_context_length": 4096,
    "rope__scaling__yarn_beta_fast": 64.0,
}


def yarn(spec: PositionSpec) -> Yarn:
    (scaling,) = {r.scaling for _, r in spec.rotary_groups() if isinstance(r.scaling, Yarn)}
    return scaling


def warnings(spec: PositionSpec) -> dict[str, str]:
    return {f.code: f"{f.text} {f.remedy}" for f in spec.findings if f.severity == "warning"}


@pytest.mark.parametrize(
    ("arch", "computed"),
    [
        ("mistral3", 64.0),
        ("grok", 64.0),
        ("llama", 32.0),
        ("qwen3", 32.0),
        ("laguna", 64.0),
        ("deepseek4", 64.0),
    ],
)
def test_the_ramps_ends_are_read_where_the_loader_reads_them(
    gguf_spec: Spec, arch: str, computed: float
) -> None:
    spec = gguf_spec(arch, **YARN)
    assert yarn(spec).beta_fast == computed
    told = warnings(spec).get("yarn-key-unread", "")
    assert ("--yarn-beta-fast 64" in told) == (computed == 32.0)


def test_grok_begins_with_a_beta_of_its_own(gguf_spec: Spec) -> None:
    stated = {k: v for k, v in YARN.items() if "beta" not in k}
    assert yarn(gguf_spec("grok", **stated)).beta_fast == 8.0
    assert yarn(gguf_spec("mistral3", **stated)).beta_fast == 32.0


def test_every_architecture_whose_keys_are_told_has_a_place_where_that_is_seen() -> None:
    assert all("src/models/" in each.seen for each in YARN_KEYS.values())
    assert set(MEANT_BASES) <= set(ARCHITECTURES)


def test_lagunas_sliding_layers_are_not_scaled(gguf_spec: Spec) -> None:
    spec = gguf_spec("laguna", **YARN, attention__sliding_window=512, block_count=8)
    scalings = {g.window is not None: r.scaling for g, r in spec.rotary_groups()}
    assert isinstance(scalings[True], Unscaled)
    assert isinstance(scalings[False], Yarn)
    (full,) = (g for g, _ in spec.rotary_groups() if g.window is None)
    assert full.layers == (0, 4)


def test_of_an_unknown_architecture_nothing_is_claimed(gguf_spec: Spec) -> None:
    spec = gguf_spec("novel", **YARN)
    told = warnings(spec)["yarn-key-unread"]
    assert "is not known here" in told
    assert "does not read" not in told
    with pytest.raises(ScheduleError, match="what its loader makes of novel is not known here"):
        as_computed(LLAMACPP, spec)


@pytest.mark.parametrize("arch", sorted(READS_SECTIONS & set(ARCHITECTURES)))
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_sections_of_another_number_than_four_are_refused(
    gguf_spec: Spec, arch: str, count: int
) -> None:
    with pytest.raises(GgufError, match="not exactly 4") as caught:
        gguf_spec(arch, rope__dimension_sections=[16, 24, 24, 0, 0][:count])
    if count == 3:
        assert "write [16, 24, 24, 0]" in str(caught.value)


@pytest.mark.parametrize("key", ["rope__global__freq_base", "rope__full__freq_base"])
def test_a_base_under_a_key_that_llama_cpp_does_not_have_is_named(
    gguf_spec: Spec, key: str
) -> None:
    spec = gguf_spec("gemma3", rope__freq_base=None, **{key: 1e6})
    told = warnings(spec)
    name = f"gemma3.{key.replace('__', '.')}"
    assert f"{name} is 1000000.0" in told["base-unread"]
    assert "it takes 10000" in told["base-unread"]
    assert "trained at 1e+06" in told["base-missing"]


@pytest.mark.parametrize("arch", sorted(MEANT_BASES))
def test_the_base_that_a_file_leaves_out_is_what_transformers_fills_in(
    gguf_spec: Spec, arch: str
) -> None:
    from transformers import AutoConfig

    model_type = {"gpt-oss": "gpt_oss", "llama4": "llama4_text", "modern-bert": "modernbert",
                  "olmo2": "olmo3", "gemma-embedding": "gemma3_text", "gemma3": "gemma3_text",
                  "gemma3n": "gemma3n_text", "gemma4": "gemma4_text"}.get(arch, arch)  # fmt: skip
    rope = AutoConfig.for_model(model_type).rope_parameters
    full = rope.get("full_attention", rope)
    assert full["rope_theta"] == MEANT_BASES[arch]
    spec = gguf_spec(arch, rope__freq_base=None)
    for group, rotary in as_computed(TRANSFORMERS_5, spec).rotary_groups():
        if group.window is None:
            assert rotary.rope_theta == MEANT_BASES[arch]
