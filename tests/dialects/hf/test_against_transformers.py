"""The same dictionary given to transformers and to the reader: equal angles and amplitude.

transformers is the outside truth here: its configuration class fills in what the file leaves
out, its rotary module or its table of schedules gives the inverse frequencies in fp32.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.defaults import LearnedFacts, RotaryFacts, Switched, UnrotatedFacts
from ropewalk.dialects.hf.families import FACTS
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.spec import RotarySpec

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 6}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
LONG = {
    "rope_type": "longrope",
    "short_factor": [1.0 + i / 100 for i in range(32)],
    "long_factor": [1.0 + i for i in range(32)],
    "original_max_position_embeddings": 4096,
}
LONG_48 = {
    "type": "longrope",
    "short_factor": [1.0 + i / 100 for i in range(48)],
    "long_factor": [1.0 + i for i in range(48)],
}
LAYERED = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0},
}

# (model type, module of the rotary class, class, keys beside the shape)
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.3, "rope_theta": 1e6}
ZAMBA2 = {
    "use_mem_rope": True,
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "mamba"],
}
V4 = {"compress_ratios": [0, 0, 4, 128, 4, 128, 0], "qk_rope_head_dim": 64}
LOCAL = {"rope_type": "default", "rope_theta": 2e4}

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama", "LlamaRotaryEmbedding", {}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": LLAMA3, "rope_theta": 5e5}),
    ("llama", "LlamaRotaryEmbedding", {"rope_parameters": {**LLAMA3, "rope_theta": 5e5}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": YARN, "rope_parameters": LLAMA3}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {**YARN, "attention_factor": 1.5}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {**YARN, "mscale": 0.7}}),
    (
        "llama",
        "LlamaRotaryEmbedding",
        {"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.0, "beta_fast": 16}},
    ),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {**YARN, "truncate": False}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {**YARN, "factor": None}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": LONG}),
    ("llama", "LlamaRotaryEmbedding", {"rope_parameters": {**LONG, "factor": 3.0}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_parameters": {**PROPORTIONAL, "factor": 2.0}}),
    ("llama", "LlamaRotaryEmbedding", {"rope_parameters": PROPORTIONAL, "head_dim": 20}),
    (
        "llama",
        "LlamaRotaryEmbedding",
        {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e6}},
    ),
    ("mistral", "MistralRotaryEmbedding", {}),
    ("mixtral", "MixtralRotaryEmbedding", {}),
    ("qwen2", "Qwen2RotaryEmbedding", {"rope_scaling": YARN, "rope_theta": 1e6}),
    ("qwen3", "Qwen3RotaryEmbedding", {"rope_parameters": {**YARN, "rope_theta": 1e6}}),
    (
        "phi3",
        "Phi3RotaryEmbedding",
        {
            "hidden_size": 768,
            "rope_scaling": LONG_48,
            "original_max_position_embeddings": 4096,
        },
    ),
    # The class's own 4096 wins over the length in the dictionary; so it does for a yarn with lists.
    ("phi3", "Phi3RotaryEmbedding", {"hidden_size": 768, "rope_scaling": LONG_48}),
    (
        "phi3",
        "Phi3RotaryEmbedding",
        {
            "hidden_size": 768,
            "rope_scaling": {**LONG_48, "type": "yarn", "original_max_position_embeddings": 2048},
        },
    ),
    ("phi", "PhiRotaryEmbedding", {}),
    ("moonshine", "MoonshineRotaryEmbedding", {"hidden_size": 288}),
    ("moonshine_streaming", "MoonshineStreamingRotaryEmbedding", {"hidden_size": 320}),
    (
        "moonshine_streaming",
        "MoonshineStreamingRotaryEmbedding",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    ),
    ("zamba2", "Zamba2RotaryEmbedding", ZAMBA2),
    ("zamba2", "Zamba2RotaryEmbedding", {**ZAMBA2, "attention_head_dim": 80}),
    ("unlimited_ocr_text", "UnlimitedOcrTextRotaryEmbedding", {}),
    ("gpt_neox", "GPTNeoXRotaryEmbedding", {"rotary_pct": 0.5, "rotary_emb_base": 20000}),
    ("gpt_neox", "GPTNeoXRotaryEmbedding", {}),
    ("stablelm", "StableLmRotaryEmbedding", {}),
    ("nemotron", "NemotronRotaryEmbedding", {}),
    ("glm", "GlmRotaryEmbedding", {}),
    ("cohere", "CohereRotaryEmbedding", {}),
    ("starcoder2", "Starcoder2RotaryEmbedding", {"rope_theta": 1e5}),
    ("smollm3", "SmolLM3RotaryEmbedding", {}),
    ("gpt_oss", "GptOssRotaryEmbedding", {}),
    ("gpt_oss", "GptOssRotaryEmbedding", {"rope_scaling": {**YARN, "truncate": False}}),
    ("apertus", "ApertusRotaryEmbedding", {}),
    ("helium", "HeliumRotaryEmbedding", {}),
    ("falcon", "FalconRotaryEmbedding", {}),
    ("granite", "GraniteRotaryEmbedding", {}),
    ("exaone4", "Exaone4RotaryEmbedding", {}),
    ("gemma2", "Gemma2RotaryEmbedding", {}),
    ("nomic_bert", "NomicBertRotaryEmbedding", {}),
    (
        "deepseek_v3",
        "DeepseekV3RotaryEmbedding",
        {
            "qk_rope_head_dim": 32,
            "qk_nope_head_dim": 64,
            "rope_scaling": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
        },
    ),
]


@pytest.mark.parametrize("length", [None, 4096, 40_000], ids=lambda n: f"length {n}")
@pytest.mark.parametrize(
    ("model_type", "rotary_class", "keys"),
    CASES,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)],
)
def test_angles_and_amplitude_are_those_of_transformers(
    model_type: str, rotary_class: str, keys: dict[str, Any], length: int | None
) -> None:
    config = {**SMALL, "max_position_embeddings": 32_768, **keys}
    theirs = _their_schedule(model_type, rotary_class, config, length)
    ours = _rotary(config, model_type)
    _assert_same(theirs, ours, length)


LAYERED_CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("gemma3_text", "Gemma3RotaryEmbedding", {}),
    ("gemma3_text", "Gemma3RotaryEmbedding", {"rope_scaling": {"type": "linear", "factor": 8.0}}),
    (
        "gemma3_text",
        "Gemma3RotaryEmbedding",
        {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    ),
    (
        "gemma3_text",
        "Gemma3RotaryEmbedding",
        {"rope_theta": 3e6, "rope_local_base_freq": 5000.0, "rope_scaling": None},
    ),
    ("gemma3_text", "Gemma3RotaryEmbedding", {"rope_parameters": LAYERED}),
    ("gemma4_text", "Gemma4TextRotaryEmbedding", {}),
    ("gemma4_text", "Gemma4TextRotaryEmbedding", {"global_head_dim": 96, "head_dim": 32}),
    (
        "gemma4_text",
        "Gemma4TextRotaryEmbedding",
        {"rope_parameters": {"full_attention": PROPORTIONAL, "sliding_attention": LOCAL}},
    ),
    ("modernbert", "ModernBertRotaryEmbedding", {}),
    (
        "modernbert",
        "ModernBertRotaryEmbedding",
        {
            "global_rope_theta": 80000.0,
            "local_rope_theta": 5000.0,
            "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        },
    ),
    ("olmo3", "Olmo3RotaryEmbedding", {"rope_scaling": YARN}),
    ("gemma4_unified_text", "Gemma4UnifiedTextRotaryEmbedding", {}),
    ("diffusion_gemma_text", "DiffusionGemmaTextRotaryEmbedding", {}),
    ("embedding_gemma2_text", "EmbeddingGemma2RotaryEmbedding", {}),
]

SIX = ["hybrid"] * 3 + ["hybrid_sliding"] * 3
LABELLED_CASES: list[tuple[str, str, dict[str, Any], dict[str, str]]] = [
    (
        "deepseek_v4",
        "DeepseekV4RotaryEmbedding",
        {**V4, **keys},
        {
            "sliding attention": "main",
            "compressed sparse attention": "compress",
            "heavily compressed attention": "compress",
        },
    )
    for keys in (
        {},
        {"rope_theta": 2e4, "compress_rope_theta": 3e5},
        # The scaling is that of the compressed layers alone, at amplitude 1.
        {"rope_scaling": {**YARN, "type": "yarn"}},
        {"rope_parameters": {**YARN, "rope_theta": 7e4}},
    )
]
LABELLED_CASES += [
    (
        "dots3_note_text",
        "Dots3NoteTextRotaryEmbedding",
        {"num_key_value_heads": 8, **keys},
        {
            "sliding attention": "sliding_attention",
            "indexed attention": "indexed_attention",
        },
    )
    for keys in (
        {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128},
        {"qk_rope_head_dim": 64, "rope_theta": 3e6, "swa_rope_theta": 2e4},
        # One dictionary for all layers leaves the sliding ones without a base of their own.
        {"qk_rope_head_dim": 64, "swa_rope_theta": 2e4, "rope_scaling": {**YARN, "truncate": True}},
    )
]
LABELLED_CASES += [
    (
        "zaya",
        "ZayaRotaryEmbedding",
        {"layer_types": SIX, "sliding_window": 512},
        {"hybrid": "hybrid", "hybrid sliding": "hybrid_sliding"},
    )
]


@pytest.mark.parametrize(
    ("model_type", "rotary_class", "keys", "labels"),
    LABELLED_CASES,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(LABELLED_CASES)],
)
def test_kinds_of_layers_under_labels_of_their_own_have_the_angles_of_transformers(
    model_type: str, rotary_class: str, keys: dict[str, Any], labels: dict[str, str]
) -> None:
    shape = {"hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 6}
    config = {**shape, "max_position_embeddings": 32_768, **keys}
    module = _their_module(model_type, rotary_class, config)
    groups = read_config({**config, "model_type": model_type}).rotary_groups()
    found = {group.name: rotary for group, rotary in groups}
    assert set(found) == set(labels)
    for name, label in labels.items():
        theirs = (
            getattr(module, f"{label}_inv_freq").tolist(),
            float(getattr(module, f"{label}_attention_scaling")),
        )
        _assert_same(theirs, found[name], None)


def test_a_saved_gemma_4_says_the_size_of_its_wide_heads_layer_by_layer() -> None:
    made = transformers.AutoConfig.for_model("gemma4_text", global_head_dim=384)
    saved = made.to_dict()
    assert "global_head_dim" not in saved
    sizes = {group.name: rotary.head_dim for group, rotary in read_config(saved).rotary_groups()}
    assert sizes == {"sliding attention": 256, "full attention": 384}


@pytest.mark.parametrize("kind", ["full_attention", "sliding_attention"])
@pytest.mark.parametrize(
    ("model_type", "rotary_class", "keys"),
    LAYERED_CASES,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(LAYERED_CASES)],
)
def test_each_kind_of_layer_has_the_angles_of_transformers(
    model_type: str, rotary_class: str, keys: dict[str, Any], kind: str
) -> None:
    config = {**SMALL, "max_position_embeddings": 32_768, **keys}
    module = _their_module(model_type, rotary_class, config)
    theirs = (
        getattr(module, f"{kind}_inv_freq").tolist(),
        float(getattr(module, f"{kind}_attention_scaling")),
    )
    _assert_same(theirs, _rotary(config, model_type, kind), None)


LAYER_TYPES: list[tuple[str, dict[str, Any]]] = [
    ("gemma2", {}),
    ("gemma3_text", {"num_hidden_layers": 14}),
    ("gemma3_text", {"sliding_window_pattern": 3}),
    ("gemma3n_text", {"num_hidden_layers": 15}),
    ("gemma4_text", {}),
    # The last layer sees all, wherever the pattern would end.
    ("gemma4_text", {"num_hidden_layers": 8}),
    ("embedding_gemma2_text", {"sliding_window_pattern": 3, "num_hidden_layers": 7}),
    ("cohere2", {}),
    ("olmo3", {}),
    ("exaone4", {}),
    ("gpt_oss", {}),
    ("modernbert", {}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 2}),
    ("qwen2", {"use_sliding_window": False, "sliding_window": 128}),
    ("llama4_text", {"num_hidden_layers": 9}),
    ("smollm3", {"use_sliding_window": True, "sliding_window": 128}),
    ("qwen3_next", {}),
    ("jamba", {"num_hidden_layers": 20}),
]


@pytest.mark.parametrize(
    ("model_type", "keys"),
    LAYER_TYPES,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(LAYER_TYPES)],
)
def test_the_kinds_of_layers_are_those_of_transformers(
    model_type: str, keys: dict[str, Any]
) -> None:
    config = {**SMALL, "max_position_embeddings": 32_768, **keys}
    theirs = transformers.AutoConfig.for_model(model_type, **_copy(config)).layer_types
    spec = read_config({**config, "model_type": model_type})
    ours = [""] * len(theirs)
    for group in spec.groups:
        if group.window is not None:
            chunked = group.window.kind == "chunked"
            kind = "chunked_attention" if chunked else "sliding_attention"
        elif type(group.encoding).__name__ == "Recurrent":
            kind = "linear_attention"
        else:
            kind = "full_attention"
        for layer in group.layers:
            ours[layer] = kind
    assert ours == list(theirs)


ROTARY_TYPES = sorted(name for name, facts in FACTS.items() if isinstance(facts, RotaryFacts))


@pytest.mark.parametrize("model_type", ROTARY_TYPES)
def test_the_table_of_defaults_is_that_of_transformers(model_type: str) -> None:
    facts = FACTS[model_type]
    assert isinstance(facts, RotaryFacts)
    theirs = transformers.AutoConfig.for_model(model_type)
    rope = getattr(theirs, "rope_parameters", None) or {}
    words = ("full_attention", "indexed_attention", "compress", "hybrid")
    rope = next((rope[word] for word in words if word in rope), rope)
    assert facts.claimed == theirs.max_position_embeddings
    if not facts.fixed_schedule:
        assert facts.base == rope.get("rope_theta")
    if rope.get("rope_type") == "proportional":
        # Its partial_rotary_factor is a share of pairs that turn, and no partial rotation.
        assert facts.partial == 1.0
    elif "partial_rotary_factor" in (told := _told(facts)):
        # A default of the dictionary alone: one that the file states does without it.
        assert facts.partial == 1.0
        assert told["partial_rotary_factor"] == rope["partial_rotary_factor"]
    elif not facts.mla:
        assert facts.partial == rope.get("partial_rotary_factor", 1.0)
    if facts.rope_default:
        told = _told(facts)
        assert told == {k: v for k, v in rope.items() if k in told}
    if facts.full_head_dim is not None:
        by_kind = theirs.per_layer_config
        assert facts.head_dim == by_kind["sliding_attention"].head_dim
        assert facts.full_head_dim == by_kind["full_attention"].head_dim
    elif facts.head_dim is not None:
        assert facts.head_dim == theirs.head_dim
    if facts.window is not None and not isinstance(facts.pattern, Switched):
        whole = getattr(theirs, "local_attention", None) if facts.two_sided else None
        window = whole or theirs.sliding_window
        assert facts.window == window
    assert facts.softcap == getattr(theirs, "attn_logit_softcapping", None)
    if hasattr(theirs, "original_max_position_embeddings"):
        assert facts.original == theirs.original_max_position_embeddings


def _told(facts: RotaryFacts) -> dict[str, Any]:
    """The default dictionary of the layers that see all."""
    told = dict(facts.rope_default)
    whole = told.get("hybrid", told)
    assert isinstance(whole, dict)
    return whole


PLAIN_TYPES = sorted(
    name for name, facts in FACTS.items() if isinstance(facts, LearnedFacts | UnrotatedFacts)
)


@pytest.mark.parametrize("model_type", PLAIN_TYPES)
def test_default_lengths_without_rotation_are_those_of_transformers(model_type: str) -> None:
    facts = FACTS[model_type]
    assert isinstance(facts, LearnedFacts | UnrotatedFacts)
    theirs = transformers.AutoConfig.for_model(model_type)
    assert facts.claimed == getattr(theirs, "max_position_embeddings", None)


def _copy(config: dict[str, Any]) -> dict[str, Any]:
    """A deep enough copy: transformers writes into the dictionaries it is given."""
    return {
        key: {k: dict(v) if isinstance(v, dict) else v for k, v in value.items()}
        if isinstance(value, dict)
        else value
        for key, value in config.items()
    }


def _their_module(model_type: str, rotary_class: str, config: dict[str, Any]) -> Any:
    """transformers' rotary module for a configuration."""
    theirs = transformers.AutoConfig.for_model(model_type, **_copy(config))
    package = type(theirs).__module__.replace("configuration_", "modeling_")
    return getattr(importlib.import_module(package), rotary_class)(theirs)


def _their_schedule(
    model_type: str, rotary_class: str, config: dict[str, Any], length: int | None
) -> tuple[list[float], float]:
    """Inverse frequencies and amplitude as a sequence of `length` tokens sees them."""
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    module = _their_module(model_type, rotary_class, config)
    if module.rope_type in ("dynamic", "longrope"):
        rule = ROPE_INIT_FUNCTIONS[module.rope_type]
        frequencies, amplitude = rule(module.config, None, seq_len=length)
        return frequencies.tolist(), float(amplitude)
    return module.inv_freq.tolist(), float(module.attention_scaling)


def _rotary(config: dict[str, Any], model_type: str, kind: str | None = None) -> RotarySpec:
    """The encoding that the reader finds, of one kind of layer."""
    spec = read_config({**config, "model_type": model_type})
    for group, rotary in spec.rotary_groups():
        sliding = group.window is not None
        if kind is None or sliding == (kind == "sliding_attention"):
            return rotary
    raise AssertionError(f"no rotary group of kind {kind}")


def _assert_same(theirs: tuple[list[float], float], ours: RotarySpec, length: int | None) -> None:
    """Equal to fp32's rounding; the exponents are fp32 in theirs and fp64 in ours."""
    frequencies, amplitude = theirs
    mine = schedule(ours, length)
    assert mine.inv_freq == pytest.approx(frequencies, rel=2e-5)
    assert mine.attention_factor == pytest.approx(amplitude, rel=1e-9)
