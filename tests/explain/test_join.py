"""What leaks from one document into the next: nothing with a mask, much without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ropewalk.errors import UsageError
from ropewalk.explain.join import WAYS, DocumentPair, draw_pairs, measure_join
from ropewalk.report.join_text import join_json, join_lines

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

Tiny = Callable[..., Any]
OWN = DocumentPair("The harbour lay still at noon.", "The miller of the town keeps a white horse.")


def test_pairs_contradict_each_other_and_are_the_same_for_a_seed() -> None:
    pairs = draw_pairs(20, 3)
    assert pairs == draw_pairs(20, 3) != draw_pairs(20, 4)
    for pair in pairs:
        assert pair.value_a is not None
        assert pair.value_b is not None
        assert pair.value_a in pair.a
        assert pair.value_a not in pair.b
        assert pair.value_b in pair.b
        assert pair.value_b not in pair.a


@pytest.mark.model
def test_smollm2_is_told_by_a_of_b_unless_a_mask_hides_it(smollm2: LoadedModel) -> None:
    join = measure_join(smollm2.model, smollm2.tokenizer, draw_pairs(2, 0))
    nothing, boundary, reset, mask = join.readings
    assert [reading.way for reading in join.readings] == list(WAYS)
    # The mask gives what B alone gives.
    assert mask.most < 1e-4
    assert mask.value_a == pytest.approx(join.alone.value_a, abs=1e-4)
    assert mask.loss == pytest.approx(join.alone.loss, abs=1e-4)
    # Without it A's value gains on B's, and every logit moves.
    assert join.alone.value_a is not None
    for reading in (nothing, boundary, reset):
        assert reading.mean > 0.5
        assert reading.most > 5
        assert reading.value_a is not None
        assert reading.value_a > join.alone.value_a + 0.5
    lines = list(join_lines("SmolLM2", join))
    assert all(len(line) <= 80 for line in lines)
    assert any("Nothing but the mask" in line for line in lines)


@pytest.mark.parametrize("kind", ["bos", "bos-eos", "metaspace"])
def test_own_texts_are_read_alike_with_added_and_with_boolean_masks(
    tiny_model: Tiny, tiny_tokenizer: Callable[[str], Any], kind: str
) -> None:
    tokenizer = tiny_tokenizer(kind)
    join = measure_join(tiny_model("llama"), tokenizer, [OWN])
    eager = measure_join(tiny_model("llama", attn_implementation="eager"), tokenizer, [OWN])
    assert join.readings[-1].most < 1e-4
    assert join.readings[0].most > 1e-2
    for one, other in zip(join.readings, eager.readings, strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-4)
    assert any("loss of B" in line for line in join_lines("tiny", join))
    assert join_json("tiny", join)["tokens"] == len(tokenizer.tokenize(OWN.b))


def test_b_alone_is_what_the_model_gives_for_it(
    tiny_model: Tiny, tiny_tokenizer: Callable[[str], Any]
) -> None:
    # With BOS before it, as the tokenizer gives it; the loss by transformers' own reckoning.
    model, tokenizer = tiny_model("llama"), tiny_tokenizer("bos")
    ids = torch.tensor([tokenizer(OWN.b)["input_ids"]])
    labels = ids.clone()
    labels[0, :2] = -100
    alone = measure_join(model, tokenizer, [OWN]).alone
    assert alone.loss == pytest.approx(float(model(ids, labels=labels).loss), abs=1e-5)


def test_values_of_several_tokens_are_read_token_by_token(
    tiny_model: Tiny, tiny_tokenizer: Callable[[str], Any]
) -> None:
    model, tokenizer = tiny_model("llama"), tiny_tokenizer("bos")
    pair = replace(OWN, value_a="harbours", value_b="windmills")
    whole = torch.tensor([tokenizer(f"{OWN.b} windmills")["input_ids"]])
    begin = len(tokenizer(OWN.b)["input_ids"])
    assert whole.shape[1] - begin > 1
    chances = model(whole).logits[0].log_softmax(-1)
    expected = sum(float(chances[i - 1, whole[0, i]]) for i in range(begin, whole.shape[1]))
    found = measure_join(model, tokenizer, [pair]).alone.value_b
    assert found == pytest.approx(expected, abs=1e-4)


def test_what_cannot_be_joined_is_refused(
    tiny_model: Tiny, tiny_tokenizer: Callable[[str], Any]
) -> None:
    model, tokenizer = tiny_model("llama"), tiny_tokenizer("bos")
    with pytest.raises(UsageError, match="0 pairs"):
        draw_pairs(0, 0)
    with pytest.raises(UsageError, match="no pair of documents"):
        measure_join(model, tokenizer, [])
    with pytest.raises(UsageError, match="one of the two documents is empty"):
        measure_join(model, tokenizer, [DocumentPair("", "b")])
    with pytest.raises(UsageError, match="begin with the same token"):
        measure_join(model, tokenizer, [replace(OWN, value_a="sea", value_b="sea")])
