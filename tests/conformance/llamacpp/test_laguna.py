"""Laguna in llama.cpp: which of YaRN's keys its loader reads, and which layers YaRN scales.

transformers' Laguna has another gate, so that the engine is compared with itself: a key that is
read changes what it answers, and one that is not leaves every digit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.rope.schedules import Unscaled, Yarn

pytestmark = pytest.mark.model

WIDTH, HEADS, HEAD, FEED_FORWARD, LAYERS = 64, 2, 32, 96, 2
YARN: dict[str, Any] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 64,
}
BETAS = {"rope.scaling.yarn_beta_fast": 64.0, "rope.scaling.yarn_beta_slow": 4.0}
ALL_SLIDE = {"attention.sliding_window": 512, "attention.sliding_window_pattern": 0}


def random_tensors(rows: int) -> dict[str, Any]:
    """The weights of a dense Laguna with so many tokens, always the same ones."""
    draw = np.random.default_rng(0)

    def some(*shape: int) -> Any:
        return draw.normal(size=shape) * 0.12

    tensors = {
        "token_embd.weight": some(rows, WIDTH),
        "output.weight": some(rows, WIDTH),
        "output_norm.weight": np.ones(WIDTH),
    }
    for layer in range(LAYERS):
        shapes = {"attn_gate": (HEADS, WIDTH), "attn_output": (WIDTH, HEADS * HEAD)}
        shapes |= dict.fromkeys(("attn_q", "attn_k", "attn_v"), (HEADS * HEAD, WIDTH))
        shapes |= dict.fromkeys(("ffn_gate", "ffn_up"), (FEED_FORWARD, WIDTH))
        shapes["ffn_down"] = (WIDTH, FEED_FORWARD)
        tensors |= {f"blk.{layer}.{name}.weight": some(*s) for name, s in shapes.items()}
        for name, size in {"attn_norm": WIDTH, "ffn_norm": WIDTH}.items():
            tensors[f"blk.{layer}.{name}.weight"] = np.ones(size)
        for name in ("attn_q_norm", "attn_k_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = np.full(HEAD, 1.5)
    return tensors


STATED = {
    "context_length": 512,
    "block_count": LAYERS,
    "embedding_length": WIDTH,
    "feed_forward_length": FEED_FORWARD,
    "expert_feed_forward_length": FEED_FORWARD,
    "leading_dense_block_count": LAYERS,
    "attention.head_count": HEADS,
    "attention.head_count_kv": HEADS,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.dimension_count": HEAD,
    "rope.freq_base": 10000.0,
}


@pytest.fixture
def laguna(tmp_path: Path, bare_file: Callable[..., Path]) -> Callable[..., Path]:
    """laguna(keys): the file."""

    def write(keys: dict[str, Any]) -> Path:
        path: Path = tmp_path / "laguna.gguf"
        return bare_file(path, "laguna", {**STATED, **keys}, random_tensors)

    return write


@pytest.fixture
def answers(
    tmp_path: Path,
    laguna: Callable[..., Path],
    serve: Callable[..., Any],
    prompt: Callable[[int], list[int]],
) -> Callable[..., dict[int, float]]:
    """answers(keys, **options): the likeliest next tokens after 200."""

    def ask(keys: dict[str, Any], **options: float) -> dict[int, float]:
        with serve(laguna(keys), 512, **options) as asked:
            found: dict[int, float] = asked(prompt(200))
        (tmp_path / "laguna.address").unlink()
        return found

    return ask


def test_this_release_reads_the_options_and_not_yet_the_ramps_ends_in_the_file(
    laguna: Callable[..., Path], answers: Callable[..., dict[int, float]]
) -> None:
    without = answers(YARN)
    assert answers(YARN | BETAS) == without
    assert answers(YARN, yarn_beta_fast=64.0, yarn_beta_slow=4.0) != without
    spec = read_gguf(laguna(YARN | BETAS))
    (scaling,) = {r.scaling for _, r in spec.rotary_groups()}
    assert isinstance(scaling, Yarn)
    # What the sources read by now, with a note on this release.
    assert (scaling.beta_fast, scaling.beta_slow) == (64.0, 4.0)
    told = [each.text for each in read_gguf(laguna(YARN | BETAS)).findings]
    assert sum("release b11549 does not yet" in text for text in told) == 2


def test_sliding_layers_are_not_scaled(
    laguna: Callable[..., Path], answers: Callable[..., dict[int, float]]
) -> None:
    assert answers(YARN | ALL_SLIDE) == answers(ALL_SLIDE)
    assert answers(YARN) != answers({})
    spec = read_gguf(laguna(YARN | ALL_SLIDE))
    assert {type(r.scaling) for _, r in spec.rotary_groups()} == {Unscaled}
