"""The lesson of a comparison, in words, on planted losses and hits."""

from __future__ import annotations

import pytest

from ropewalk.comparison.figures import DecoderFigures, Recall, WindowLoss, WindowReading
from ropewalk.comparison.presets import Settings, Variant
from ropewalk.comparison.run import Comparison
from ropewalk.report.lesson import lesson

ALIBI, NONE = Variant("alibi"), Variant("none")


def _figures(variant: Variant, seed: int, loss: float, near: int, far: int) -> DecoderFigures:
    losses = tuple(
        WindowLoss(kind, window, 16, 100, mean, None, 0)
        for kind in ("sliding", "non-overlapping")
        for window, mean in ((64, 2.5), (256, loss))
    )
    recalls = (Recall(64, 56, near, 100), Recall(256, 224, far, 100), Recall(256, 32, 100, 100))
    reading = WindowReading(losses, recalls)
    return DecoderFigures(variant.name, seed, 1, 0, "", "", (), 0.0, reading, (), (), {})


def _lesson(**far: tuple[float, int]) -> str:
    """What is said of encodings with this loss and these hits of 100 at 256 tokens, two seeds."""
    variants = tuple(Variant(each) for each in far)  # type: ignore[arg-type]
    settings = Settings(variants=variants, seeds=(0, 1), steps=1)
    kept = tuple(
        _figures(variant, seed, loss + 0.001 * seed, 98, hits)
        for variant, (loss, hits) in zip(variants, far.values(), strict=True)
        for seed in (0, 1)
    )
    return lesson(Comparison(settings, kept, {}, "", 0))


@pytest.mark.parametrize(
    ("hits", "verdict"),
    [
        (12, "not beyond chance. Flat"),
        (50, "less than within its length, which its loss does not show."),
        (98, "more than chance, which its loss does not show."),
    ],
)
def test_hits_far_away_are_held_against_chance_and_against_hits_nearby(
    hits: int, verdict: str
) -> None:
    said = _lesson(alibi=(2.5, hits))
    assert verdict in said
    assert "window of 64 it recalls 196 of 200 (95 % 95% to 99%), of those" in said
    assert f"first eighth of 256 {2 * hits} of 200 (95 % " in said
    assert said.endswith("Flat loss does not prove use of distant text.")


def test_an_encoding_of_higher_loss_that_recalls_more_is_named() -> None:
    said = _lesson(alibi=(2.5, 50), none=(3.2, 97), t5=(3.4, 80))
    assert said.endswith(
        "Nor does a higher one disprove it: none, whose sliding loss there is 3.200, recalls 194 "
        "of 200 (95 % 94% to 99%)."
    )


@pytest.mark.parametrize("other", [(2.4, 97), (3.2, 52)])
def test_one_of_lower_loss_or_of_as_many_hits_is_not(other: tuple[float, int]) -> None:
    assert "higher one" not in _lesson(alibi=(2.5, 50), none=other)


def test_without_alibi_there_is_no_lesson() -> None:
    assert _lesson(none=(3.2, 97)) == ""


def test_a_loss_that_rises_is_not_called_flat() -> None:
    for hits in (12, 50, 98):
        assert "lat loss" not in _lesson(alibi=(3.5, hits), none=(4.0, 98))
