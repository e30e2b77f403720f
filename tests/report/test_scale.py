"""The scale can be read by everyone, and lengths stand where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.report import scale

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
_PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
_DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]


def _linear(colour: str) -> np.ndarray:
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


def test_contrast_is_that_of_the_published_examples() -> None:
    assert scale.contrast("#000000", "#ffffff") == pytest.approx(21.0)
    # The lightest grey that passes AA on white.
    assert scale.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@given(st.floats(0, 1))
def test_every_field_has_ink_of_at_least_aa_contrast(share: float) -> None:
    background = scale.colour(share)
    assert scale.contrast(scale.ink(background), background) >= 4.5


@pytest.mark.parametrize("matrix", [_PROTANOPIA, _DEUTERANOPIA, np.eye(3).tolist()])
def test_no_two_steps_of_the_scale_look_alike_without_red_or_green(
    matrix: list[list[float]],
) -> None:
    seen = [np.array(matrix) @ _linear(scale.colour(share)) for share in (0, 0.25, 0.5, 0.75, 1)]
    for i, one in enumerate(seen):
        for other in seen[i + 1 :]:
            assert np.abs(one - other).max() > 0.1


def test_a_share_outside_0_to_1_is_refused() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, not 1\.5"):
        scale.colour(1.5)
