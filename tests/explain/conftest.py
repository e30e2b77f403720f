"""Small random models of several families, and a tokenizer of whole words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Build = Callable[..., Any]

SMALL: dict[str, Any] = {
    "hidden_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 97,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}


class WordTokenizer:
    """Whole words to ids by their letters; as much of a tokenizer as a trace asks for."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": [2 + sum(map(ord, word)) % 90 for word in text.split()]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"word{i}" for i in ids]


@pytest.fixture(scope="session")
def words() -> WordTokenizer:
    return WordTokenizer()


@pytest.fixture
def build() -> Build:
    """build(model_type, **keys): a model without a head, in fp32, no two weights alike."""

    def make(model_type: str, **keys: Any) -> Any:
        import torch
        from transformers import AutoConfig, AutoModel

        torch.manual_seed(0)
        config = AutoConfig.for_model(model_type, **{**SMALL, **keys})
        model = AutoModel.from_config(config).eval().requires_grad_(False)
        for parameter in model.parameters():
            # Also biases and norms, which start at 0 and 1.
            parameter.add_(torch.randn_like(parameter) * 0.1)
        return model

    return make
