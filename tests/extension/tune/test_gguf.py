"""A GGUF file as the checkpoint: trained from the weights in it, written as a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from ropewalk.errors import ModelFileError
from ropewalk.extension.tune.session import tune
from ropewalk.extension.tune.training_settings import TuneSettings

LAYERS, WIDTH, HEADS, KV_HEADS = 2, 48, 4, 2


def _pairs_together(weight: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """llama.cpp rotates neighbours, transformers halves of a head: rows are put in that order."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def _write(
    checkpoint: Path,
    path: Path,
    freqs: np.ndarray[Any, Any] | None = None,
    *,
    bos: bool | None = None,
) -> Path:
    """The llama of `checkpoint` as llama.cpp has it, its weights in float32."""
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    weights = load_file(checkpoint / "model.safetensors")
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    merges = tokenizer.backend_tokenizer.to_str()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    # transformers gives every such tokenizer this token, and would add a row for it.
    tokens[2] = "<|endoftext|>"
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges([" ".join(pair) for pair in _merges(merges)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if bos is not None:
        writer.add_add_bos_token(bos)
    for name, weight in weights.items():
        if "q_proj" in name:
            weight = _pairs_together(weight, HEADS)
        if "k_proj" in name:
            weight = _pairs_together(weight, KV_HEADS)
        found = names.get_name(name, try_suffixes=(".weight",))
        assert found is not None
        writer.add_tensor(found, np.ascontiguousarray(weight))
    if freqs is not None:
        writer.add_tensor("rope_freqs.weight", freqs)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _merges(tokenizer: str) -> list[tuple[str, str]]:
    import json

    return [tuple(pair) for pair in json.loads(tokenizer)["model"]["merges"]]


def test_a_gguf_is_trained_as_the_folder_that_it_was_made_from(
    settings: Callable[..., TuneSettings], checkpoint: Path, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM

    file = _write(checkpoint, tmp_path / "model.gguf")
    before = file.read_bytes()
    done, folder = (
        tune(settings(model=str(model), out=tmp_path / name, steps=2))
        for name, model in (("from-gguf", file), ("from-folder", checkpoint))
    )
    assert done is not None
    assert folder is not None
    wanted = [each.loss for each in folder.steps]
    assert [each.loss for each in done.steps] == pytest.approx(wanted, abs=1e-5)
    assert file.read_bytes() == before
    tuned: Any = AutoModelForCausalLM.from_pretrained(done.model, dtype=torch.float32)
    other: Any = AutoModelForCausalLM.from_pretrained(folder.model, dtype=torch.float32)
    ids = torch.arange(2, 30)[None]
    with torch.no_grad():
        torch.testing.assert_close(tuned(ids).logits, other(ids).logits, atol=1e-3, rtol=1e-3)


def test_a_gguf_with_divisors_of_its_own_is_refused_before_anything_is_measured(
    settings: Callable[..., TuneSettings], checkpoint: Path, tmp_path: Path
) -> None:
    freqs = np.linspace(1, 4, WIDTH // HEADS // 2, dtype=np.float32)
    file = _write(checkpoint, tmp_path / "model.gguf", freqs)
    asked = settings(model=str(file))
    with pytest.raises(
        ModelFileError, match="rotate otherwise; give the model's Hugging Face folde"
    ):
        tune(asked)
    assert not (asked.out / "run.json").exists()


@pytest.mark.parametrize(("bos", "opening"), [(True, (0,)), (False, ()), (None, ())])
def test_short_text_of_a_gguf_begins_as_its_add_bos_token_says(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bos: bool | None,
    opening: tuple[int, ...],
) -> None:
    """`tokenizer.ggml.add_bos_token`, which llama.cpp goes by, and which no folder has."""
    from ropewalk.extension.tune.gate import ShortText
    from ropewalk.models.load import load
    from ropewalk.models.resolve import resolve

    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path / "cache"))
    files = resolve(str(_write(checkpoint, tmp_path / "model.gguf", bos=bos)))
    loaded = load(files, device=torch.device("cpu"), dtype=torch.float32)
    assert ShortText.of(loaded.tokenizer, None, None).opening == opening
