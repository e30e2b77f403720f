"""Whether a model's tables hold equal copies is tried out on the module that makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ropewalk.accelerate.probe import TableTrials

BuildTiny = Callable[..., Any]


@pytest.mark.parametrize(
    ("model_type", "repeat"),
    [
        ("llama", "doubled"),
        ("cohere", "repeated"),
        ("gemma3_text", "doubled"),
        ("solar_open", "doubled"),
    ],
)
def test_the_copies_of_a_model_are_as_its_file_makes_them(
    model_type: str, repeat: Any, tiny: BuildTiny
) -> None:
    trials = TableTrials(tiny(model_type).model)
    other: Any = "repeated" if repeat == "doubled" else "doubled"
    assert trials.copies_are_equal("model.layers.0.self_attn", repeat)
    assert not trials.copies_are_equal("model.layers.0.self_attn", other)


class RotaryOfAxes(nn.Module):
    """Tables whose halves are equal for text, and go by axes of their own for images."""

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        first, second = position_ids[[0, -1]] if position_ids.dim() == 3 else [position_ids] * 2
        angles = torch.stack((first, second), dim=-1).to(x.dtype)
        return angles.cos(), angles.sin()


def test_axes_that_part_are_found_by_positions_that_part() -> None:
    model = nn.Sequential(nn.Linear(2, 2), RotaryOfAxes())
    assert not TableTrials(model).copies_are_equal("0", "doubled")


def test_without_a_maker_nothing_is_known() -> None:
    assert not TableTrials(nn.Sequential(nn.Linear(2, 2))).copies_are_equal("0", "doubled")


def test_the_maker_itself_is_not_run(tiny: BuildTiny) -> None:
    model = tiny("llama").model
    before = {name: value.clone() for name, value in model.named_buffers()}
    runs: list[object] = []
    model.model.rotary_emb.register_forward_hook(lambda module, *_: runs.append(module))
    assert TableTrials(model).copies_are_equal("model.layers.1.self_attn", "doubled")
    assert model.model.rotary_emb not in runs
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())
