"""Small models of random weights, as transformers saves them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SaveModel = Callable[..., Path]
BuildModel = Callable[..., Any]

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 257,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, so that the user's is not touched."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("ROPEWALK_CACHE", str(cache))
    return cache


@pytest.fixture
def build() -> BuildModel:
    """build(model_type, **keys): a causal model of random weights in fp32, the same every time."""

    def make(model_type: str = "llama", **keys: Any) -> Any:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        torch.manual_seed(0)
        # Weights large enough for positions to show in the logits.
        config = AutoConfig.for_model(model_type, initializer_range=0.1, **{**SMALL, **keys})
        return AutoModelForCausalLM.from_config(config).eval()

    return make


@pytest.fixture
def save(tmp_path: Path) -> SaveModel:
    """save(model, name): its folder, with a tokenizer of bytes."""

    def write(model: Any, name: str = "tiny") -> Path:
        folder = tmp_path / name
        model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
        return folder

    return write


def byte_tokenizer() -> Any:
    """256 bytes and an end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")  # noqa: S106
