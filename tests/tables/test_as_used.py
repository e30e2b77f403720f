"""Rows as used are what enters the first block of the same model in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import UsageError
from ropewalk.tables.open import open_table

SMALL: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 24,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 12,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

SAID = {
    "llama": "as stored, for nothing in the configuration changes rows",
    "gemma": "times 4.89898 rounded to their dtype",
    "gemma2": "times 4.89898 rounded to their dtype",
    "gemma3_text": "times 4.89898 rounded to their dtype",
    "granite": "times 12",
    "bloom": "layer norm word_embeddings_layernorm, eps 1e-05",
    "nanochat": "RMS norm without weights, eps 1e-06",
    "modernbert": "layer norm embeddings.norm, eps 1e-05",
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", sorted(SAID))
def test_rows_as_used_enter_the_first_block(
    tmp_path: Path, family: str, dtype: torch.dtype
) -> None:
    from transformers import AutoConfig, AutoModel

    keys: dict[str, Any] = SMALL | ({"embedding_multiplier": 12.0} if family == "granite" else {})
    if family == "modernbert":
        keys = keys | {"cls_token_id": 1, "sep_token_id": 2}
    if family == "bloom":
        keys = keys | {"n_head": 2}
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **keys)
    model: Any = AutoModel.from_config(config, dtype=dtype).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path)
    seen: list[torch.Tensor] = []
    blocks = getattr(model, "layers", None) or model.h
    blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    ids = [3, 17, 39, 5]
    with torch.inference_mode():
        model(torch.tensor([ids]))
    used = open_table(tmp_path, view="as_used")
    raw = open_table(tmp_path)
    if dtype == torch.bfloat16 and family != "nanochat":
        torch.testing.assert_close(used[ids], seen[0][0], rtol=0.01, atol=0.01)
    else:
        torch.testing.assert_close(used[ids], seen[0][0])
    if "norm" not in SAID[family]:
        assert torch.equal(used[ids], seen[0][0])
    weight = model.get_input_embeddings().weight
    assert torch.equal(raw[ids], weight[ids])
    assert f", raw; read {raw.bytes_read}" in raw.line()
    assert f", as used: {SAID[family]}; read" in used.line()
    assert (used.view, raw.view, raw.transforms) == ("as_used", "raw", ())


def test_the_head_has_no_other_view(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {"lm_head.weight": torch.ones(3, 2), "wte.weight": torch.ones(3, 2)}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="the output table is used as it is stored"):
        open_table(tmp_path, "output", view="as_used")
