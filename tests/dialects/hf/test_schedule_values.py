"""Numbers that a rope dictionary may hold and no schedule can have: refused with their place."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 16384,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA3 = {**YARN, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({**YARN, "factor": 0.5}, "the yarn scaling factor is 0.5; it must be a number of at le"),
        ({**YARN, "beta_fast": 1, "beta_slow": 32}, "beta_slow is 32.0 and above beta_fast 1.0"),
        ({**LLAMA3, "factor": 0.5}, "the llama3 scaling factor is 0.5"),
        ({**LLAMA3, "low_freq_factor": 8.0}, "low_freq_factor is 8.0 and above high_freq_factor"),
        ({"rope_type": "dynamic", "factor": 0.9}, "the dynamic scaling factor is 0.9"),
        (
            {"rope_type": "proportional", "partial_rotary_factor": 1.5},
            "partial_rotary_factor is 1.5",
        ),
        ({**YARN, "factor": None, "original_max_position_embeddings": 32768}, "factor is 0.5"),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_the_error_names_file_dictionary_field_and_value(
    rope: dict[str, Any], message: str, key: str
) -> None:
    with pytest.raises(ConfigError, match=f"^config.json: {key}: .*{message}"):
        read_config({**LLAMA, key: rope})


def test_linear_may_squeeze_because_engines_do_so_when_told() -> None:
    spec = read_config({**LLAMA, "rope_scaling": {"type": "linear", "factor": 0.5}})
    assert [remark.code for remark in spec.findings] == ["factor-below-one"]
