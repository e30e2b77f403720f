"""Fixtures for the readers of engines' formats: GGUF files written by the gguf package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.rope.spec import PositionSpec

GgufMaker = Callable[..., Path]

BASE: dict[str, Any] = {
    "context_length": 131072,
    "block_count": 4,
    "embedding_length": 512,
    "attention.head_count": 4,
    "rope.freq_base": 500000.0,
}

WHOLE = ("general.", "split.", "tokenizer.", "ropewalk.")
"""How keys begin that have no architecture's name before them."""


@pytest.fixture
def make_gguf(tmp_path: Path) -> GgufMaker:
    """make_gguf(arch, keys, tensors) writes a small GGUF file and returns its path.

    `keys` are without the architecture's prefix unless they start with one of WHOLE.
    Whole numbers are written as UINT32, floats as FLOAT32, as converters do. `tensors` hold
    numpy arrays, slowest axis first.
    """

    def make(
        arch: str = "llama",
        keys: Mapping[str, Any] | None = None,
        tensors: Mapping[str, np.ndarray[Any, Any]] | None = None,
        name: str = "model.gguf",
    ) -> Path:
        path = tmp_path / name
        writer = gguf.GGUFWriter(path, arch)
        for key, value in (keys or {}).items():
            full = key if key.startswith(WHOLE) else f"{arch}.{key}"
            if isinstance(value, bool):
                writer.add_bool(full, value)
            elif isinstance(value, int):
                writer.add_uint32(full, value) if value >= 0 else writer.add_int32(full, value)
            elif isinstance(value, float):
                writer.add_float32(full, value)
            elif isinstance(value, str):
                writer.add_string(full, value)
            else:
                writer.add_array(full, value)
        for tensor, array in (tensors or {}).items():
            writer.add_tensor(tensor, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


@pytest.fixture
def gguf_base() -> dict[str, Any]:
    """The keys of a plain rotary model, without its architecture's prefix."""
    return dict(BASE)


@pytest.fixture
def gguf_spec(make_gguf: GgufMaker) -> Callable[..., PositionSpec]:
    """gguf_spec(arch, tensors=..., **keys): the reading of a file with BASE and these keys.

    Double underscores stand for dots; None removes a key of BASE.
    """

    def read(arch: str = "llama", tensors: Any = None, **keys: Any) -> PositionSpec:
        stated = BASE | {k.replace("__", "."): v for k, v in keys.items()}
        stated = {k: v for k, v in stated.items() if v is not None}
        return read_gguf(make_gguf(arch, stated, tensors))

    return read
