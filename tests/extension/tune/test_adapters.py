"""Adapters: only they are trained, and merged they are the tuned model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.extension.tune.session import tune
from tests.extension.tune.test_session import losses, six


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")
def test_adapters_are_trained_and_nothing_else(
    checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    done = tune(six(checkpoint, documents, tmp_path / "out", lora=2, lr=1e-2))
    assert done is not None
    # Two layers; A and B of rank 2 at q, k, v, o (48->48, 24, 24, 48), gate, up and down (48, 64).
    linear = [(48, 48), (48, 24), (48, 24), (48, 48), (48, 64), (48, 64), (64, 48)]
    assert done.about["trained"] == 2 * sum(2 * (a + b) for a, b in linear)
    assert losses(done)[-1] < losses(done)[0]
    tuned, before = (load_file(folder / "model.safetensors") for folder in (done.model, checkpoint))
    same = {name for name in before if torch.equal(tuned[name], before[name])}
    assert same == {name for name in before if "norm" in name or "embed" in name}
    # The adapter beside it, on the model as it was, gives the merged model.
    assert done.adapter is not None
    plain_model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    adapted = PeftModel.from_pretrained(plain_model, done.adapter).eval()
    merged: Any = AutoModelForCausalLM.from_pretrained(done.model)
    ids = torch.arange(2, 30)[None]
    with torch.no_grad():
        torch.testing.assert_close(adapted(ids).logits, merged(ids).logits, atol=1e-4, rtol=1e-4)
