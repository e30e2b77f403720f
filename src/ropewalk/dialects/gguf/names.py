"""What llama.cpp calls a model type of transformers: the prefix of its keys in a GGUF file.

Source: the classes of llama.cpp's converter (`conversion/`, autumn 2026), each of which names the
model's class and the architecture that it is written as.
"""

from __future__ import annotations

_ITS_OWN = (
    "apertus arcee arctic chatglm cohere2 dbrx exaone exaone4 falcon gemma gemma2 glm4 granite "
    "granitemoe grok internlm2 jamba lfm2 llama mamba mamba2 minicpm minicpm3 mistral4 mpt "
    "nemotron olmo olmo2 olmoe openelm orion phi3 phimoe qwen2 qwen3 seed_oss smollm3 stablelm "
    "starcoder2 xverse"
).split()

ARCHITECTURE_OF: dict[str, str] = {
    **{name: name for name in _ITS_OWN},
    **dict.fromkeys(("mistral", "mixtral"), "llama"),
    **dict.fromkeys(("mistral3", "ministral3"), "mistral3"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), "deepseek2"),
    "bloom": "bloom",
    "cohere": "command-r",
    "ernie4_5": "ernie4_5",
    "falcon_h1": "falcon-h1",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4",
    "glm4_moe": "glm4moe",
    "gpt2": "gpt2",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoehybrid": "granitehybrid",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "llama4_text": "llama4",
    "modernbert": "modern-bert",
    "nemotron-nas": "deci",
    "olmo3": "olmo2",
    "phi": "phi2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
}
"""From a model type (of the language model's part) to the architecture of its GGUF file."""
