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

_MLA = RotaryFacts(layout="interleaved", mla=True)
_GEMMA3 = RotaryFacts(
    base=1e6,
    claimed=131_072,
    head_dim=256,
    pattern=Every(6, ("sliding_window_pattern", "_sliding_window_pattern")),
    window=4096,
    local=LocalRope("rope_local_base_freq", 10_000.0, scaled=False),
)
_QWEN2 = RotaryFacts(claimed=32_768, pattern=Switched(), window=4096)
_QWEN_LINEAR = RotaryFacts(
    claimed=32_768,
    partial=0.25,
    head_dim=256,
    pattern=Every(4, ("full_attention_interval",), common="linear_attention"),
)
_GPT_J = RotaryFacts(claimed=2048, layout="interleaved", base_keys=(), fixed_schedule=True)
_MISTRAL = RotaryFacts(claimed=131_072, pattern=Windowed(), window=4096)
_GEMMA2 = RotaryFacts(claimed=8192, head_dim=256, pattern=Every(2), window=4096, softcap=50.0)
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
_BETA = {"beta_fast": 32.0, "beta_slow": 1.0}
_MISTRAL_YARN = {"rope_type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0} | _BETA

FACTS: dict[str, Facts] = {
    "llama": RotaryFacts(claimed=2048),
    "mistral": _MISTRAL,
    "mixtral": replace(_MISTRAL, base=1e6, window=None),
    "ministral": replace(_MISTRAL),
    "ministral3": RotaryFacts(
        base=1e6,
        claimed=262_144,
        head_dim=128,
        pattern=Windowed(),
        rope_default=_MISTRAL_YARN
        | {
            "factor": 16.0,
            "original_max_position_embeddings": 16_384,
            "llama_4_scaling_beta": 0.1,
            "rope_theta": 1e6,
        },
    ),
    "mistral4": replace(
        _MLA,
        claimed=1_048_576,
        rope_default=_MISTRAL_YARN
        | {
            "factor": 128.0,
            "original_max_position_embeddings": 8192,
            "llama_4_scaling_beta": 0.1,
            "rope_theta": 10_000.0,
        },
    ),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen2_vl_text": replace(_QWEN2, base=1e6),
    "qwen2_5_vl_text": replace(_QWEN2, base=1e6),
    "qwen3": replace(_QWEN2, head_dim=128),
    "qwen3_moe": _QWEN2,
    "qwen3_vl_text": RotaryFacts(base=500_000.0, claimed=128_000, head_dim=128),
    "qwen3_vl_moe_text": RotaryFacts(base=500_000.0, claimed=128_000, head_dim=128),
    "qwen3_next": _QWEN_LINEAR,
    "qwen3_5_text": _QWEN_LINEAR,
    "qwen3_5_moe_text": _QWEN_LINEAR,
    "gemma": RotaryFacts(claimed=8192, head_dim=256),
    "gemma2": _GEMMA2,
    "vaultgemma": _GEMMA2,
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
    "phi": RotaryFacts(claimed=2048, partial=0.5),
    "phi3": RotaryFacts(claimed=4096, original=4096, pattern=Windowed()),
    "phi4_multimodal": RotaryFacts(claimed=131_072, original=4096, pattern=Windowed()),
    "phimoe": RotaryFacts(base=1e6, claimed=131_072, pattern=Windowed()),
    "minimax_m2": replace(_MINIMAX, claimed=196_608),
    "minimax_m3_vl_text": replace(_MINIMAX, claimed=524_288),
    "falcon": RotaryFacts(claimed=2048),
    "gpt_neox": RotaryFacts(
        claimed=2048,
        partial=0.25,
        base_keys=("rotary_emb_base",),
        partial_keys=("rotary_pct",),
    ),
    "gptj": _GPT_J,
    "codegen": _GPT_J,
    "stablelm": RotaryFacts(
        claimed=4096, partial=0.25, partial_keys=("partial_rotary_factor", "rope_pct")
    ),
    "persimmon": RotaryFacts(claimed=16_384, partial=0.5),
    "olmo": RotaryFacts(claimed=2048),
    "olmo2": RotaryFacts(claimed=2048),
    "olmo3": RotaryFacts(
        base=500_000.0,
        claimed=2048,
        pattern=Every(4),
        window=4096,
        local=LocalRope("rope_theta", 500_000.0, scaled=False),
    ),
    "olmoe": RotaryFacts(claimed=4096),
    "cohere": RotaryFacts(base=500_000.0, claimed=8192, layout="interleaved"),
    "cohere2": RotaryFacts(
        claimed=8192,
        layout="interleaved",
        pattern=Every(4, ("sliding_window_pattern",)),
        window=4096,
        nope_kinds=("full_attention",),
    ),
    "deepseek_v2": replace(_MLA, claimed=2048),
    "deepseek_v3": replace(_MLA, claimed=4096),
    "deepseek_v32": replace(_MLA, claimed=163_840),
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
    # Its class insists on the full number of heads, and is not built small.
    "glm5_next_text": replace(_MLA, base=None, claimed=1_048_576),
    "glm4_moe_lite": replace(_MLA, claimed=202_752),
    "longcat_flash": replace(_MLA, base=1e7, claimed=131_072),
    "minicpm3": replace(_MLA, claimed=32_768, layout="half"),
    "glm": RotaryFacts(claimed=131_072, partial=0.5, layout="interleaved", head_dim=128),
    "glm4": RotaryFacts(claimed=131_072, partial=0.5, layout="interleaved", head_dim=128),
    "glm4_moe": RotaryFacts(claimed=131_072, partial=0.5),
    "granite": RotaryFacts(claimed=2048),
    "granitemoe": RotaryFacts(claimed=2048),
    "granitemoeshared": RotaryFacts(claimed=2048),
    "starcoder2": RotaryFacts(claimed=4096, pattern=Windowed()),
    "smollm3": RotaryFacts(base=2e6, claimed=32_768, pattern=Switched()),
    "gpt_oss": RotaryFacts(
        base=150_000.0,
        claimed=131_072,
        head_dim=64,
        pattern=Every(2),
        window=128,
        sinks=True,
        rope_default={
            "rope_type": "yarn",
            "factor": 32.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
            "rope_theta": 150_000.0,
        }
        | _BETA,
    ),
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
    "exaone4": RotaryFacts(
        claimed=2048,
        pattern=Every(4, ("sliding_window_pattern",)),
        window=4096,
        nope_kinds=("full_attention",),
    ),
    "nemotron": RotaryFacts(claimed=4096, partial=0.5),
    "arcee": RotaryFacts(claimed=4096),
    "bitnet": RotaryFacts(base=500_000.0, claimed=2048),
    "helium": RotaryFacts(base=100_000.0, claimed=4096, layout="interleaved", head_dim=128),
    "ernie4_5": RotaryFacts(base=500_000.0, claimed=131_072, layout="interleaved", head_dim=128),
    "hunyuan_v1_dense": RotaryFacts(claimed=2048),
    "hunyuan_v1_moe": RotaryFacts(claimed=2048),
    "seed_oss": RotaryFacts(claimed=524_288, head_dim=128),
    "apertus": RotaryFacts(
        base=12e6,
        claimed=65_536,
        rope_default={
            "rope_type": "llama3",
            "rope_theta": 12e6,
            "factor": 8.0,
            "original_max_position_embeddings": 8192,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ),
    "bamba": RotaryFacts(claimed=262_144, partial=0.5),
    "falcon_h1": RotaryFacts(claimed=8192),
    "lfm2": RotaryFacts(base=1e6, claimed=128_000),
    "zaya": RotaryFacts(
        base=5e6,
        claimed=131_072,
        head_dim=128,
        rope_default={
            "hybrid": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
            "hybrid_sliding": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "partial_rotary_factor": 0.5,
            },
        },
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
    "gpt_neox_japanese": RotaryFacts(
        claimed=2048, base_keys=("rotary_emb_base",), partial_keys=("rotary_pct",)
    ),
    "falcon_mamba": UnrotatedFacts(claimed=None),
    "blenderbot": LearnedFacts(128),
    "prophetnet": LearnedFacts(512),
    "roformer": RotaryFacts(claimed=1536, layout="interleaved", base_keys=(), fixed_schedule=True),
    "zamba2": UnrotatedFacts(claimed=4096),
    "granitemoehybrid": UnrotatedFacts(claimed=2048),
    "jamba": UnrotatedFacts(claimed=262_144),
    "nemotron_h": UnrotatedFacts(claimed=4096),
    "mamba": UnrotatedFacts(claimed=None),
    "mamba2": UnrotatedFacts(claimed=None),
    "bloom": AlibiFacts(claimed=None),
    "mpt": AlibiFacts(claimed=2048),
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
    # Its default of the sections is null, with which it is not built.
    "hunyuan_vl_text": RotaryFacts(claimed=2048),
    # Its bias goes into the scores beside the attention function, where it cannot be watched.
    "inkling_text": ContentBiasFacts(131_072, 512, None),
    "inkling2_text": ContentBiasFacts(1_048_576, 1024, 128_000.0),
    "inkling2_loop_text": ContentBiasFacts(1_048_576, 1024, 8192.0),
    "gpt2": LearnedFacts(1024),
    "gpt_bigcode": LearnedFacts(1024),
    "gpt_neo": LearnedFacts(2048),
    "opt": LearnedFacts(2048, offset=2),
    "bart": LearnedFacts(1024, offset=2),
    "mbart": LearnedFacts(1024, offset=2),
    "biogpt": LearnedFacts(1024, offset=2),
    "roberta": LearnedFacts(512, offset=2, offset_counted=True),
    "xlm-roberta": LearnedFacts(512, offset=2, offset_counted=True),
    "camembert": LearnedFacts(512, offset=2, offset_counted=True),
    "longformer": LearnedFacts(512, offset=2, offset_counted=True),
    "xlm-roberta-xl": LearnedFacts(514, offset=2, offset_counted=True),
    "xglm": SinusoidalFacts(2048),
}

for _encoder in ("bert", "distilbert", "electra", "albert", "ernie", "mobilebert"):
    FACTS[_encoder] = LearnedFacts(512)


def learned_offset(model_type: str | None) -> int:
    """Rows at the start of a family's learned table that serve no position."""
    facts = FACTS.get(model_type or "")
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
