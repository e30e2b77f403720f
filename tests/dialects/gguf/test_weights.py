"""Dequantised copies: every number the gguf package's own, in the type that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.gguf.weights import Numbers
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.errors import GgufError

TYPES: Any = gguf.GGMLQuantizationType


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A file with a matrix in Q8_0, one in F16, and a vector."""
    path = tmp_path / "stored.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (("context_length", 512), ("embedding_length", 64), ("block_count", 1),
                       ("attention.head_count", 4)):  # fmt: skip
        writer.add_uint32(f"llama.{key}", value)
    writer.add_file_type(7)
    writer.add_quantization_version(2)
    random = np.random.default_rng(0)
    matrix = random.normal(size=(5, 64)).astype(np.float32)
    packed = gguf.quants.quantize(matrix, TYPES.Q8_0)
    writer.add_tensor("token_embd.weight", packed, raw_dtype=TYPES.Q8_0)
    writer.add_tensor("blk.0.attn_q.weight", matrix[:3].astype(np.float16))
    writer.add_tensor("blk.0.attn_norm.weight", matrix[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(path: Path) -> dict[str, Any]:
    return {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}


@pytest.mark.parametrize(("numbers", "kind"), [("F16", 1), ("F32", 0)])
def test_a_dequantised_copy_holds_the_packages_own_numbers(
    stored: Path, tmp_path: Path, numbers: Numbers, kind: int
) -> None:
    out = tmp_path / "out.gguf"
    write_gguf(read_gguf(stored), stored, out, numbers=numbers)
    before, after = tensors(stored), tensors(out)
    assert before.keys() == after.keys()
    for name, tensor in after.items():
        vector = name.endswith("norm.weight")
        assert tensor.tensor_type == (TYPES.F32 if vector else TYPES[numbers])
        source = before[name]
        full = gguf.quants.dequantize(source.data, source.tensor_type)
        wanted = full if vector or numbers == "F32" else full.astype(np.float16)
        np.testing.assert_array_equal(tensor.data, wanted)
        assert list(tensor.shape) == list(source.shape)
    fields = gguf.GGUFReader(out).fields
    assert fields["general.file_type"].contents() == kind
    assert "general.quantization_version" not in fields


def test_numbers_that_half_precision_cannot_hold_are_refused(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.context_length", 512)
    writer.add_uint32("llama.embedding_length", 64)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_tensor("token_embd.weight", np.full((2, 64), 70_000.0, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    out = tmp_path / "out.gguf"
    with pytest.raises(GgufError, match=r"beyond 65504.*write F32"):
        write_gguf(read_gguf(path), path, out, numbers="F16")
    assert not out.exists()
    write_gguf(read_gguf(path), path, out, numbers="F32")
    assert stored.exists()
