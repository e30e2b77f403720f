"""transformers 4.57 and our reading of the same configurations: `make conformance` runs this there.

A script and no test, for an environment that has this project, torch and that release alone.
It prints a line for each configuration and ends with status 1 where one does not agree.
"""

from __future__ import annotations

import copy
import importlib
import sys
from typing import Any

WITHIN = 1e-6
"""What fp32 arithmetic leaves of a frequency in transformers, relative."""

SHAPE = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 6,
    "max_position_embeddings": 32_768,
}
LINEAR = {"rope_type": "linear", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
PAIR = {**YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
LONG = {
    "type": "longrope",
    "short_factor": [1.0 + i / 100 for i in range(32)],
    "long_factor": [1.0 + i for i in range(32)],
}
ZAMBA2 = {"use_mem_rope": True, "layers_block_type": ["mamba", "hybrid"] * 3}
MLA = {"qk_rope_head_dim": 32, "qk_nope_head_dim": 64}

# Model type, rotary class, keys in the spelling of version 4, and the layers compared.
CASES: list[tuple[str, str, dict[str, Any], str]] = [
    ("llama", "LlamaRotaryEmbedding", {}, ""),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": LINEAR}, ""),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": DYNAMIC}, ""),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": LLAMA3, "rope_theta": 5e5}, ""),
    ("llama", "LlamaRotaryEmbedding", {"rope_scaling": {**LINEAR, "type": "linear"}}, ""),
    ("mistral", "MistralRotaryEmbedding", {"rope_theta": 1e6}, ""),
    ("qwen2", "Qwen2RotaryEmbedding", {"rope_scaling": YARN, "rope_theta": 1e6}, ""),
    ("qwen3", "Qwen3RotaryEmbedding", {"rope_scaling": PAIR, "rope_theta": 1e6}, ""),
    ("qwen3", "Qwen3RotaryEmbedding", {"rope_scaling": {**YARN, "truncate": False}}, ""),
    ("phi", "PhiRotaryEmbedding", {}, ""),
    (
        "phi3",
        "Phi3RotaryEmbedding",
        {"rope_scaling": LONG, "original_max_position_embeddings": 4096, "pad_token_id": 0},
        "",
    ),
    ("gpt_neox", "GPTNeoXRotaryEmbedding", {"rotary_pct": 0.5, "rotary_emb_base": 20_000}, ""),
    ("gpt_oss", "GptOssRotaryEmbedding", {}, ""),
    ("glm", "GlmRotaryEmbedding", {}, ""),
    # The base is stated: its default is 10,000 in 4.57 and 500,000 in 5.24.
    ("cohere", "CohereRotaryEmbedding", {"rope_theta": 8e6}, ""),
    ("smollm3", "SmolLM3RotaryEmbedding", {}, ""),
    ("deepseek_v3", "DeepseekV3RotaryEmbedding", {**MLA, "rope_scaling": PAIR}, ""),
    ("gemma3_text", "Gemma3RotaryEmbedding", {"rope_scaling": LINEAR}, "full attention"),
    ("olmo2", "Olmo2RotaryEmbedding", {"rope_theta": 5e5}, ""),
    # The base reaches the sliding layers too, which 5.24 gives another.
    ("olmo3", "Olmo3RotaryEmbedding", {"rope_theta": 1e6}, "sliding attention"),
    ("olmo3", "Olmo3RotaryEmbedding", {"rope_theta": 1e6, "rope_scaling": YARN}, "full attention"),
    ("stablelm", "StableLmRotaryEmbedding", {}, ""),
    ("granite", "GraniteRotaryEmbedding", {"rope_scaling": LLAMA3}, ""),
    ("starcoder2", "Starcoder2RotaryEmbedding", {"rope_theta": 1e5}, ""),
    ("nemotron", "NemotronRotaryEmbedding", {}, ""),
    ("helium", "HeliumRotaryEmbedding", {}, ""),
    ("exaone4", "Exaone4RotaryEmbedding", {"rope_scaling": LLAMA3}, "sliding attention"),
    ("apertus", "ApertusRotaryEmbedding", {}, ""),
    ("zamba2", "Zamba2RotaryEmbedding", ZAMBA2, "hybrid"),
    ("moonshine", "MoonshineRotaryEmbedding", {"hidden_size": 288}, ""),
]


def theirs(model_type: str, rotary: str, keys: dict[str, Any], length: int | None) -> Any:
    """Inverse frequencies and amplitude, as a sequence of `length` tokens sees them."""
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = AutoConfig.for_model(model_type, **{**SHAPE, **copy.deepcopy(keys)})
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    made = getattr(module, rotary)(config)
    if length is not None and made.rope_type in ("dynamic", "longrope"):
        inv_freq, amplitude = ROPE_INIT_FUNCTIONS[made.rope_type](config, None, seq_len=length)
        return inv_freq.tolist(), float(amplitude)
    return made.inv_freq.tolist(), float(made.attention_scaling)


def ours(model_type: str, keys: dict[str, Any], layers: str, length: int | None) -> Any:
    """The same from our reading of the same keys."""
    from ropewalk.dialects.hf import read_config
    from ropewalk.rope.frequencies import schedule

    spec = read_config({**SHAPE, **keys, "model_type": model_type})
    found = {group.name: rotary for group, rotary in spec.rotary_groups()}
    made = schedule(found[layers] if layers else next(iter(found.values())), length)
    return made.inv_freq, made.attention_factor


def apart(model_type: str, rotary: str, keys: dict[str, Any], layers: str) -> float:
    """The largest relative difference of a frequency or the amplitude, at both lengths."""
    worst = 0.0
    for length in (None, 100_000):
        their_table, their_amplitude = theirs(model_type, rotary, keys, length)
        my_table, my_amplitude = ours(model_type, keys, layers, length)
        pairs = zip(their_table, my_table, strict=True)
        worst = max(worst, *(abs(a - b) / b for a, b in pairs))
        worst = max(worst, abs(their_amplitude - my_amplitude) / my_amplitude)
    return worst


def main() -> int:
    """Compare them all; 1 where one does not agree."""
    import transformers

    release = transformers.__version__
    if not release.startswith("4.57."):
        sys.stderr.write(f"this is for transformers 4.57, and {release} is installed\n")
        return 1
    transformers.logging.set_verbosity_error()
    failed = 0
    for model_type, rotary, keys, layers in CASES:
        worst = apart(model_type, rotary, keys, layers)
        failed += worst > WITHIN
        scaling = keys.get("rope_scaling", {})
        name = scaling.get("rope_type", scaling.get("type", "as it is"))
        verdict = "differs" if worst > WITHIN else "agrees"
        sys.stdout.write(f"{model_type:12} {name:10} {verdict}, {worst:.1e} apart\n")
    sys.stdout.write(f"transformers {release}: {len(CASES) - failed} of {len(CASES)} agree\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
