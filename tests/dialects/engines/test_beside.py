"""What another reader of a written configuration loses is said, and nothing where it loses none."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.engines.views import remarks_on
from ropewalk.dialects.hf.reader import read_config
from ropewalk.dialects.hf.write import write_config
from ropewalk.rope.override import override
from tests.configurations import source

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 32768, "rope_theta": 1e6,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


def remarks(rope: dict[str, Any] | None, schedule: str = "") -> list[str]:
    before = {**LLAMA, "rope_scaling": rope}
    spec = read_config(before)
    if schedule:
        spec = override(spec, schedule)
    return list(remarks_on(spec, spec.source, write_config(spec, source(before), 4).source))


@pytest.mark.parametrize("rope", [None, {"rope_type": "linear", "factor": 2.0}, YARN])
def test_nothing_is_said_where_all_readers_agree(rope: dict[str, Any] | None) -> None:
    assert remarks(rope) == []


def test_keys_of_other_engines_do_not_vanish_without_a_word() -> None:
    said = remarks({**YARN, "attn_factor": 1.2, "extrapolation_factor": 1.0})
    assert [text.split(" is left out")[0] for text in said] == [
        "attn_factor 1.2",
        "extrapolation_factor 1.0",
    ]
    assert all("vLLM before 0.30.0" in text for text in said)


def test_mlx_s_own_rules_are_told() -> None:
    # mlx-lm reads no attention_factor and rounds the ramp's ends always.
    (said,) = remarks({**YARN, "attention_factor": 1.0})
    assert "mlx-lm reads this file too" in said
    assert "cos and sin x 1.13863" in said  # 0.1 ln 4 + 1
    (said,) = remarks({**YARN, "truncate": False})
    assert "is off by more than 0.001 rad from position" in said
