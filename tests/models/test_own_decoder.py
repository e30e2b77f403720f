"""A folder of this package's decoder is loaded like any model, and turned by any schedule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.decoder import Decoder, DecoderConfig, Position
from ropewalk.errors import ScheduleError
from ropewalk.models.load import load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install
from ropewalk.rope.spec import LayerGroup, Length, PositionSpec, RotarySpec


def _decoder(position: Position) -> Any:
    torch.manual_seed(0)
    model: Any = Decoder(DecoderConfig(vocab_size=257, hidden_size=32, num_hidden_layers=2,
                                 position=position, trained_length=64))  # fmt: skip
    return model.eval()


def _spec(base: float, head_dim: int = 8) -> PositionSpec:
    rotary = RotarySpec(head_dim, head_dim, base)
    length = Length(64, "given")
    return PositionSpec("ropewalk_decoder", "given", (LayerGroup("all layers", (0, 1), rotary),),
                        length, length)  # fmt: skip


def test_it_loads_with_its_own_weights(save: Callable[..., Path]) -> None:
    model = _decoder("rope")
    files = resolve(str(save(model)))
    loaded: Any = load(files, device=torch.device("cpu"), dtype=torch.float32).model
    install(loaded, read_spec(files), 20)
    ids = torch.arange(20)[None]
    torch.testing.assert_close(loaded(ids).logits, model(ids).logits, atol=1e-5, rtol=1e-5)


def test_a_schedule_that_is_put_in_is_the_one_it_rotates_by() -> None:
    model, ids = _decoder("rope"), torch.arange(20)[None]
    other: Any = Decoder(DecoderConfig(vocab_size=257, hidden_size=32, num_hidden_layers=2,
                                  trained_length=64, rope_theta=300.0))  # fmt: skip
    other.eval()
    other.load_state_dict(model.state_dict())
    install(model, _spec(300.0), 20)
    torch.testing.assert_close(model(ids).logits, other(ids).logits)


@pytest.mark.parametrize(("position", "head_dim"), [("rope", 16), ("alibi", 8)])
def test_a_schedule_that_does_not_fit_is_refused(position: Position, head_dim: int) -> None:
    with pytest.raises(ScheduleError, match="does not go with a decoder"):
        install(_decoder(position), _spec(300.0, head_dim), 20)
