"""What may be asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.errors import LengthError, UsageError
from ropewalk.extension.tune.optimiser import rate
from ropewalk.extension.tune.training_settings import Mix, TuneSettings, parse_mix


def test_steps_of_a_mix_come_in_its_shares_with_equal_tokens() -> None:
    mix = parse_mix("4k:3,1024:1")
    lengths = [mix.at(step) for step in range(400)]
    assert lengths.count(4096) == 300
    assert lengths.count(1024) == 100
    assert lengths[:4].count(1024) == 1
    assert {length * mix.rows(length, 2) for length in lengths} == {8192}
    assert parse_mix("512") == Mix((512,), (1,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1", "--length 1 is impossible: a row needs 2 tokens"),
        ("0", "--length 0 is impossible"),
        ("64,64", "names a length twice"),
        ("4096:3,1000:1", "1000 does not divide 4096"),
        ("64:0,32:1", "weight of 0"),
        ("long", "is not understood"),
        ("64:-1", "is not understood"),
    ],
)
def test_lengths_that_cannot_be_are_one_sentence(text: str, words: str) -> None:
    with pytest.raises(LengthError, match=words):
        parse_mix(text)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context_parallel": 2}, "rows cut over several processes are not trained on yet"),
        ({"steps": 0}, "--steps 0 is impossible"),
        ({"lr": float("nan")}, "--lr nan is impossible"),
        ({"lr": 0.0}, "--lr 0 is impossible"),
        ({"warmup": 9}, "--warmup 9 is longer than the 4 steps"),
        ({"lora": 0}, "--lora 0 is impossible"),
        ({"gate": -0.1}, "--gate -0.1 is impossible"),
        ({"dtype": "fp16"}, "--dtype fp16 trains to nothing: .* choose one of auto, bf16, fp32"),
        ({"dtype": "float32"}, "choose one of auto, bf16, fp32"),
        ({"positions": "again"}, "choose one of reset, document, running"),
    ],
)
def test_settings_that_cannot_be_are_one_sentence(
    settings: Callable[..., TuneSettings], changes: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        settings(**changes).check()


def test_the_rate_rises_in_a_line_and_falls_to_its_end(
    settings: Callable[..., TuneSettings],
) -> None:
    chosen = settings(steps=10, warmup=4, lr=1.0, lr_end=0.1, decay="linear")
    rates = [rate(step, chosen) for step in range(10)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    # From 1.0 by 0.15 a step, to 0.1 after six.
    assert rates[4:] == pytest.approx([0.85, 0.7, 0.55, 0.4, 0.25, 0.1])
    cosine = settings(steps=10, warmup=4, lr=1.0, lr_end=0.0, decay="cosine")
    assert rate(6, cosine) == pytest.approx(0.5)
    assert rate(9, cosine) == pytest.approx(0.0)
    assert rate(9, settings(steps=10, warmup=0, lr=1.0, decay="constant")) == 1.0
