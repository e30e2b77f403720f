"""The reference decoder: one model under every encoding, used the way transformers uses models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from ropewalk.decoder import Decoder, DecoderConfig, Position, register
from ropewalk.errors import ConfigError, PositionError, RowError, TensorError, UsageError
from ropewalk.packing.layout import Layout
from ropewalk.rope.schedules import DynamicNtk, LongRope, Scaling
from ropewalk.rope.spec import RotarySpec

EVERY = get_args(Position)


def _decoder(position: Position, *, reassert: bool = False, layers: int = 2) -> Any:
    torch.manual_seed(0)
    config = DecoderConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=layers, num_attention_heads=4,
        position=position, trained_length=48, reassert=reassert,
    )  # fmt: skip
    model: Any = Decoder(config)
    return model.eval().requires_grad_(False)


def _cache_field() -> str:
    """What the installed transformers calls a cache."""
    return "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(0, 64, (2, 20), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("position", EVERY)
@pytest.mark.parametrize("reassert", [False, True])
def test_reading_in_two_parts_is_reading_at_once(
    position: Position, reassert: bool, ids: Tensor
) -> None:
    model = _decoder(position, reassert=reassert)
    first = model(ids[:, :12], use_cache=True)
    cache = getattr(first, "cache", None) or first.past_key_values
    torch.testing.assert_close(
        model(ids[:, 12:], cache=cache).logits, model(ids).logits[:, 12:], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    "scaling",
    [DynamicNtk(2.0, 8), LongRope((1.0,) * 4, (3.0,) * 4, 8, 4.0)],
    ids=["ntk", "longrope"],
)
def test_a_schedule_that_moves_on_while_keys_are_cached_is_a_run_from_scratch(
    scaling: Scaling, ids: Tensor
) -> None:
    # One block: in a second one, what earlier tokens hold would come from earlier schedules.
    model = _decoder("rope", layers=1)
    model.set_rotary(RotarySpec(8, 8, 10_000.0, scaling=scaling))
    cache, seen = DynamicCache(config=model.config), 0
    for end in (5, 8, 9, 12, 20):
        stepped = model(ids[:, seen:end], cache=cache).logits[:, -1]
        model_at = _decoder("rope", layers=1)
        model_at.set_rotary(RotarySpec(8, 8, 10_000.0, scaling=scaling), end)
        torch.testing.assert_close(stepped, model_at(ids[:, :end]).logits[:, -1])
        seen = end
    plain = _decoder("rope", layers=1)(ids).logits[:, -1]
    assert (stepped - plain).abs().max() > 1e-3


@pytest.mark.parametrize("position", EVERY)
def test_generation_is_the_same_with_padding_before_the_prompt(
    position: Position, ids: Tensor
) -> None:
    model, prompt = _decoder(position), ids[:, :5]
    told = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    bare = model.generate(prompt, **told)
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.int64), prompt], dim=1)
    real = (torch.arange(8) >= 3).long().expand(2, -1)
    assert torch.equal(model.generate(padded, attention_mask=real, **told)[:, 8:], bare[:, 5:])
    # And what generation says is the most likely token each time, by reading everything anew.
    for end in range(5, 11):
        assert torch.equal(model(bare[:, :end]).logits[:, -1].argmax(-1), bare[:, end])


@pytest.mark.parametrize("position", EVERY)
def test_cached_keys_keep_the_positions_they_were_read_at(position: Position, ids: Tensor) -> None:
    model, places = _decoder(position), torch.arange(7, 27).expand(2, -1)
    whole = model(ids, position_ids=places).logits
    first = model(ids[:, :12], position_ids=places[:, :12], use_cache=True)
    second = model(ids[:, 12:], position_ids=places[:, 12:], cache=first[_cache_field()])
    torch.testing.assert_close(second.logits, whole[:, 12:], atol=1e-5, rtol=1e-5)


def test_padding_is_left_out_of_positions_that_are_not_given(ids: Tensor) -> None:
    model, real = _decoder("learned"), (torch.arange(23) >= 3).long().expand(2, -1)
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.int64), ids], dim=1)
    torch.testing.assert_close(
        model(padded, attention_mask=real).logits[:, 3:], model(ids).logits, atol=1e-5, rtol=1e-5
    )


def test_beams_are_what_reading_anew_finds(ids: Tensor) -> None:
    told = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "num_beams": 3}
    for position in ("learned", "rope", "alibi"):
        model = _decoder(position)
        with_cache = model.generate(ids[:, :6], **told)
        assert torch.equal(with_cache, model.generate(ids[:, :6], use_cache=False, **told))


def test_a_cache_of_unknown_positions_or_a_short_mask_is_refused(ids: Tensor) -> None:
    model = _decoder("rope")
    cache = model(ids[:, :12], use_cache=True)[_cache_field()]
    with pytest.raises(TensorError, match="attention_mask has shape"):
        model(ids[:, 12:], cache=cache, attention_mask=torch.zeros(2, 8))
    bare = DynamicCache(config=model.config)
    for layer, each in enumerate(cache.layers):
        bare.update(each.keys, each.values, layer)
    with pytest.raises(UsageError, match="go on with a cache that this decoder has filled"):
        model(ids[:, 12:], cache=bare)


def test_one_seed_gives_the_same_weights_under_every_encoding() -> None:
    def shared(position: Position) -> dict[str, Tensor]:
        held = _decoder(position).state_dict()
        return {name: each for name, each in held.items() if not name.startswith("position.")}

    expected = shared("none")
    for position in EVERY:
        found = shared(position)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("position", EVERY)
def test_packed_documents_are_read_as_if_alone(position: Position, ids: Tensor) -> None:
    model = _decoder(position)
    layout = Layout.of([9, 1, 10])
    row = ids[:1]
    packed = model(
        row, position_ids=layout.position_ids()[None], segment_ids=layout.segment_ids()[None]
    ).logits
    for start, size in zip(layout.starts, layout.seq_lens, strict=True):
        part = slice(start, start + size)
        torch.testing.assert_close(
            packed[:, part], model(row[:, part]).logits, atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("position", EVERY)
def test_a_saved_decoder_loads_through_the_auto_classes_with_its_head_tied(
    position: Position, ids: Tensor, tmp_path: Path
) -> None:
    register()
    model = _decoder(position)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert loaded.lm_head.weight is loaded.embed_tokens.weight
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("position", EVERY)
def test_order_matters_under_every_encoding_and_under_none_by_the_causal_mask_alone(
    position: Position, ids: Tensor
) -> None:
    model = _decoder(position, reassert=False)
    swapped = ids.clone()
    swapped[:, :2] = ids[:, [1, 0]]
    one, other = model(ids).logits[:, -1], model(swapped).logits[:, -1]
    assert (one - other).abs().max() > 1e-4


def test_a_learned_table_refuses_what_lies_beyond_it_and_others_go_on(ids: Tensor) -> None:
    long = ids.repeat(1, 4)
    with pytest.raises(PositionError, match="48 positions"):
        _decoder("learned")(long)
    for position in EVERY:
        if position != "learned":
            assert _decoder(position)(long).logits.isfinite().all()


def test_the_loss_is_the_cross_entropy_of_the_next_token(ids: Tensor) -> None:
    model = _decoder("rope")
    out = model(ids, labels=ids.masked_fill(torch.arange(20) < 3, -100))
    told = out.logits[:, 2:-1].log_softmax(-1)
    expected = -told.gather(-1, ids[:, 3:, None]).mean()
    torch.testing.assert_close(out.loss, expected)


def test_the_loss_over_a_number_of_items_is_the_sum_divided_by_it(ids: Tensor) -> None:
    model = _decoder("none")
    mean, summed = model(ids, labels=ids).loss, model(ids, labels=ids, num_items_in_batch=76).loss
    torch.testing.assert_close(mean * 38 / 76, summed)


def test_hidden_states_are_the_inputs_of_the_blocks_and_the_normed_end(ids: Tensor) -> None:
    model = _decoder("sinusoidal")
    states = model(ids, output_hidden_states=True).hidden_states
    assert len(states) == 3
    torch.testing.assert_close(model.lm_head(states[-1]), model(ids).logits)


def test_gradients_are_the_same_with_checkpointing(ids: Tensor) -> None:
    grads = []
    for on in (False, True):
        model = _decoder("alibi").train().requires_grad_(True)
        if on:
            model.activation_checkpointing_enable()
        model(ids, labels=ids).loss.backward()
        grads.append(model.embed_tokens.weight.grad)
    torch.testing.assert_close(grads[0], grads[1])


def test_parameters_differ_only_by_what_the_encoding_adds() -> None:
    counts = {p: sum(w.numel() for w in _decoder(p).parameters()) for p in EVERY}
    bare = counts["none"]
    assert counts["sinusoidal"] == counts["rope"] == counts["alibi"] == bare
    assert counts["learned"] - bare == 48 * 32
    assert counts["t5"] - bare == 32 * 4
    assert counts["raw_index"] - bare == 32 * 33


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "magic"}, "position 'magic' is not known"),
        ({"hidden_size": 30}, "hidden_size 30 does not divide over 4 heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"trained_length": -1}, "trained_length is -1"),
    ],
)
def test_configurations_that_make_no_model_are_refused(
    changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        DecoderConfig(**changes)  # type: ignore[arg-type]


def test_what_is_no_input_is_refused(ids: Tensor) -> None:
    model = _decoder("rope")
    with pytest.raises(UsageError, match="either input_ids or inputs_embeds"):
        model()
    with pytest.raises(RowError, match="the table has 64 rows"):
        model(ids + 60)


@pytest.mark.parametrize("position", EVERY)
@pytest.mark.parametrize("added", [False, True])
def test_a_mask_for_every_query_keeps_branches_behind_one_text_apart(
    position: Position, added: bool, ids: Tensor
) -> None:
    model, text, branches = _decoder(position), ids[:1, :8], (ids[:1, 8:12], ids[:1, 12:17])
    first = model(text, use_cache=True)
    cache = getattr(first, "cache", None) or first.past_key_values
    sizes = [branch.shape[1] for branch in branches]
    positions = torch.cat([8 + torch.arange(size) for size in sizes])[None]
    seen = torch.zeros(sum(sizes), 8 + sum(sizes), dtype=torch.bool)
    seen[:, :8] = True
    start = 0
    for size in sizes:
        seen[start : start + size, 8 + start : 8 + start + size] = True
        start += size
    mask = seen[None, None]
    if added:
        mask = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)
    both = model(
        torch.cat(branches, 1), attention_mask=mask, position_ids=positions, cache=cache
    ).logits
    start = 0
    for branch, size in zip(branches, sizes, strict=True):
        alone = model(torch.cat((text, branch), 1)).logits[:, 8:]
        torch.testing.assert_close(both[:, start : start + size], alone, atol=1e-5, rtol=1e-5)
        start += size


def test_a_mask_for_other_queries_is_refused(ids: Tensor) -> None:
    with pytest.raises(TensorError, match=r"\(batch, heads, 20, 20\)"):
        _decoder("rope")(ids, attention_mask=torch.ones(1, 1, 20, 19, dtype=torch.bool))
