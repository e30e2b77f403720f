"""What cannot be stretched is refused, with what is there and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import LengthError, ScheduleError
from ropewalk.extension.fit import check
from ropewalk.extension.methods import CLOSED_FORMS, Method, extended

PLAIN: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


@pytest.mark.parametrize(
    ("scaling", "told"),
    [
        ({"rope_type": "linear", "factor": 4.0}, "linear with a factor of 4"),
        ({"rope_type": "dynamic", "factor": 2.0}, "dynamic with a factor of 2"),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
            "yarn with a factor of 4, to 4096 tokens from 1024",
        ),
        (
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
             "original_max_position_embeddings": 1024},
            "llama3 with a factor of 8",
        ),
        ({"type": "su", "factor": 8.0}, "scaled already: su"),
    ],
)  # fmt: skip
def test_a_factor_in_the_files_is_not_stacked_upon(scaling: dict[str, Any], told: str) -> None:
    if "su" in scaling.values():
        scaling = {
            "rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [2.0] * 32,
            "factor": 2.0, "original_max_position_embeddings": 2048,
        }  # fmt: skip
        told = "scaled already: longrope"
    spec = read_config(PLAIN | {"rope_scaling": scaling})
    with pytest.raises(ScheduleError, match=told) as refused:
        check(spec, 32768)
    assert "begin from the checkpoint as it was before" in str(refused.value)


@pytest.mark.parametrize("method", CLOSED_FORMS, ids=lambda each: each.name)
def test_what_was_extended_is_not_extended_again(method: Method) -> None:
    once = extended(read_config(PLAIN), 8192, method)
    with pytest.raises(ScheduleError, match=r"(scaled|stretched) already"):
        check(once, 32768)


@pytest.mark.parametrize("target", [1, 4095, 4096])
def test_a_length_that_is_none_more_is_refused(target: int) -> None:
    with pytest.raises(LengthError, match="no longer than the 4096 tokens"):
        check(read_config(PLAIN), target)
    check(read_config(PLAIN), 4097)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 1024},
         "a learned table has only 1024 rows"),
        ({"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2},
         "penalty is defined at every distance"),
        ({"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 2}, "carry a state"),
        ({"model_type": "t5", "d_model": 64, "num_heads": 4, "num_layers": 2},
         "relative buckets treat all distances beyond"),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_model_that_rotates_nothing_is_refused_with_the_reason(
    config: dict[str, Any], told: str
) -> None:
    with pytest.raises(ScheduleError, match=told):
        check(read_config(config), 1 << 20)
