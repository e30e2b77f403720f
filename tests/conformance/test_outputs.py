"""Configurations that are written, brought up by the engines that read them.

transformers builds its classes from each and shows the tables that it rotates by; mlx-lm builds
its own layers, which are asked for the angle of each pair.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ScheduleError
from ropewalk.findings.live import compare_tables
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.override import override
from ropewalk.rope.spec import PositionSpec
from tests.configurations import write_json

SIZE: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 8192,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 2048,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LISTS = {
    "type": "longrope",
    "short_factor": [1.0 + i / 16 for i in range(16)],
    "long_factor": [1.0 + i for i in range(16)],
    "short_mscale": 1.25,
    "long_mscale": 1.25,
}
MIXTURE = {"num_local_experts": 2, "num_experts_per_tok": 1}
LATENT = {
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 32,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "n_routed_experts": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 1,
    "n_group": 1,
    "topk_group": 1,
}
FILES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "rope_theta": 5e5},
    "llama3": {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "yarn": {"model_type": "qwen3", "head_dim": 32, "rope_theta": 1e6, "rope_scaling": YARN},
    "yarn with its ramp": {
        "model_type": "qwen2",
        "rope_theta": 1e6,
        "rope_scaling": YARN | {"beta_fast": 32.0, "beta_slow": 1.0},
    },
    "linear": {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": {"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 4.0}},
    "a part of the head": {"model_type": "stablelm", "partial_rotary_factor": 0.25},
    "gemma 3": {"model_type": "gemma3_text", "head_dim": 32, "rope_theta": 1e6},
    "olmo 3": {"model_type": "olmo3", "rope_theta": 5e5, "rope_scaling": YARN},
    "gpt-oss": {
        "model_type": "gpt_oss",
        "head_dim": 32,
        "rope_scaling": YARN | {"truncate": False},
        **MIXTURE,
    },
    "phimoe": {
        "model_type": "phimoe",
        "rope_scaling": LISTS,
        "original_max_position_embeddings": 4096,
        **MIXTURE,
    },
    "heads of no stated size": {"model_type": "mixtral", **MIXTURE},
    "latent attention": {"model_type": "deepseek_v3", "rope_scaling": YARN, **LATENT},
    "mistral 4": {
        "model_type": "mistral4",
        "rope_parameters": {**YARN, "rope_theta": 1e4},
        **LATENT,
    },
}


def built(config: dict[str, Any]) -> Any:
    """The model that transformers makes of a configuration, without weights."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModel

    with init_empty_weights(include_buffers=False):
        return AutoModel.from_config(AutoConfig.for_model(**config))


def asked(spec: PositionSpec, rope: str) -> PositionSpec | None:
    """The spec under a schedule, None where that cannot be."""
    try:
        return override(override(spec, "none"), rope) if rope else spec
    except ScheduleError:
        return None


@pytest.mark.parametrize("rope", ["", "yarn:2", "linear:2", "base:2000000", "none"])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_loaded_and_rotates_as_meant_or_is_refused(
    name: str, version: Literal[4, 5], rope: str
) -> None:
    before = {**SIZE, **FILES[name]}
    spec = asked(read_config(before), rope)
    if spec is None:
        return
    try:
        written = write_json(spec, before, version)
    except ScheduleError:
        # Nothing is refused that the file says already, in its own spelling.
        assert rope or version == 4
        return
    checks = compare_tables(built(dict(written)), spec)
    assert checks
    assert [check.sentence for check in checks if not check.agrees] == []


def rows(rope: Any, position: int, pairs: int) -> list[float]:
    """The angles of mlx-lm's pairs at a position, within a rotation, and their amplitude last."""
    import mlx.core as mx
    import numpy as np

    first = np.zeros(2 * pairs, dtype=np.float32)
    first[slice(None, None, 2) if rope.traditional else slice(pairs)] = 1.0
    turned = np.array(rope(mx.array(first)[None, None, None, :], offset=position))[0, 0, 0]
    if rope.traditional:
        cos, sin = turned[0::2], turned[1::2]
    else:
        cos, sin = turned[:pairs], turned[pairs:]
    return [*np.arctan2(sin, cos).tolist(), float(np.hypot(cos[0], sin[0]))]


@pytest.mark.parametrize("rope", ["", "yarn:2", "linear:2", "base:2000000", "none"])
@pytest.mark.parametrize("name", ["llama", "llama3", "yarn", "yarn with its ramp", "linear"])
def test_what_is_written_in_version_5_is_rotated_by_mlx_lm_too(name: str, rope: str) -> None:
    utils = pytest.importorskip("mlx_lm.utils", reason="mlx-lm is not there")
    before = {**SIZE, **FILES[name], "head_dim": 32, "tie_word_embeddings": True}
    spec = asked(read_config(before), rope)
    assert spec is not None
    written = write_json(spec, before, 5)
    model, arguments = utils._get_classes(written)
    layer = model(arguments.from_dict(written)).layers[0].self_attn.rope
    (_, rotary) = next(spec.rotary_groups())
    meant = schedule(rotary)
    for position in (1, 100, 1000):
        *angles, amplitude = rows(layer, position, rotary.pairs)
        assert amplitude == pytest.approx(meant.attention_factor, rel=1e-5)
        for found, frequency in zip(angles, meant.inv_freq, strict=True):
            apart = math.remainder(found - frequency * position, 2 * math.pi)
            assert abs(apart) < 1e-3, position
