"""Loss by position against a loop that computes each token's loss alone, without a cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ropewalk.errors import LengthError
from ropewalk.models.load import LoadedModel
from ropewalk.proof.loss_by_position import (
    Evaluation,
    Reader,
    context_gain,
    copy_probe,
    evaluate,
    shift_probe,
    whole,
    windows,
)
from ropewalk.proof.loss_run import generated
from ropewalk.proof.tokens import Tokens


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def ids() -> list[int]:
    return torch.randint(0, 96, (60,), generator=torch.Generator().manual_seed(1)).tolist()


def alone(model: Any, before: list[int], token: int) -> float:
    """What `token` costs after `before`, read in one call of its own."""
    with torch.inference_mode():
        scores = model(input_ids=torch.tensor([before]), use_cache=False).logits[0, -1]
    return float(-scores.double().log_softmax(-1)[token])


@pytest.mark.parametrize("chunk", [1, 7, 59, 256])
def test_every_loss_of_a_whole_text_is_that_of_the_token_alone(
    model: Any, ids: list[int], chunk: int
) -> None:
    expected = [alone(model, ids[:i], ids[i]) for i in range(1, len(ids))]
    assert Reader(model, chunk=chunk).losses(ids) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("window", "stride"), [(16, 1), (16, 8), (16, 15), (13, 5)])
def test_every_loss_in_windows_is_that_of_the_token_after_its_window_alone(
    model: Any, ids: list[int], window: int, stride: int
) -> None:
    found = evaluate(Reader(model, chunk=9), ids, "sliding", window, stride)
    expected = []
    for token in range(1, len(ids)):
        # The window that scores this token ends at the first step of the stride behind it.
        end = window
        while end <= token:
            end += stride
        end = min(end, len(ids))
        expected.append(alone(model, ids[max(0, end - window) : token], ids[token]))
    assert found.losses == pytest.approx(tuple(expected), abs=1e-5)


@pytest.mark.parametrize(("count", "window", "stride"), [(100, 10, 9), (100, 10, 3), (7, 20, 5)])
def test_windows_score_every_token_but_the_first_once(count: int, window: int, stride: int) -> None:
    scored = [t for _, end, first in windows(count, window, stride) for t in range(first, end)]
    assert scored == list(range(1, count))
    for start, end, first in windows(count, window, stride):
        assert end - start <= window
        # At least window - stride tokens stand before what is scored, but at the very start.
        assert start == 0 or first - start >= window - stride


@pytest.mark.parametrize(("window", "stride"), [(8, 0), (8, 8), (8, 9)])
def test_impossible_strides_are_refused(window: int, stride: int) -> None:
    with pytest.raises(LengthError, match="below the window"):
        list(windows(100, window, stride))


def test_one_token_has_no_loss(model: Any) -> None:
    with pytest.raises(LengthError, match="at least 2 tokens"):
        Reader(model).losses([5])
    with pytest.raises(LengthError, match="1 tokens"):
        list(windows(1, 8, 4))


def test_means_weigh_tokens_and_not_windows_or_buckets() -> None:
    found = Evaluation("full", 300, 300, tuple(float(i) for i in range(299)))
    buckets = found.buckets()
    assert [(b.start, b.end) for b in buckets] == [(1, 64), (64, 128), (128, 256), (256, 300)]
    assert found.mean == pytest.approx(149.0)
    assert sum(b.mean * b.tokens for b in buckets) / 299 == pytest.approx(found.mean)


def test_what_the_whole_text_saves_is_counted_beyond_the_window_only() -> None:
    full = Evaluation("full", 8, 8, (9.0, 9.0, 1.0, 0.5, 3.0))
    cut = Evaluation("sliding", 3, 1, (9.0, 9.0, 1.0, 4.5, 9.0))
    gain = context_gain(full, cut)
    assert gain is not None
    # Tokens 3, 4 and 5; the last saves 6 nats but costs 3 still, and is no key token.
    assert (gain.tokens, gain.key_tokens) == (3, 1)
    assert gain.mean == pytest.approx(10 / 3)
    assert gain.key_perplexity == pytest.approx(2.718281828**0.5)
    assert context_gain(full, Evaluation("sliding", 9, 4, cut.losses)) is None


def test_a_rotary_model_reads_a_passage_alike_at_every_offset(model: Any, ids: list[int]) -> None:
    shifts = shift_probe(Reader(model, chunk=11), ids[:20], (0, 100, 400))
    assert [shift.offset for shift in shifts] == [0, 100, 400]
    assert {round(shift.mean, 4) for shift in shifts} == {round(shifts[0].mean, 4)}


def test_the_length_is_told_before_reading(model: Any, ids: list[int]) -> None:
    told: list[int] = []
    shift_probe(Reader(model, told.append), ids[:20], (0, 100))
    assert told == [20, 120]


def test_distances_that_passage_and_filler_cannot_make_are_refused(model: Any) -> None:
    for distance in (3, 15):
        with pytest.raises(LengthError, match="4 to 14 can be"):
            copy_probe(Reader(model), [1, 2, 3, 4], list(range(10)), [distance])


def test_a_real_model_repeats_a_passage_at_almost_no_cost(smollm2: LoadedModel) -> None:
    tokens = Tokens(smollm2.tokenizer)
    passage, filler = generated(tokens, 32, "passage"), generated(tokens, 128, "filler")
    (copy,) = copy_probe(Reader(smollm2.model), passage, filler, [96])
    assert copy.first > 2.0
    # Where the copy begins the model cannot know yet; after some tokens it does.
    assert copy.again < copy.first / 10
    full = whole(Reader(smollm2.model, chunk=50), filler)
    assert full.losses[40] == pytest.approx(alone(smollm2.model, filler[:41], filler[41]), abs=1e-3)


def test_generated_text_is_as_long_as_asked_and_the_same_for_a_seed(smollm2: LoadedModel) -> None:
    tokens = Tokens(smollm2.tokenizer)
    first = generated(tokens, 300, "0/loss")
    assert len(first) == 300
    assert first == generated(tokens, 300, "0/loss")
    assert first != generated(tokens, 300, "1/loss")
    # A longer text begins with the shorter one.
    assert generated(tokens, 700, "0/loss")[:280] == first[:280]


def behind(model: Any, opening: list[int], text: list[int]) -> list[float]:
    """What transformers says that each token of `text` costs behind the opening, in one call."""
    ids = torch.tensor([[*opening, *text]])
    with torch.inference_mode():
        scores = model(input_ids=ids, use_cache=False).logits[0]
    lost = torch.nn.functional.cross_entropy(scores[:-1], ids[0, 1:], reduction="none")
    return lost[len(opening) - 1 :].tolist() if opening else lost.tolist()


@pytest.mark.parametrize("opening", [[3], [3, 90], []])
@pytest.mark.parametrize(("window", "stride"), [(16, 8), (16, 14), (13, 5), (80, 3)])
def test_every_window_is_read_behind_the_opening_as_a_plain_loop_does(
    model: Any, ids: list[int], opening: list[int], window: int, stride: int
) -> None:
    reader = Reader(model, chunk=9, opening=opening)
    found = evaluate(reader, ids, "sliding", window, stride)
    room = window - len(opening)
    expected = behind(model, opening, ids[:room])
    end = min(room, len(ids))
    while end < len(ids):
        scored, end = end, min(end + stride, len(ids))
        expected += behind(model, opening, ids[end - room : end])[scored - end :]
    assert found.losses == pytest.approx(tuple(expected), abs=1e-5)
    assert whole(reader, ids).losses == pytest.approx(tuple(behind(model, opening, ids)), abs=1e-5)
    # All of the text has a loss behind an opening, and none of the opening itself.
    assert len(found.losses) == len(ids) - (not opening)
    first, last = found.buckets()[0], found.buckets()[-1]
    assert (first.start, last.end) == (max(1, len(opening)), len(opening) + len(ids))


@pytest.mark.parametrize("opening", [0, 1, 2, 5])
def test_windows_with_an_opening_score_each_token_once_and_never_exceed_their_size(
    opening: int,
) -> None:
    for count, window in ((40, 8), (3, 8), (7, 8), (8, 8)):
        for stride in range(1, 8 - max(1, opening) + 1):
            held = list(windows(count, window, stride, opening))
            scored = [token for _, end, first in held for token in range(first, end)]
            assert scored == list(range(0 if opening else 1, count))
            assert all(opening + end - start <= window for start, end, _ in held)
        with pytest.raises(LengthError, match=f"so 1 to {8 - max(1, opening)}"):
            list(windows(count, window, 8 - max(1, opening) + 1, opening))
    with pytest.raises(LengthError, match="holds nothing but the 8"):
        list(windows(40, 8, 1, 8))


def test_probes_read_the_opening_once_and_at_the_very_beginning(model: Any, ids: list[int]) -> None:
    reader = Reader(model, chunk=11, opening=[3])
    passage, filler = ids[:12], ids[12:]
    (copy,) = copy_probe(reader, passage, filler, [30])
    expected = behind(model, [3], [*passage, *filler[:18], *passage])
    assert copy.first == pytest.approx(sum(expected[1:12]) / 11, abs=1e-5)
    assert copy.again == pytest.approx(sum(expected[31:]) / 11, abs=1e-5)
    (shift,) = shift_probe(reader, passage, (0,))
    assert shift.mean == pytest.approx(sum(behind(model, [3], passage)) / 12, abs=1e-5)
