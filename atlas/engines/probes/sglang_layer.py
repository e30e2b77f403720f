"""SGLang's rotary layer, made as its Llama, Mistral and Qwen models make it."""

from __future__ import annotations

from pathlib import Path

import torch
from reading import Json, rotation, run
from sglang.srt.layers.rotary_embedding import get_rope
from transformers import AutoConfig

MEASURED = ("llama", "mistral", "qwen2", "qwen3")


def ask(folder: Path) -> Json:
    """The table of the layer; other families make theirs in ways of their own."""
    config = AutoConfig.from_pretrained(folder)
    if config.model_type not in MEASURED:
        return {"left out": "its model makes the layer in its own way"}
    claimed = config.max_position_embeddings
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = dict(config.rope_parameters)
    scaling = None if rope.get("rope_type", "default") == "default" else rope
    layer = get_rope(width, width, claimed, rope["rope_theta"], True, scaling, torch.float32)
    row = getattr(layer, "cos_sin_cache", None)
    if row is None:
        row = layer.long_short_cos_sin_cache[layer.original_max_position_embeddings :]
    row = row[1].double()
    half = row.numel() // 2
    return {"rotations": [rotation(row[:half], row[half:], [])], "served": claimed}


if __name__ == "__main__":
    run(ask)
