"""What a GGUF file says of its own extension: kept, true of the file, and gone when it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import ropewalk
from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.extension.methods import CLOSED_FORMS, Method, SearchedFactors, extended
from ropewalk.findings import audit
from ropewalk.rope.frequencies import schedule_fingerprint
from ropewalk.rope.override import override

SEARCHED = SearchedFactors(tuple(1 + pair / 32 for pair in range(64)), 1.03)


@pytest.fixture
def smaller(make_gguf: Callable[..., Path], gguf_base: dict[str, Any]) -> Path:
    """A GGUF file that is trained on 8,192 tokens, with one vector."""
    tensors = {"output_norm.weight": np.arange(33, dtype=np.float32)}
    return make_gguf(
        "llama", {**gguf_base, "context_length": 8192, "general.name": "Ωrope"}, tensors
    )


# At 1.25 times the length no divisor is a power of two, and single precision changes them.
@pytest.mark.parametrize("method", [*CLOSED_FORMS, SEARCHED], ids=lambda each: each.name)
def test_the_origin_of_an_extended_gguf_file_is_named_as_that_of_a_folder(
    smaller: Path, tmp_path: Path, method: Method
) -> None:
    before = read_gguf(smaller)
    after = extended(before, 20_000, method, 1.25)
    write_gguf(after, smaller, tmp_path / "longer.gguf")
    spec = read_gguf(tmp_path / "longer.gguf")
    assert after.extended is not None
    assert spec.extended == replace(after.extended, fingerprint=schedule_fingerprint(spec))
    origin = audit(spec).origin
    assert origin.code == audit(after).origin.code != "unknown"
    tool = f"ropewalk {ropewalk.__version__} (method {method.name}), as the file records"
    assert f"extended from 8,192 to 20,000 tokens, made for 25,000, by {tool}" in (origin.sentence)
    # Other tools read it as any string, and nothing else of the file has moved.
    reader = gguf.GGUFReader(tmp_path / "longer.gguf")
    told = json.loads(reader.fields["ropewalk.extend"].contents())
    assert told["method"] == method.name
    assert reader.fields["general.name"].contents() == "Ωrope"
    (norm,) = (each for each in reader.tensors if each.name == "output_norm.weight")
    assert np.array_equal(norm.data, np.arange(33, dtype=np.float32))


def test_another_schedule_in_a_copy_takes_the_record_out(smaller: Path, tmp_path: Path) -> None:
    yarn = next(method for method in CLOSED_FORMS if method.name == "yarn")
    after = extended(read_gguf(smaller), 16_384, yarn)
    write_gguf(after, smaller, tmp_path / "longer.gguf")
    spec = read_gguf(tmp_path / "longer.gguf")
    other = override(spec, "none")
    write_gguf(other, tmp_path / "longer.gguf", tmp_path / "other.gguf")
    assert read_gguf(tmp_path / "other.gguf").extended is None
    assert "ropewalk.extend" not in gguf.GGUFReader(tmp_path / "other.gguf").fields
    # The same schedule in a further copy keeps it.
    write_gguf(spec, tmp_path / "longer.gguf", tmp_path / "same.gguf")
    assert read_gguf(tmp_path / "same.gguf").extended == spec.extended


@pytest.mark.parametrize("record", ["yes", "{", "[]", "{}", '{"tool": 3}', 7, "[" * 5000])
def test_a_gguf_record_of_another_kind_is_a_remark_and_no_error(
    make_gguf: Callable[..., Path], gguf_base: dict[str, Any], record: object
) -> None:
    spec = read_gguf(make_gguf("llama", {**gguf_base, "ropewalk.extend": record}))
    assert spec.extended is None
    (remark,) = (each for each in spec.findings if each.code == "record-not-read")
    assert "ropewalk.extend" in remark.text
    assert "ropewalk_extend" not in remark.text
