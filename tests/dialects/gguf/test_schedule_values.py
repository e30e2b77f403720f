"""Numbers that a GGUF file may state and no schedule can have: refused with the file's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ropewalk.errors import GgufError
from ropewalk.rope.spec import PositionSpec

Spec = Callable[..., PositionSpec]
YARN = {"rope__scaling__type": "yarn", "rope__scaling__original_context_length": 4096}
CROSSED = {"factor": 4.0, "yarn_beta_fast": 1.0, "yarn_beta_slow": 8.0}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({**YARN, "rope__scaling__factor": 0.5}, "the yarn scaling factor is 0.5"),
        ({"rope__freq_base": 0.5}, "0.5"),
        ({"rope__scaling__alpha": 0.5}, "the ntk scaling factor is 0.5"),
        ({"rope__dimension_sections": [16, 24, 23, 0]}, "sum to 63; they must .* the 64 rotary"),
    ],
)
def test_the_error_names_file_field_and_value(
    gguf_spec: Spec, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(GgufError, match=rf"\.gguf.*{message}"):
        gguf_spec("llama", **keys)


def test_crossed_betas_are_refused_where_they_are_read(gguf_spec: Spec) -> None:
    keys = {f"rope__scaling__{k}": v for k, v in CROSSED.items()}
    with pytest.raises(GgufError, match=r"beta_slow is 8\.0 and above beta_fast 1\.0"):
        gguf_spec("mistral3", **YARN, **keys)
    gguf_spec("llama", **YARN, **keys)
