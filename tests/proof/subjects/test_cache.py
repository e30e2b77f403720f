"""The in-place cache held against transformers' own caches and against passes without one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BambaConfig
from transformers.cache_utils import DynamicCache

from ropewalk.errors import LengthError, ModelFileError
from ropewalk.proof.subjects.cache import InPlaceCache, InPlaceLayer, InPlaceWindowLayer

WINDOW = 8


def states(tokens: int, heads: int = 2, width: int = 4, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.randn(1, heads, tokens, width).to(dtype)


def called(model: Any, ids: torch.Tensor, cache: Any) -> torch.Tensor:
    """Logits of every token, behind what the cache holds."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    with torch.inference_mode():
        logits: torch.Tensor = model(ids, use_cache=cache is not None, **{name: cache}).logits
    return logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_it_returns_what_concatenating_would(dtype: torch.dtype) -> None:
    layer, keys, values = InPlaceLayer(40), [], []
    for tokens in (5, 1, 7, 20):
        key, value = states(tokens, dtype=dtype), states(tokens, width=6, dtype=dtype)
        keys.append(key)
        values.append(value)
        got = layer.update(key, value)
        assert torch.equal(got[0], torch.cat(keys, -2))
        assert torch.equal(got[1], torch.cat(values, -2))
    assert layer.get_seq_length() == 33
    assert layer.keys.dtype is dtype


def test_nothing_is_copied_or_made_anew_while_there_is_room() -> None:
    layer = InPlaceLayer(64)
    layer.update(states(1), states(1))
    held = (layer.keys.data_ptr(), layer.values.data_ptr())
    for tokens in (30, 1, 1):
        views = layer.update(states(tokens), states(tokens))
        assert tuple(view.data_ptr() for view in views) == held
    layer.crop(-20)
    views = layer.update(states(3), states(3))
    assert tuple(view.data_ptr() for view in views) == held
    assert layer.nbytes() == 2 * 64 * 2 * 4 * 4


def test_after_a_crop_the_text_goes_on_as_if_nothing_had_been_there() -> None:
    layer, text, branch = InPlaceLayer(32), states(10), states(6)
    layer.update(text, text)
    layer.update(branch, branch)
    layer.crop(-6)
    other = states(4)
    keys, _ = layer.update(other, other)
    assert torch.equal(keys, torch.cat([text, other], -2))


def test_a_full_cache_is_an_error_until_more_is_reserved() -> None:
    layer, text = InPlaceLayer(8), states(8)
    layer.update(text, text)
    with pytest.raises(LengthError, match="room for 8 tokens cannot hold 9"):
        layer.update(states(1), states(1))
    assert layer.get_seq_length() == 8
    layer.reserve(9)
    one = states(1)
    assert torch.equal(layer.update(one, one)[0], torch.cat([text, one], -2))
    layer.reserve(3)
    assert layer.get_max_length() == 9


@pytest.mark.parametrize("tokens", [1, -11])
def test_a_crop_forward_or_beyond_the_beginning_is_an_error(tokens: int) -> None:
    layer = InPlaceLayer(32)
    layer.update(states(10), states(10))
    with pytest.raises(ValueError, match="give a number from -10 to 0"):
        layer.crop(tokens)


@pytest.mark.parametrize("sizes", [(3, 4, 9, 1, 1), (20, 1), (7, 1, 1, 6)])
def test_a_window_shows_what_transformers_would_have_kept(sizes: tuple[int, ...]) -> None:
    from transformers.cache_utils import DynamicSlidingWindowLayer

    ours, theirs = InPlaceWindowLayer(64, WINDOW), DynamicSlidingWindowLayer(WINDOW)
    for tokens in sizes:
        key = states(tokens)
        assert ours.get_mask_sizes(tokens) == theirs.get_mask_sizes(tokens)
        shown = ours.update(key, key)[0]
        kept = theirs.update(key, key)[0]
        assert torch.equal(shown, kept)


def test_a_window_goes_back_further_than_it_reaches() -> None:
    layer, text, more = InPlaceWindowLayer(64, WINDOW), states(20), states(30)
    layer.update(text, text)
    layer.update(more, more)
    layer.crop(-30)
    one = states(1)
    keys, _ = layer.update(one, one)
    assert torch.equal(keys, torch.cat([text[:, :, -WINDOW + 1 :], one], -2))


def test_places_of_queries_are_taken_where_transformers_gives_them_for_their_number() -> None:
    layer = InPlaceWindowLayer(64, WINDOW)
    layer.update(states(20), states(20))
    assert layer.get_mask_sizes(torch.arange(20, 25)) == layer.get_mask_sizes(5)
    assert layer.get_max_cache_shape() == layer.get_max_length() == 64


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_branches_off_one_text_are_what_each_would_be_by_itself(
    kind: str, tiny_model: Callable[..., Any]
) -> None:
    """The outside truth is a pass without any cache; the window of 8 is far exceeded."""
    changes = {"sliding_window": WINDOW, "num_hidden_layers": 6} if kind == "gemma3" else {}
    model = tiny_model(kind, **changes)
    cache = InPlaceCache.for_model(model, 80)
    assert set(cache.windows()) == ({None, WINDOW} if kind == "gemma3" else {None})
    text = torch.randint(1200, (1, 50))
    for begin, end in ((0, 30), (30, 50)):
        called(model, text[:, begin:end], cache)
    for size in (3, 20, 1):
        branch = torch.randint(1200, (1, size))
        got = called(model, branch, cache)
        alone = called(model, torch.cat([text, branch], 1), None)[:, -size:]
        assert float((got - alone).abs().max()) < 1e-4
        cache.crop_to(50)
    assert cache.length == 50


def test_a_pass_that_broke_off_half_way_is_forgotten_whole(tiny_model: Callable[..., Any]) -> None:
    model = tiny_model()
    cache = InPlaceCache.for_model(model, 40)
    text = torch.randint(1200, (1, 10))
    called(model, text, cache)
    layers: list[Any] = cache.layers
    with torch.inference_mode():
        layers[0].update(states(5, width=12), states(5, width=12))
    cache.crop_to(10)
    assert {layer.get_seq_length() for layer in layers} == {10}


class _Copies(TorchDispatchMode):
    """Notes how many values each copying operation writes."""

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("clone", "cat", "_to_copy", "copy_", "contiguous"):
            self.largest = max(self.largest, out.numel())
        return out


def test_attention_reads_the_views_without_a_copy() -> None:
    layer, tokens = InPlaceLayer(4000), 3000
    layer.update(states(tokens), states(tokens))
    one = states(1)
    keys, values = layer.update(one, one)
    with _Copies() as ours, torch.inference_mode():
        torch.nn.functional.scaled_dot_product_attention(states(1), keys, values)
    assert not keys.is_contiguous()
    assert ours.largest < tokens


def test_transformers_own_cache_copies_all_that_is_kept_at_every_token(
    tiny_model: Callable[..., Any],
) -> None:
    """What the in-place cache is for, and that the counting above can see a copy."""
    model = tiny_model()
    text, one = torch.randint(1200, (1, 600)), torch.randint(1200, (1, 1))
    largest = {}
    for name, cache in (
        ("ours", InPlaceCache.for_model(model, 700)),
        ("theirs", DynamicCache(config=model.config)),
    ):
        called(model, text, cache)
        with _Copies() as seen:
            called(model, one, cache)
        largest[name] = seen.largest
    assert largest["theirs"] >= 600 * 2 * 12
    assert largest["ours"] < 600 * 2 * 12


def test_a_recurrent_state_cannot_go_back_and_is_refused() -> None:
    config = BambaConfig(num_hidden_layers=2, attn_layer_indices=[1])
    with pytest.raises(ModelFileError, match="cannot be taken back to an earlier token"):
        InPlaceCache.for_model(SimpleNamespace(config=config), 10)
