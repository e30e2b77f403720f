"""vLLM's own model of each file, on a CPU: the rotary tables of its layers, its softmax scales.

`SERVED=N` starts it for N positions; without, it takes the length that it derives. `make engines`
sets what else it wants of its environment. The first model of a process should have experts:
vLLM makes their process group once, for the first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from reading import Json, merged, rotation, run
from vllm.config import set_current_vllm_config
from vllm.distributed import init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.layers.rotary_embedding import _ROPE_DICT
from vllm.model_executor.model_loader.utils import initialize_model

STARTED: list[bool] = []


def ask(folder: Path) -> Json:
    """Build the model as the engine does and read its modules."""
    served = int(os.environ.get("SERVED", "0")) or None
    settings = EngineArgs(
        model=str(folder), load_format="dummy", dtype="float32", skip_tokenizer_init=True,
        enforce_eager=True, max_num_seqs=1, max_model_len=served,
    ).create_engine_config()  # fmt: skip
    if not STARTED:
        with set_current_vllm_config(settings):
            init_distributed_environment(1, 0, "tcp://127.0.0.1:29731", 0, "gloo")
            initialize_model_parallel(1, 1)
        STARTED.append(True)
    _ROPE_DICT.clear()
    with set_current_vllm_config(settings), torch.no_grad():
        model = initialize_model(settings)
    modules = list(model.named_modules(remove_duplicate=False))
    found = [each for name, module in modules if (each := _read(name, module))]
    scales = {
        round(float(scale), 7)
        for name, module in modules
        if hasattr(module, "impl") and "layers." in name and (scale := _scale(module)) is not None
    }
    answer = {"rotations": merged(found), "served": settings.model_config.max_model_len}
    return {**answer, "softmax": sorted(scales)} if scales else answer


def _scale(module: Any) -> float | None:
    return getattr(module, "scale", None) or getattr(module.impl, "scale", None)


def _read(name: str, module: Any) -> Json | None:
    """The table of one rotary module, at position 1."""
    both = getattr(module, "long_short_cos_sin_cache", None)
    table = both if both is not None else getattr(module, "cos_sin_cache", None)
    layer = name.split("layers.")[1].split(".")[0] if "layers." in name else name
    if table is None:
        frequencies = getattr(module, "inv_freq", None)
        if frequencies is None or not hasattr(module, "attention_scaling"):
            return None
        factor, angles = float(module.attention_scaling), frequencies.double()
        return rotation(factor * angles.cos(), factor * angles.sin(), [layer], interleaved=False)
    first = module.original_max_position_embeddings if both is not None else 0
    row = table[1 + (first if both is not None and module.use_long_rope else 0)].double()
    half = row.numel() // 2
    style = {"interleaved": not getattr(module, "is_neox_style", True), "rows": table.shape[0]}
    return rotation(row[:half], row[half:], [layer], **style)


if __name__ == "__main__":
    run(ask)
