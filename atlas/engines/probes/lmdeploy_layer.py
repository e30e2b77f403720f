"""lmdeploy's own builder of rotary layers, called with each file's configuration."""

from __future__ import annotations

from pathlib import Path

import torch
from lmdeploy.pytorch.nn.rotary_embedding import build_rotary_embedding_from_config
from reading import Json, rotation, run
from transformers import AutoConfig


def ask(folder: Path) -> Json:
    """Cosines and sines for all positions up to the claimed length."""
    config = AutoConfig.from_pretrained(folder)
    claimed = config.max_position_embeddings
    rotary = build_rotary_embedding_from_config(config)
    cos, sin = rotary(torch.zeros(1, claimed, 1), torch.arange(claimed)[None])
    half = cos.shape[-1] // 2
    found = rotation(cos[0, 1, :half].double(), sin[0, 1, :half].double(), [])
    return {"rotations": [found], "served": claimed}


if __name__ == "__main__":
    run(ask)
