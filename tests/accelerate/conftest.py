"""Tiny models of random weights of as many types as transformers builds quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 257,
    "max_position_embeddings": 256,
    # Weights large enough for positions to show in the logits.
    "initializer_range": 0.1,
    "pad_token_id": 2,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "head_dim": 16,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "rotary_dim": 8,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 16,
}
"""Sizes under every name that configurations have for them; a class takes those that it knows."""

NOT_SET: tuple[dict[str, Any], ...] = (
    {},
    {"head_dim": None},
    {"num_key_value_heads": 4},
    {"head_dim": None, "num_key_value_heads": 4, "v_head_dim": None},
)
"""What is changed where the sizes above do not go together; None leaves a size at its default."""

REFUSALS = (
    RuntimeError, TypeError, ValueError, LookupError, AttributeError, ImportError, AssertionError,
    OSError,
    StrictDataclassError,
)  # fmt: skip
"""How a class refuses sizes that it isn't made for, or a package that it asks for."""

LARGEST = 3_000_000
"""Parameters; some types keep a tower of images whatever the sizes say."""


@dataclass(frozen=True, slots=True)
class Tiny:
    """A model with some input and the logits that it has for it."""

    model: Any
    ids: Tensor
    logits: Tensor

    def again(self, **given: Any) -> Tensor:
        """The logits that the model has now."""
        return logits_of(self.model, self.ids, **given)


BuildTiny = Callable[..., Tiny]


def logits_of(model: Any, ids: Tensor, **given: Any) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(ids, use_cache=False, **given).logits
    return logits


def attempt(model_type: str, **changes: Any) -> Tiny:
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    kind = CONFIG_MAPPING[model_type]
    default = kind()
    sizes = {k: v for k, v in {**BASE, **changes}.items() if hasattr(default, k) and v is not None}
    kinds = list(dict.fromkeys(getattr(default, "layer_types", None) or ()))
    if kinds and "layer_types" not in changes:
        sizes["layer_types"] = (kinds * 2)[: max(2, len(kinds))]
        sizes["num_hidden_layers"] = len(sizes["layer_types"])
    config = kind(**sizes)
    with torch.device("meta"):
        size = sum(p.numel() for p in AutoModelForCausalLM.from_config(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size} parameters, whatever the sizes say")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    ids = torch.randint(3, 200, (2, 11), generator=torch.Generator().manual_seed(1))
    logits = logits_of(model, ids)
    if not logits.isfinite().all():
        raise ValueError("logits are not finite")
    return Tiny(model, ids, logits)


@pytest.fixture(scope="session")
def tiny() -> BuildTiny:
    """tiny(model_type, **keys): a small model of that type. Raises ValueError if none is built."""

    def build(model_type: str, **keys: Any) -> Tiny:
        reasons = []
        for changes in NOT_SET:
            try:
                return attempt(model_type, **{**changes, **keys})
            except REFUSALS as error:
                reasons.append(f"{type(error).__name__}: {error}"[:100])
        raise ValueError(f"no small {model_type} could be built: {reasons}")

    return build
