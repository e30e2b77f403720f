"""The table of engines: 80 columns, ASCII, and a sentence for every difference."""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.dialects.engines import engine_views
from ropewalk.dialects.hf import read_config
from ropewalk.report.engines import blocks
from ropewalk.report.lines import text_lines

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 131072,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
        "attention_factor": 1.0,
    },
}


def lines(config: dict[str, Any], width: int = 80) -> list[str]:
    views = engine_views(read_config(config))
    return text_lines(blocks(views), width)


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_all_are_ascii(width: int) -> None:
    found = lines(LLAMA, width)
    assert max(map(len, found)) <= max(width, 40)
    assert all(line.isascii() for line in found)


def test_every_engine_has_a_row_and_every_difference_a_sentence() -> None:
    text = "\n".join(lines(LLAMA))
    for name in ("transformers 5.24", "transformers 4.57", "vLLM 0.28", "llama.cpp", "mlx-lm"):
        assert f"\n{name} " in text
    joined = " ".join(text.split())
    # Engines of which the same is said share a sentence.
    assert "vLLM 0.28, SGLang 0.5.23: does not read attention_factor; against" in joined
    assert "cos and sin are x 1.34657" in joined
    assert "llama.cpp, mlx-lm: the ramp's ends are rounded to whole pairs all the same" in joined
    assert "is first off by more than 0.001 rad, at position" in joined


def test_a_model_without_rotary_layers_is_told_so() -> None:
    config = {"model_type": "gpt2", "n_positions": 1024, "n_embd": 64, "n_head": 4, "n_layer": 2}
    assert lines(config)[-1] == "Engines: no rotary layers to compare."
