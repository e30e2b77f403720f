"""What stands in a file beside its schedule, and is refused where an engine does not have it."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.write import write_config
from ropewalk.dialects.llamacpp import write_flags
from ropewalk.dialects.vllm import write_overrides
from ropewalk.errors import ScheduleError
from tests.configurations import source

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 32768,
    "rope_theta": 5e5,
}


@pytest.mark.parametrize("key", ["use_dynamic_ntk", "use_logn_attn"])
def test_rules_beside_the_schedule_are_named_where_they_would_be_lost(key: str) -> None:
    before = {
        "model_type": "qwen",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "num_hidden_layers": 2,
        "kv_channels": 64,
        "seq_length": 2048,
        "max_position_embeddings": 8192,
        "rotary_emb_base": 10000,
        "rotary_pct": 1.0,
        key: True,
    }
    spec = read_config(before)
    for written in (
        lambda: write_overrides(spec, source(before)),
        lambda: write_flags(spec, spec),
        lambda: write_config(spec, source(before), 5),
    ):
        with pytest.raises(ScheduleError, match=key):
            written()
    write_overrides(read_config(before | {key: False}), source(before | {key: False}))


def test_dual_chunk_attention_is_vllm_s_and_not_llama_cpp_s() -> None:
    chunks = {"chunk_size": 1024, "local_size": 512, "original_max_position_embeddings": 2048}
    before = {**CONFIG, "model_type": "qwen2", "dual_chunk_attention_config": chunks}
    spec = read_config(before)
    assert write_overrides(spec, source(before))
    with pytest.raises(ScheduleError, match="dual_chunk_attention_config"):
        write_flags(spec, spec)
