"""accelerate_alibi: BLOOM, MPT and Falcon without matrices of biases, and the same logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.accelerate import alibi
from ropewalk.accelerate.alibi import accelerate_alibi
from ropewalk.errors import UsageError

FAMILIES = ("bloom", "mpt", "falcon")


def build(family: str, heads: int = 4, how: str | None = None, **keys: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    width = 16 * heads
    sizes: dict[str, dict[str, Any]] = {
        "bloom": {"hidden_size": width, "n_head": heads, "n_layer": 2},
        "mpt": {"d_model": width, "n_heads": heads, "n_layers": 2},
        "falcon": {
            "hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": 2,
            "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True,
        },
    }  # fmt: skip
    torch.manual_seed(0)
    given = {"vocab_size": 257, "initializer_range": 0.1, **sizes[family], **keys}
    config = AutoConfig.for_model(family, **given)
    return AutoModelForCausalLM.from_config(config, attn_implementation=how).eval()


def distance(theirs: Tensor, ours: Tensor) -> float:
    return float((theirs - ours).norm() / theirs.norm())


def some_ids(length: int) -> Tensor:
    return torch.randint(3, 257, (2, length), generator=torch.Generator().manual_seed(0))


def padded(ids: Tensor) -> Tensor:
    """A mask that has the first row begin with padding."""
    mask = torch.ones_like(ids)
    mask[0, : ids.shape[1] // 4] = 0
    return mask


def results(model: Any, length: int) -> dict[str, Tensor]:
    """What a model gives whole, left-padded, and with a cache of keys, padded or not."""
    ids, mask, given = some_ids(length), padded(some_ids(length)), {"use_cache": True}
    with torch.no_grad():
        first = model(ids[:, :-3], **given)
        first_padded = model(ids[:, :-3], attention_mask=mask[:, :-3], **given)
        return {
            "whole": model(ids).logits,
            "padded": model(ids, attention_mask=mask).logits[mask.bool()],
            "cached": model(ids[:, -3:], cache=first.cache).logits,
            "cached, padded": model(
                ids[:, -3:], attention_mask=mask, cache=first_padded.cache
            ).logits,
            "weights": model(ids, output_attentions=True).attentions[0],
        }


@pytest.mark.parametrize("heads", [4, 6])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_stay_whole_padded_and_cached(family: str, heads: int) -> None:
    model = build(family, heads)
    # Beyond 256 tokens the biases that Falcon rounds are no longer those of the formula.
    before = results(model, 400)
    with accelerate_alibi(model) as handle:
        assert handle.changed == 3
        after = results(model, 400)
    again = results(model, 400)
    for name, theirs in before.items():
        assert distance(theirs, after[name]) < 1e-5, name
        assert torch.equal(theirs, again[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_no_matrix_of_length_by_length_is_made(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    masks: list[Any] = []
    own = functional.scaled_dot_product_attention

    def attend(*args: Any, **kwargs: Any) -> Tensor:
        masks.append(kwargs.get("attn_mask"))
        return own(*args, **kwargs)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", attend)
    model, ids = build(family), some_ids(64)
    with accelerate_alibi(model), torch.no_grad():
        model(ids)
        model(ids, attention_mask=torch.ones_like(ids))
    assert masks == [None] * 4


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_what_is_generated_stays(family: str, cache: str) -> None:
    if (family, cache) == ("falcon", "static"):
        pytest.skip("transformers 5.24 itself fails there: too many values to unpack")
    model, ids = build(family), some_ids(40)
    settings: dict[str, Any] = {
        "attention_mask": padded(ids), "max_new_tokens": 6, "do_sample": False, "pad_token_id": 2,
        "cache_implementation": cache,
    }  # fmt: skip
    before = model.generate(ids, **settings)
    with accelerate_alibi(model):
        assert torch.equal(before, model.generate(ids, **settings))


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_model(family: str) -> None:
    dropout: dict[str, Any] = {"mpt": {}}.get(
        family, {"attention_dropout": 0.0, "hidden_dropout": 0.0}
    )
    model, ids = build(family, **dropout).train(), some_ids(40)

    def gradients() -> list[Tensor]:
        model.zero_grad()
        model(ids, labels=ids, use_cache=False).loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    before = gradients()
    model.activation_checkpointing_enable()
    with accelerate_alibi(model):
        after = gradients()
    # A bias on all keys shifts no weight, so its gradient is rounding alone.
    size = max(float(gradient.norm()) for gradient in before)
    for theirs, ours in zip(before, after, strict=True):
        assert float((theirs - ours).norm()) < 1e-5 * size


def test_dropout_on_the_weights_is_trained_as_before() -> None:
    model, ids = build("bloom", attention_dropout=0.3).train(), some_ids(40)
    torch.manual_seed(1)
    before = model(ids, use_cache=False).logits
    with accelerate_alibi(model):
        torch.manual_seed(1)
        assert torch.equal(before, model(ids, use_cache=False).logits)


def test_bf16_parts_by_no_more_than_its_rounding() -> None:
    model, ids = build("bloom"), some_ids(200)
    with torch.no_grad():
        exact = model(ids).logits
        theirs = model.bfloat16()(ids).logits.float()
        with accelerate_alibi(model):
            ours = model(ids).logits.float()
    assert distance(exact, ours) < 1.2 * distance(exact, theirs)


def test_falcon_by_eager_attention_adds_its_bias_twice_and_stays() -> None:
    model, ids = build("falcon", how="eager"), some_ids(40)
    with torch.no_grad():
        assert distance(build("falcon", how="sdpa")(ids).logits, model(ids).logits) > 1e-3
    handle = accelerate_alibi(model)
    assert handle.changed == 0
    assert "runs under attn_implementation='eager'" in str(handle)


def test_a_falcon_that_rotates_and_another_model_are_left_alone() -> None:
    assert "accelerate_rotary is for it" in str(accelerate_alibi(build("falcon", alibi=False)))
    other = accelerate_alibi(torch.nn.Linear(2, 2))
    assert str(other).endswith("This is no BLOOM, MPT or Falcon model; nothing is changed.")


def test_a_second_acceleration_is_refused() -> None:
    model = build("bloom")
    with accelerate_alibi(model), pytest.raises(UsageError, match="accelerated already"):
        accelerate_alibi(model)


def test_a_wrong_position_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = build("bloom"), some_ids(64)
    with torch.no_grad():
        before = model(ids).logits
    own: Callable[..., Tensor] = vars(alibi)["attention"]

    def shifted(*args: Any, position_ids: Tensor, **kwargs: Any) -> Tensor:
        return own(*args, position_ids=2 * position_ids, **kwargs)

    with accelerate_alibi(model), torch.no_grad():
        monkeypatch.setattr(alibi, "attention", shifted)
        assert distance(before, model(ids).logits) > 1e-3
