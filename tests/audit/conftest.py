"""Specs of published models, written by hand from their configuration files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.rope.scaling import UNSCALED, Scaling
from ropewalk.rope.spec import (
    Encoding,
    LayerGroup,
    Length,
    PositionSpec,
    Remark,
    Rotary,
    SoftmaxRule,
    Window,
)

MakeSpec = Callable[..., PositionSpec]


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec with one group of layers."""

    def make(
        encoding: Encoding | None = None,
        *,
        scaling: Scaling = UNSCALED,
        base: float = 1e4,
        claimed: int | None = 4096,
        trained: int | None = None,
        model_type: str = "llama",
        dim: int = 128,
        window: int | None = None,
        softmax: float = 1.0,
        others: tuple[Length, ...] = (),
        remarks: tuple[Remark, ...] = (),
        more: tuple[LayerGroup, ...] = (),
    ) -> PositionSpec:
        group = LayerGroup(
            "all layers",
            (0, 1),
            encoding or Rotary(dim, dim, base, scaling=scaling),
            None if window is None else Window(window),
            SoftmaxRule(factor=softmax),
        )
        return PositionSpec(
            model_type,
            "written by hand",
            (group, *more),
            Length.unknown() if trained is None else Length(trained, "original length"),
            Length.unknown("no length key") if claimed is None else Length(claimed, "max length"),
            others,
            remarks,
        )

    return make
