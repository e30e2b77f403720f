"""The rule for the published ordering, on planted results."""

from __future__ import annotations

import pytest

from ropewalk.comparison.figures import DecoderFigures, WindowLoss, WindowReading
from ropewalk.comparison.ordering import findings, interval

TRAINED = 32


def _loss(window: int, mean: float) -> WindowLoss:
    return WindowLoss("sliding", window, 8, 100, mean, None, 0)


def _reading(near: float, far: float | None, refusal: str = "") -> WindowReading:
    losses = [_loss(TRAINED, near)] + ([_loss(4 * TRAINED, far)] if far is not None else [])
    return WindowReading(tuple(losses), (), refusal)


def _figures(
    variant: str, seed: int, reading: WindowReading, **schedules: WindowReading
) -> DecoderFigures:
    return DecoderFigures(variant, seed, 1, 0, "", "", (), 0.0, reading, (), (), schedules)


def _published(seed: int, wobble: float = 0.0) -> list[DecoderFigures]:
    """Losses 3.0 at the trained length that grow as the published perplexities do."""
    return [
        _figures("sinusoidal", seed, _reading(3.0, 4.89 + wobble)),
        _figures("learned", seed, _reading(3.0, None, "the table has 32 positions")),
        _figures("rope", seed, _reading(3.0, 3.45 + wobble), yarn=_reading(3.0, 3.1),
                 linear=_reading(3.1, 3.3)),
        _figures("alibi", seed, _reading(3.0, 2.93)),
    ]  # fmt: skip


def _verdicts(figures: list[DecoderFigures]) -> list[str]:
    return [each.verdict for each in findings(figures, TRAINED)]


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_published_losses_are_the_published_ordering(seeds: int) -> None:
    figures = [each for seed in range(seeds) for each in _published(seed, 0.01 * seed)]
    assert _verdicts(figures) == ["reproduced"] * 5
    assert "yarn, the best of those tried" in findings(figures, TRAINED)[3].reason


@pytest.mark.parametrize(
    ("variant", "reading", "wrong"),
    [
        ("sinusoidal", _reading(3.0, 3.1), [0, 2]),
        ("learned", _reading(3.0, 3.0), [1]),
        ("rope", _reading(3.0, 3.0), [2, 3]),
        ("rope", _reading(3.0, 6.0), [2]),
        ("alibi", _reading(3.0, 3.3), [4]),
    ],
)
def test_what_does_not_hold_is_not_reproduced(
    variant: str, reading: WindowReading, wrong: list[int]
) -> None:
    figures = [
        _figures(variant, 0, reading, yarn=_reading(3.0, 3.1)) if each.variant == variant else each
        for each in _published(0)
    ]
    expected = ["not reproduced" if place in wrong else "reproduced" for place in range(5)]
    assert _verdicts(figures) == expected


def test_seeds_that_disagree_reproduce_nothing() -> None:
    figures = [each for seed in range(3) for each in _published(seed, 2.0 * (seed - 1))]
    assert _verdicts(figures)[0] == "not reproduced"


def test_what_was_not_trained_is_said_not_to_be_measured() -> None:
    assert _verdicts([_figures("none", 0, _reading(3.0, 3.0))]) == ["not measured"] * 5


def test_the_interval_is_students() -> None:
    found = interval([1.0, 2.0, 4.0])
    # Mean 7/3, deviation 1.5275, quantile 4.303 at 2 degrees of freedom.
    assert found.mean == pytest.approx(7 / 3)
    assert found.high - found.mean == pytest.approx(4.303 * 1.527525 / 3**0.5, rel=1e-5)
    assert interval([5.0]).low == 5.0
