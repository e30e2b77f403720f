"""The room's public names, and the rows its encodings have in the comparison table."""

from __future__ import annotations

from types import ModuleType

import pytest

from ropewalk import positions
from ropewalk.positions import Learned, PositionEncoding, Rotary, Sinusoidal
from ropewalk.rope import spec

TABLE = [
    (
        Sinusoidal(512),
        ("0", "input embedding", "absolute (relative recoverable)", "defined, degrades"),
        "the original transformer",
    ),
    (
        Learned(1024, 768),
        ("1024 x 768", "input embedding", "absolute only", "impossible"),
        "GPT-2, BERT",
    ),
    (
        Rotary(spec.RotarySpec(64, 64, 10_000.0)),
        (
            "0",
            "q and k, every layer",
            "relative directly",
            "accepted, degrades quickly, extendable by rescaling plus brief long-context training",
        ),
        "Llama, Mistral, Qwen",
    ),
]


def test_every_public_name_is_there_and_none_is_a_module() -> None:
    assert positions.__all__ == sorted(positions.__all__)
    for name in positions.__all__:
        assert not isinstance(getattr(positions, name), ModuleType), name


@pytest.mark.parametrize(("encoding", "facts", "users"), TABLE)
def test_rows_are_those_of_the_comparison_table(
    encoding: PositionEncoding, facts: tuple[str, ...], users: str
) -> None:
    row = encoding.describe()
    assert (row.parameters, row.applied_to, row.encodes, row.beyond_trained_length) == facts
    assert row.typical_users == users


@pytest.mark.parametrize("encoding", [Sinusoidal(64), Learned(100, 16, 2), TABLE[2][0]])
def test_the_parameters_a_row_states_are_those_of_the_module(encoding: PositionEncoding) -> None:
    stated = 1
    for factor in encoding.describe().parameters.split(" x "):
        stated *= int(factor)
    assert stated == sum(parameter.numel() for parameter in encoding.parameters())
