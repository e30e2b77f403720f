"""The rotary class that a release of transformers builds from each file, at the claimed length."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch
from reading import Json, merged, rotation, run
from transformers import AutoConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES


def ask(folder: Path) -> Json:
    """Find the class beside the configuration's and call it for the claimed length."""
    config = AutoConfig.from_pretrained(folder)
    place = type(config).__module__.replace("configuration_", "modeling_")
    module = importlib.import_module(place)
    names = [n for n in dir(module) if n.endswith("RotaryEmbedding") and "Vision" not in n]
    rotary = getattr(module, names[0])(config=config)
    claimed = config.max_position_embeddings
    if rotary.rope_type in ("dynamic", "longrope"):
        rotary(torch.zeros(1), torch.arange(claimed)[None])
    factor, angles = float(rotary.attention_scaling), rotary.inv_freq.double()
    found = rotation(factor * angles.cos(), factor * angles.sin(), [])
    return {"rotations": merged([found]), "served": claimed}


def known_types() -> list[str]:
    """The model types of the installed release."""
    return sorted(CONFIG_MAPPING_NAMES)


if __name__ == "__main__":
    run(ask)
