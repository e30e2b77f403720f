"""Extended GGUF files: llama.cpp's own log-probabilities against transformers turned as meant.

Skipped with a plain reason where the package xllamacpp cannot be loaded.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.family import config_source
from ropewalk.dialects.hf.write import write_config
from ropewalk.extension.methods import CLOSED_FORMS, Method, SearchedFactors, extended
from ropewalk.extension.serve import own_options
from tests.configurations import source

pytestmark = pytest.mark.model

TOLERANCE = 1e-3
MUST_MISS = 10 * TOLERANCE
TRAINED, TARGET = 128, 512
SEARCHED = SearchedFactors(tuple(1.0 + i / 4 for i in range(16)), 1.1)
METHODS: tuple[Method, ...] = (
    *(each for each in CLOSED_FORMS if each.name in ("yarn", "ntk-by-parts", "base")),
    SEARCHED,
)


@pytest.mark.parametrize("method", METHODS, ids=lambda each: each.name)
def test_an_extended_file_is_served_as_transformers_turns(
    method: Method, bench: Any, tmp_path: Path
) -> None:
    source = bench.write("llama", {"context_length": TRAINED})
    before = read_gguf(source)
    after = extended(before, TARGET, method)
    out = tmp_path / "longer.gguf"
    found = write_gguf(after, source, out, numbers="F32")
    assert (found.trained.tokens, found.claimed.tokens) == (TRAINED, TARGET)
    # llama.cpp passes over the record, whose key it does not know.
    assert found.extended is not None
    answers = bench.served(out)
    assert max(bench.misses(answers, "llama", after)) < TOLERANCE
    assert min(bench.misses(answers, "llama", before)) > MUST_MISS


def converted(config: Mapping[str, Any], bench: Any) -> Path:
    """What convert_hf_to_gguf.py would make of the small Llama under `config`.

    By its rules: the common class (`conversion/base.py`) writes base, type, factor and, for yarn,
    the original length; Llama's (`conversion/llama.py`) bakes llama3 with the reference length at
    the top of the file, or 8192. longrope gets its name and no lists.
    """
    rope = config["rope_parameters"]
    keys: dict[str, Any] = {
        "context_length": config["max_position_embeddings"],
        "rope.freq_base": rope["rope_theta"],
    }
    tensors = {}
    match rope["rope_type"]:
        case "linear" | "yarn" as kind:
            keys |= {"rope.scaling.type": kind, "rope.scaling.factor": rope["factor"]}
            if kind == "yarn":
                length = rope["original_max_position_embeddings"]
                keys["rope.scaling.original_context_length"] = length
        case "longrope":
            keys["rope.scaling.type"] = "longrope"
        case "llama3":
            tensors["rope_freqs.weight"] = baked(rope, config)
    return Path(bench.write("llama", keys, tensors, "converted"))


def baked(rope: Mapping[str, Any], config: Mapping[str, Any]) -> Any:
    """Llama 3's rule as a divisor a pair, by the wavelengths of the paper's code."""
    pairs = config["head_dim"] // 2
    reference = config.get("original_max_position_embeddings", 8192)
    s, low, high = rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for pair in range(pairs):
        turns = reference / (2 * math.pi * rope["rope_theta"] ** (pair / pairs))
        kept = min(max((turns - low) / (high - low), 0.0), 1.0)
        divisors.append(1.0 / (kept + (1.0 - kept) / s))
    return np.array(divisors, dtype=np.float32)


def command(words: str, place: Path) -> None:
    """One of ropewalk's own commands, as a card gives it."""
    program, *arguments = shlex.split(words)
    assert program == "ropewalk"
    whole = [sys.executable, "-m", "ropewalk", *arguments]
    subprocess.run(whole, cwd=place, check=True, capture_output=True)


@pytest.mark.parametrize("method", [*CLOSED_FORMS, SEARCHED], ids=lambda each: each.name)
def test_a_folder_is_served_by_the_commands_of_its_card_or_its_card_says_why_not(
    method: Method, bench: Any, tmp_path: Path
) -> None:
    before = bench.models("llama").config.to_dict() | {"max_position_embeddings": TRAINED}
    after = extended(read_config(before), TARGET, method)
    written = write_config(after, source(before), 5)
    config = config_source(written).config
    (options,) = own_options(written, after, "longer", "llamacpp")
    if method.name == "longrope":
        assert "takes one of them for every prompt" in options.reason
        return
    served = converted(config, bench)
    convert, *rest = options.steps
    assert convert.startswith("python convert_hf_to_gguf.py longer --outfile longer")
    assert bool(rest) == (method == SEARCHED)
    if rest:
        (tmp_path / "longer").mkdir()
        (tmp_path / "longer" / "config.json").write_text(json.dumps(config))
        served.rename(tmp_path / "longer-converted.gguf")
        command(rest[0], tmp_path)
        served = tmp_path / "longer.gguf"
    assert options.line == f"--ctx-size {TARGET}"
    answers = bench.served(served)
    assert max(bench.misses(answers, "llama", after)) < TOLERANCE
    assert min(bench.misses(answers, "llama", read_config(before))) > MUST_MISS
