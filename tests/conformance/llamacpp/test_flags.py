"""llama.cpp under its options, against transformers turned by our reading of the same options.

Skipped with a plain reason where the package xllamacpp cannot be loaded. The package takes
parameters, not a command line; `OPTIONS` says which parameter an option sets.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.llamacpp import read_flags

pytestmark = pytest.mark.model

TOLERANCE = 1e-3
MUST_MISS = 10 * TOLERANCE
TRAINED = 128

OPTIONS: dict[str, tuple[str, Callable[[str], float | str]]] = {
    "--rope-scaling": (
        "rope_scaling_type",
        lambda word: f"LLAMA_ROPE_SCALING_TYPE_{word.upper()}",
    ),
    "--rope-scale": ("rope_freq_scale", lambda word: 1.0 / float(word)),
    "--rope-freq-scale": ("rope_freq_scale", float),
    "--rope-freq-base": ("rope_freq_base", float),
    "--yarn-orig-ctx": ("yarn_orig_ctx", int),
    "--yarn-beta-fast": ("yarn_beta_fast", float),
    "--yarn-beta-slow": ("yarn_beta_slow", float),
}

PLAIN: dict[str, Any] = {}
LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
YARN = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": TRAINED,
}
QUIETER = YARN | {"rope.scaling.attn_factor": 0.7}

CASES = [
    (PLAIN, "--rope-scaling linear --rope-scale 4"),
    (PLAIN, "--rope-freq-scale 0.25"),
    (PLAIN, "--rope-freq-base 50000"),
    (PLAIN, "--rope-scaling yarn --rope-scale 4"),
    (PLAIN, "--rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 128 --yarn-beta-fast 6"),
    (LINEAR, "--rope-scaling none"),
    (LINEAR, "--rope-scaling yarn --yarn-orig-ctx 128"),
    (YARN, "--rope-scaling linear"),
    (YARN, "--yarn-beta-fast 6 --yarn-beta-slow 0.5"),
    (QUIETER, "--rope-scale 8"),
]


def parameters(line: str) -> dict[str, float | str]:
    words = shlex.split(line)
    pairs = zip(words[::2], words[1::2], strict=True)
    return {OPTIONS[name][0]: OPTIONS[name][1](word) for name, word in pairs}


@pytest.mark.parametrize(("keys", "line"), CASES)
def test_llama_cpp_turns_as_our_reading_of_its_options_says(
    keys: dict[str, Any], line: str, bench: Any
) -> None:
    path = bench.write("llama", keys)
    file = read_gguf(path)
    answers = bench.served(path, **parameters(line))
    assert max(bench.misses(answers, "llama", read_flags(line, file))) < TOLERANCE
    assert min(bench.misses(answers, "llama", file)) > MUST_MISS


def test_the_server_stops_where_its_file_does_unless_that_length_is_restated(
    bench: Any, serve: Any, prompt: Callable[[int], list[int]]
) -> None:
    file = read_gguf(path := bench.write("llama", {"context_length": TRAINED}))
    assert read_flags("--ctx-size 512", file).claimed.tokens == TRAINED
    with serve(path, 512) as ask:
        assert ask(prompt(TRAINED - 8))
        with pytest.raises(pytest.fail.Exception, match=rf"available context size \({TRAINED}"):
            ask(prompt(TRAINED + 8))
    # The package takes no --override-kv: the key that it restates is written into the file.
    line = "--ctx-size 512 --override-kv llama.context_length=int:512"
    assert read_flags(line, file).claimed.tokens == 512
    with serve(bench.write("llama", {"context_length": 512}, name="longer"), 512) as ask:
        assert ask(prompt(500))
