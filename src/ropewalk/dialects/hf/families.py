"""What transformers 5.24 takes for granted about each model type, as tables of facts.

Read from the library's configuration and modelling files. A value used from here is always
reported as a default, never as a statement of the file.
"""

from __future__ import annotations

from dataclasses import replace

from ropewalk.dialects.hf.defaults import (
    AlibiFacts,
    BucketFacts,
    ContentBiasFacts,
    Every,
    Facts,
    LearnedFacts,
    LocalRope,
    RotaryFacts,
    SinusoidalFacts,
    Switched,
    UnrotatedFacts,
    Windowed,
)
from ropewalk.dialects.hf.measured import measured_facts

_MLA = RotaryFacts(layout="interleaved", mla=True)
_GEMMA3 = RotaryFacts(
    base=1e6,
    claimed=131_072,
    head_dim=256,
    pattern=Every(6, ("sliding_window_pattern", "_sliding_window_pattern")),
    window=4096,
    local=LocalRope("rope_local_base_freq", 10_000.0, scaled=False),
)
_GEMMA4 = RotaryFacts(
    base=1e6,
    claimed=131_072,
    head_dim=256,
    full_head_dim=512,
    pattern=Every(6, to_the_end=True),
    window=512,
    local=LocalRope("", 10_000.0, scaled=False),
    base_keys=(),
    partial_keys=(),
    rope_default={"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
)
# Stated as a width, which one of the two classes reads (see the tests' list of defects).
_MINIMAX = RotaryFacts(base=5e6, head_dim=128, partial_keys=("partial_rotary_factor", "rotary_dim"))
_MODERNBERT = RotaryFacts(
    base=160_000.0,
    claimed=8192,
    pattern=Every(3, ("global_attn_every_n_layers",), first=True),
    window=128,
    local=LocalRope("local_rope_theta", 10_000.0, scaled=True),
    base_keys=("global_rope_theta",),
    two_sided=True,
)

FACTS: dict[str, Facts] = {
    "gemma3_text": _GEMMA3,
    "gemma3n_text": replace(_GEMMA3, claimed=32_768, pattern=Every(5), window=512),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": replace(_GEMMA4, claimed=262_144, window=1024),
    "diffusion_gemma_text": _GEMMA4,
    "embedding_gemma2_text": replace(
        _GEMMA4,
        claimed=262_144,
        pattern=Every(6, ("sliding_window_pattern",), to_the_end=True),
        rope_default={"rope_type": "default", "rope_theta": 1e6},
    ),
    "phi3": RotaryFacts(claimed=4096, original=4096, pattern=Windowed()),
    "phi4_multimodal": RotaryFacts(claimed=131_072, original=4096, pattern=Windowed()),
    "minimax_m3_vl_text": replace(_MINIMAX, claimed=524_288),
    "stablelm": RotaryFacts(
        claimed=4096, partial=0.25, partial_keys=("partial_rotary_factor", "rope_pct")
    ),
    "olmo3": RotaryFacts(
        base=500_000.0,
        claimed=2048,
        pattern=Every(4),
        window=4096,
        local=LocalRope("rope_theta", 500_000.0, scaled=False),
    ),
    "deepseek_v4": RotaryFacts(
        base=160_000.0,
        claimed=1_048_576,
        partial=0.125,
        layout="interleaved",
        head_dim=512,
        trailing=True,
        window=128,
        local=LocalRope("rope_theta", 10_000.0, scaled=False, flat=True),
        base_keys=("compress_rope_theta",),
        sinks=True,
        labels={
            "full_attention": "compress",
            "compressed_sparse_attention": "compress",
            "heavily_compressed_attention": "compress",
            "sliding_attention": "main",
        },
        flat_yarn={"attention_factor": 1.0},
    ),
    "dots3_note_text": replace(
        _MLA,
        base=8e7,
        claimed=524_288,
        window=512,
        local=LocalRope("swa_rope_theta", 50_000.0, scaled=True, flat=True),
        local_shape={"qk_nope_head_dim": 192, "qk_rope_head_dim": 64},
        labels={"full_attention": "indexed_attention"},
        squares_yarn=False,
    ),
    "smollm3": RotaryFacts(base=2e6, claimed=32_768, pattern=Switched()),
    "llama4_text": RotaryFacts(base=500_000.0, claimed=131_072, layout="interleaved", head_dim=128),
    "modernbert": _MODERNBERT,
    # The key of its pattern is none of its class's fields, and was not varied.
    "modernbert-decoder": replace(_MODERNBERT, window=64, two_sided=False),
    "nomic_bert": RotaryFacts(
        base=1000.0,
        claimed=2048,
        base_keys=("rope_theta", "rotary_emb_base"),
        partial_keys=("partial_rotary_factor", "rotary_emb_fraction"),
    ),
    "moonshine": RotaryFacts(claimed=512, partial=0.9, layout="interleaved"),
    "moonshine_streaming": RotaryFacts(
        claimed=4096,
        layout="interleaved",
        rope_default={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.8,
        },
    ),
    "unlimited_ocr_text": RotaryFacts(
        claimed=32_768, pattern=Windowed("reference_sliding_attention"), window=128
    ),
    # Their attention goes past transformers' attention functions, where it cannot be watched.
    "t5": BucketFacts(),
    "longt5": BucketFacts(),
    "switch_transformers": BucketFacts(),
    "pop2piano": BucketFacts(),
    "mt5": BucketFacts(),
    "umt5": BucketFacts(),
    # Audio models, which the atlas does not build.
    "csm": RotaryFacts(base=500_000.0, claimed=2048),
    "csm_depth_decoder_model": RotaryFacts(base=500_000.0, claimed=33),
    "moshi_depth": UnrotatedFacts(claimed=9),
    # That a bias goes by the query is seen, how it is made is not.
    "inkling_text": ContentBiasFacts(131_072, 512, None),
    "inkling2_text": ContentBiasFacts(1_048_576, 1024, 128_000.0),
    "inkling2_loop_text": ContentBiasFacts(1_048_576, 1024, 8192.0),
    "longformer": LearnedFacts(512, offset=2, offset_counted=True),
}

for _encoder in ("distilbert", "albert", "mobilebert"):
    FACTS[_encoder] = LearnedFacts(512)


def facts_of(model_type: str) -> Facts | None:
    """What is known of a model type: by hand where it cannot be measured, else as measured."""
    return FACTS.get(model_type) or measured_facts(model_type)


def learned_offset(model_type: str | None) -> int:
    """Rows at the start of a family's learned table that serve no position."""
    facts = facts_of(model_type or "")
    return facts.offset if isinstance(facts, LearnedFacts) else 0


OWN_TYPE = "ropewalk_decoder"
"""The model type of `ropewalk.decoder`, whose key `position` names the encoding."""

OWN: dict[str, Facts] = {
    "rope": RotaryFacts(claimed=128),
    "sinusoidal": SinusoidalFacts(128),
    "learned": LearnedFacts(128),
    "alibi": AlibiFacts(claimed=128),
    "t5": BucketFacts(scaled=True),
    "none": UnrotatedFacts(claimed=128),
}

# Types whose code travels with the checkpoint. Their defaults are in that code, so only the
# conventions are known: no default base, no default length.
_REMOTE = RotaryFacts(base=None)

REMOTE: dict[str, RotaryFacts] = {
    "internlm2": _REMOTE,
    "phi3_v": replace(_REMOTE, pattern=Windowed()),
    "phi-msft": _REMOTE,
    "nemotron-nas": _REMOTE,
    "kimi_k2": replace(_MLA, base=None),
    "chatglm": replace(
        _REMOTE, layout="interleaved", partial=0.5, base_keys=("rope_ratio",), base_by_ratio=True
    ),
    "qwen": replace(
        _REMOTE,
        base_keys=("rotary_emb_base", "rope_theta"),
        partial_keys=("rotary_pct", "partial_rotary_factor"),
    ),
    "minicpmv": _REMOTE,
}

# A multimodal type whose own text part has another name, when the file is flat.
TEXT_OF: dict[str, str] = {
    "exaone4_5_text": "exaone4",
    "exaone4_5": "exaone4",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "diffusion_gemma": "diffusion_gemma_text",
    "embedding_gemma2": "embedding_gemma2_text",
    "dots3_note": "dots3_note_text",
    "unlimited_ocr": "unlimited_ocr_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}
