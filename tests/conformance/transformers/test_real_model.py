"""A real model with our rotary encoding in the place of its own gives its own logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.rope.spec import RotarySpec

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXT = (
    "The rope is laid in a long straight lane, strand by strand, and walked backwards as it "
    "twists. A dog bites a man; a man bites a dog. Which of the two is news depends on the order "
    "of the words alone, and a model that cannot tell their positions apart cannot tell which."
)


def put_in(model: Any, rotary: RotarySpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the model's layers rotate queries and keys by `rotary`, computed here."""
    from torch import nn
    from transformers.models.llama import modeling_llama

    from ropewalk.kernels import rotate
    from ropewalk.positions import Rotary as Encoding

    encoding = Encoding(rotary)

    class Adapter(nn.Module):
        """Where the model asks for cosines and sines, once a forward pass."""

        def forward(self, x: Any, position_ids: Any) -> Any:
            return encoding.tables(position_ids, length=x.shape[1])

    def apply(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> Any:
        assert unsqueeze_dim == 1
        return rotate(q, k, cos, sin, rotary.layout)

    monkeypatch.setitem(model.model._modules, "rotary_emb", Adapter())
    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", apply)


@pytest.mark.model
def test_logits_of_smollm2_stay_as_they_are(
    smollm2: Any, smollm2_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = smollm2.tokenizer(TEXT, return_tensors="pt").input_ids[:, :64]
    assert ids.shape[1] >= 60
    with torch.no_grad():
        theirs = smollm2.model(ids).logits
    ((_, rotary),) = read_gguf(smollm2_gguf).rotary_groups()
    # llama.cpp's order of the weights is interleaved; transformers reorders them as it loads.
    rotary = replace(rotary, layout="half")
    with monkeypatch.context() as patch, torch.no_grad():
        put_in(smollm2.model, rotary, patch)
        ours = smollm2.model(ids).logits
    assert (ours - theirs).abs().max() < 1e-4
    # Another base, or pairs dealt out otherwise, and the logits are not the model's.
    for wrong in (replace(rotary, rope_theta=10_000.0), replace(rotary, layout="interleaved")):
        with monkeypatch.context() as patch, torch.no_grad():
            put_in(smollm2.model, wrong, patch)
            assert (smollm2.model(ids).logits - theirs).abs().max() > 0.1
