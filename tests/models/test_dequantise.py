from __future__ import annotations

import importlib
import importlib.util
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from ropewalk.errors import GgufError, MissingPartError, ModelFileError
from ropewalk.models.dequantise import dequantise
from ropewalk.models.load import check_device
from ropewalk.models.load import load as load_model
from ropewalk.models.resolve import resolve

WIDTH, HEADS, KV_HEADS, LAYERS, FEED_FORWARD = 64, 4, 2, 2, 96
ALPHABET = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["Ġ"]
TOKENS = ["<|end|>", *ALPHABET, "th", "the"]

Maker = Callable[..., Path]


def quantised(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    packed: np.ndarray[Any, Any] = gguf.quantize(array, gguf.GGMLQuantizationType.Q8_0)
    return packed


@pytest.fixture
def tiny_llama(tmp_path: Path) -> Maker:
    """tiny_llama(tied): a GGUF llama of random F32 and Q8_0 tensors, with its tokenizer."""

    def make(*, tied: bool = True, arch: str = "llama", drop: str = "") -> Path:
        random = np.random.default_rng(7)
        path = tmp_path / "gguf" / "tiny.gguf"
        path.parent.mkdir(exist_ok=True)
        writer = gguf.GGUFWriter(path, arch)
        writer.add_block_count(LAYERS)
        writer.add_context_length(256)
        writer.add_embedding_length(WIDTH)
        writer.add_feed_forward_length(FEED_FORWARD)
        writer.add_head_count(HEADS)
        writer.add_head_count_kv(KV_HEADS)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_freq_base(10000.0)
        writer.add_rope_dimension_count(WIDTH // HEADS)
        writer.add_vocab_size(len(TOKENS))
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("default")
        writer.add_token_list(TOKENS)
        writer.add_token_types([3] + [1] * (len(TOKENS) - 1))
        writer.add_token_merges(["t h", "th e"])
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(0)

        def tensor(name: str, *shape: int, packed: bool = True) -> None:
            values = random.normal(0, 0.1, shape).astype(np.float32)
            if name == drop:
                return
            if packed:
                kind = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(name, quantised(values), raw_dtype=kind)
            else:
                writer.add_tensor(name, values)

        tensor("token_embd.weight", len(TOKENS), WIDTH)
        if not tied:
            tensor("output.weight", len(TOKENS), WIDTH)
        for i in range(LAYERS):
            tensor(f"blk.{i}.attn_norm.weight", WIDTH, packed=False)
            tensor(f"blk.{i}.ffn_norm.weight", WIDTH, packed=False)
            tensor(f"blk.{i}.attn_q.weight", WIDTH, WIDTH)
            tensor(f"blk.{i}.attn_k.weight", WIDTH * KV_HEADS // HEADS, WIDTH)
            tensor(f"blk.{i}.attn_v.weight", WIDTH * KV_HEADS // HEADS, WIDTH, packed=False)
            tensor(f"blk.{i}.attn_output.weight", WIDTH, WIDTH)
            tensor(f"blk.{i}.ffn_gate.weight", FEED_FORWARD, WIDTH)
            tensor(f"blk.{i}.ffn_up.weight", FEED_FORWARD, WIDTH)
            tensor(f"blk.{i}.ffn_down.weight", WIDTH, FEED_FORWARD)
        tensor("output_norm.weight", WIDTH, packed=False)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "out"
    made.mkdir()
    return made


def load(place: Path, **options: Any) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32, **options)
    return model, AutoTokenizer.from_pretrained(place, **options)


def assert_same(source: Path, folder: Path, text: str) -> None:
    """The folder loads to what transformers makes of the GGUF, weight for weight."""
    import torch

    direct, direct_tokenizer = load(source.parent, gguf_file=source.name)
    cached, cached_tokenizer = load(folder)
    left, right = direct.state_dict(), cached.state_dict()
    assert set(left) == set(right)
    for name, tensor in left.items():
        assert right[name].dtype == torch.float32
        assert torch.equal(tensor, right[name]), name
    ids = direct_tokenizer(text)["input_ids"]
    assert ids == cached_tokenizer(text)["input_ids"]
    assert len(ids) > 1
    with torch.inference_mode():
        batch = torch.tensor([ids])
        assert torch.equal(direct(batch).logits, cached(batch).logits)


@pytest.mark.parametrize("tied", [True, False])
def test_every_weight_and_token_is_what_transformers_loads_itself(
    tiny_llama: Maker, folder: Path, tied: bool
) -> None:
    source = tiny_llama(tied=tied)
    dequantise(source, folder)
    assert_same(source, folder, "the three")


def test_quantised_values_are_the_gguf_packages_own(tiny_llama: Maker, folder: Path) -> None:
    from safetensors.numpy import load_file

    source = tiny_llama()
    dequantise(source, folder)
    written = load_file(folder / "model.safetensors")
    tensors = {t.name: t for t in gguf.GGUFReader(source).tensors}
    stored = tensors["blk.1.ffn_down.weight"]
    expected = gguf.dequantize(stored.data, stored.tensor_type)
    assert np.array_equal(written["model.layers.1.mlp.down_proj.weight"], expected)
    assert "lm_head.weight" not in written
    assert {v.dtype for v in written.values()} == {np.dtype(np.float32)}


def test_nothing_is_printed_and_progress_reaches_its_end(
    tiny_llama: Maker, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    told: list[tuple[int, int]] = []
    dequantise(tiny_llama(), folder, progress=lambda done, total: told.append((done, total)))
    assert capfd.readouterr() == ("", "")
    assert told == [(n, 22) for n in range(23)]
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_other_packages_are_as_they_were_afterwards(tiny_llama: Maker, folder: Path) -> None:
    reader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
    before = gguf.GGUFReader, gguf.get_tensor_name_map, reader.tqdm
    dequantise(tiny_llama(), folder)
    assert (gguf.GGUFReader, gguf.get_tensor_name_map, reader.tqdm) == before


def test_the_folder_does_not_point_back_at_the_gguf(tiny_llama: Maker, folder: Path) -> None:
    dequantise(tiny_llama(), folder)
    assert "quantization_config" not in (folder / "config.json").read_text()


def test_an_architecture_that_transformers_lacks_is_named(tiny_llama: Maker, folder: Path) -> None:
    with pytest.raises(ModelFileError, match="architecture 'plamo3'"):
        dequantise(tiny_llama(arch="plamo3"), folder)


def test_a_missing_tensor_is_not_left_to_chance(tiny_llama: Maker, folder: Path) -> None:
    with pytest.raises(ModelFileError, match=r"1 weights are not found, such as model\.layers\.1"):
        dequantise(tiny_llama(drop="blk.1.ffn_up.weight"), folder)


def test_a_damaged_file_is_a_gguf_error(tiny_llama: Maker, folder: Path) -> None:
    source = tiny_llama()
    source.write_bytes(source.read_bytes()[:-1000])
    with pytest.raises(GgufError, match="download it again"):
        dequantise(source, folder)


def test_a_missing_package_says_what_to_install(
    tiny_llama: Maker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    absent = lambda name, *rest: None if name == "gguf" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(MissingPartError, match=r'needs gguf.*pip install "ropewalk\[prove\]"'):
        dequantise(tiny_llama(), folder)


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """Writes past `size` bytes fail, as on a full disk (EFBIG in place of ENOSPC)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1000, 20000])
def test_a_full_disk_is_an_os_error(tiny_llama: Maker, folder: Path, size: int) -> None:
    source = tiny_llama()
    with files_at_most(size), pytest.raises(OSError, match="too large"):
        dequantise(source, folder)


def test_a_gguf_that_is_loaded_is_dequantised_once(tiny_llama: Maker, own_cache: Path) -> None:
    source = resolve(str(tiny_llama()))
    device, kind = check_device("cpu", "fp32")
    said: list[str] = []
    shares: list[tuple[int, int]] = []
    for _ in range(2):
        loaded = load_model(
            source, device=device, dtype=kind, say=said.append,
            share=lambda done, total: shares.append((done, total)),
        )  # fmt: skip
    assert said == ["dequantising, once", "loading the weights", "loading the weights"]
    tensors = len(gguf.GGUFReader(source.path).tensors)
    assert tensors > 2 * LAYERS
    assert shares[-1][0] == shares[-1][1] >= tensors
    assert len(loaded.identity) == 64
    assert len(list((own_cache / "weights").iterdir())) == 1


@pytest.mark.heavy
def test_a_real_model_is_the_same_from_its_folder(smollm2_gguf: Path, folder: Path) -> None:
    dequantise(smollm2_gguf, folder)
    assert_same(smollm2_gguf, folder, "The ropewalk lays strands into rope.")
