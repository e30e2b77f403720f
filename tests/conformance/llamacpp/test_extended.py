"""Extended GGUF files: llama.cpp's own log-probabilities against transformers turned as meant.

Skipped with a plain reason where the package xllamacpp cannot be loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.extend.methods import CLOSED_FORMS, Method, SearchedFactors, extended

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
