"""llama.cpp's own log-probabilities, against transformers turned by our reading of the file.

Skipped with a plain reason where the package xllamacpp cannot be loaded; nothing else is left
out. Each case is one GGUF file of random weights, served with single-precision keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.archs import ARCHITECTURES

pytestmark = pytest.mark.model

TOLERANCE = 1e-3
MUST_MISS = 10 * TOLERANCE
TRAINED = 128
CONTEXT = 512
PAIRS = 16

Array = np.ndarray[Any, Any]


def llama3_divisors() -> Array:
    """What converters write into `rope_freqs.weight`, from transformers' frequencies."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rule = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": TRAINED,
    }
    config = LlamaConfig(head_dim=2 * PAIRS, rope_parameters=rule, max_position_embeddings=1024)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = 10000.0 ** (-np.arange(PAIRS) / PAIRS)
    divisors: Array = plain / scaled.double().numpy()
    return divisors


def divided() -> dict[str, Array]:
    return {"rope_freqs.weight": llama3_divisors()}


def two_lists() -> dict[str, Array]:
    return {
        "rope_factors_short.weight": np.linspace(1.0, 2.0, PAIRS),
        "rope_factors_long.weight": np.linspace(1.0, 4.0, PAIRS) ** 1.5,
    }


def nothing() -> dict[str, Array]:
    return {}


@dataclass(frozen=True)
class Case:
    """A file: its architecture, keys of its schedule (without `rope.scaling.`), and tensors.

    `always` are keys that the file without its schedule has too.
    """

    arch: str = "llama"
    scaling: Mapping[str, Any] = field(default_factory=dict)
    tensors: Callable[[], dict[str, Array]] = nothing
    always: Mapping[str, Any] = field(default_factory=dict)

    def stated(self) -> dict[str, Any]:
        return {**{f"rope.scaling.{k}": v for k, v in self.scaling.items()}, **self.always}


LINEAR = {"type": "linear", "factor": 4.0}
YARN = {"type": "yarn", "factor": 4.0, "original_context_length": TRAINED}
FINER = {
    "yarn_beta_fast": 6.0,
    "yarn_beta_slow": 0.5,
    "yarn_log_multiplier": 0.7,
    "yarn_attn_factor": 0.5,
    "yarn_ext_factor": 0.0,
}
LONGROPE = {"type": "longrope", "attn_factor": 1.2}
TWO_BASES = {"rope.freq_base": 1e6, "attention.sliding_window": 48}

CASES = {
    "linear": Case(scaling=LINEAR),
    "a factor without a type is linear": Case(scaling={"factor": 4.0}),
    "pairs in halves": Case("qwen2", LINEAR),
    "yarn": Case(scaling=YARN),
    "yarn from the context length": Case(scaling={"type": "yarn", "factor": 2.0}),
    "yarn with an amplitude": Case(scaling=YARN | {"attn_factor": 0.7}),
    "yarn with keys that are not read": Case(scaling=YARN | FINER),
    "yarn with keys that are read": Case("mistral3", YARN | FINER),
    "llama3": Case(scaling={"type": "none"}, tensors=divided),
    "llama3 and linear": Case(scaling={"type": "linear", "factor": 2.0}, tensors=divided),
    "longrope, a context that takes the long list": Case(
        scaling=LONGROPE | {"original_context_length": TRAINED}, tensors=two_lists
    ),
    "longrope, a context that takes the short list": Case(
        scaling=LONGROPE | {"original_context_length": CONTEXT}, tensors=two_lists
    ),
    "longrope in Phi-3": Case(
        "phi3", LONGROPE | {"original_context_length": TRAINED}, tensors=two_lists
    ),
    "two bases, one of them scaled": Case(
        "gemma3", {"type": "linear", "factor": 8.0}, always=TWO_BASES
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_llama_cpp_turns_as_our_reading_of_the_file_says(case: Case, bench: Any) -> None:
    path = bench.write(case.arch, case.stated(), case.tensors())
    without = bench.write(case.arch, case.always, name="without")
    answers = bench.served(path)
    assert max(bench.misses(answers, case.arch, read_gguf(path))) < TOLERANCE
    assert min(bench.misses(answers, case.arch, read_gguf(without))) > MUST_MISS


@pytest.mark.parametrize("arch", ["llama", "qwen2", "phi3", "gemma3"])
def test_a_file_without_a_schedule_turns_by_its_bases(arch: str, bench: Any) -> None:
    keys = TWO_BASES if arch == "gemma3" else {}
    path = bench.write(arch, keys)
    spec = read_gguf(path)
    assert max(bench.misses(bench.served(path), arch, spec)) < TOLERANCE


def test_a_wrong_claim_about_the_layout_would_show(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARCHITECTURES, "llama", ARCHITECTURES["qwen2"])
    path = bench.write("llama", {})
    assert min(bench.misses(bench.served(path), "llama", read_gguf(path))) > MUST_MISS
