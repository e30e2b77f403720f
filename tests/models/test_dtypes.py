"""What a model computes in: the words, and what auto makes of a checkpoint and a device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.errors import UsageError
from ropewalk.models import dtypes
from ropewalk.models.dtypes import check_dtype, chosen_dtype, dtype_word, stored_dtype, torch_dtype
from ropewalk.models.resolve import ModelFiles

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def checkpoint(folder: Path, config: dict[str, Any], *types: torch.dtype) -> ModelFiles:
    """A folder with a configuration and tensors of these types, in this order of names."""
    (folder / "config.json").write_text(json.dumps(config))
    tensors = {f"t{i}": torch.ones(2).to(kind) for i, kind in enumerate(types)}
    if tensors:
        save_file(tensors, folder / "model.safetensors")
    return ModelFiles("m", "m", "folder", folder)


def test_every_word_has_its_dtype_of_torch_and_the_way_back() -> None:
    named = {word: torch_dtype(word) for word in ("bf16", "fp16", "fp32")}
    assert list(named.values()) == [torch.bfloat16, torch.float16, torch.float32]
    assert [dtype_word(dtype) for dtype in named.values()] == list(named)


@pytest.mark.parametrize("word", ["float32", "bfloat16", "float16", "BF16", "int8", ""])
def test_another_word_is_refused_with_those_that_are_known(word: str) -> None:
    with pytest.raises(UsageError, match=r"choose one of auto, bf16, fp16, fp32$"):
        check_dtype(word)


@pytest.mark.parametrize(
    ("config", "types", "said"),
    [
        ({"dtype": "bfloat16"}, [torch.float32], "bf16"),
        ({"torch_dtype": "float16"}, [], "fp16"),
        ({"torch_dtype": "torch.float32"}, [], "fp32"),
        ({"text_config": {"torch_dtype": "bfloat16"}}, [], "bf16"),
        ({"dtype": "auto"}, [torch.float16], "fp16"),
        ({"dtype": None}, [torch.bfloat16], "bf16"),
        ({}, [torch.int64, torch.bfloat16], "bf16"),
        ({}, [torch.int64], None),
        ({}, [], None),
        ({"dtype": "float8_e4m3fn"}, [torch.bfloat16], None),
    ],
)
def test_a_checkpoint_is_stored_in_what_its_configuration_or_its_first_tensor_says(
    tmp_path: Path, config: dict[str, Any], types: list[torch.dtype], said: str | None
) -> None:
    files = checkpoint(tmp_path, config, *types)
    assert stored_dtype(files) == said
    assert chosen_dtype("auto", CPU, files) == "fp32"


@pytest.mark.parametrize("stored", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("own", [True, False])
def test_auto_is_the_stored_dtype_on_a_gpu_that_computes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str, *, own: bool
) -> None:
    monkeypatch.setattr(dtypes, "computes_bf16", lambda _device: own)
    files = checkpoint(tmp_path, {"dtype": stored})
    wanted = "float32" if stored == "bfloat16" and not own else stored
    assert torch_dtype(chosen_dtype("auto", CUDA, files)) is getattr(torch, wanted)
    # What was asked for by name is taken.
    assert chosen_dtype("bf16", CUDA, files) == "bf16"


def test_a_gguf_file_runs_in_fp32_unless_another_is_asked_for(tmp_path: Path) -> None:
    files = ModelFiles("m", "m", "gguf", tmp_path / "m.gguf")
    assert chosen_dtype("auto", CUDA, files) == "fp32"
    assert chosen_dtype("fp16", CUDA, files) == "fp16"


@pytest.mark.parametrize("header", [b"", b"\x05", b"\xff" * 8, b"\x02" + bytes(7) + b"[]"])
def test_a_damaged_file_says_nothing_of_its_dtype(tmp_path: Path, header: bytes) -> None:
    files = checkpoint(tmp_path, {})
    (tmp_path / "model.safetensors").write_bytes(header)
    assert stored_dtype(files) is None
