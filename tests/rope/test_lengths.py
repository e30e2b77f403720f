"""The trained length: stated, or a guess that says it is one."""

from __future__ import annotations

from collections.abc import Callable

from ropewalk.audit.lengths import trained_length
from ropewalk.rope.scaling import Linear
from ropewalk.rope.spec import LayerGroup, NoPosition, PositionSpec, Rotary, Window

MakeSpec = Callable[..., PositionSpec]


def test_a_stated_length_is_taken(make_spec: MakeSpec) -> None:
    length = trained_length(make_spec(trained=2048))
    assert (length.tokens, length.stated) == (2048, True)


def test_linear_scaling_of_every_layer_gives_a_guess_by_arithmetic(make_spec: MakeSpec) -> None:
    # Chinese-Alpaca-2-13B-16K: 16384 claimed, linear 4, Llama-2's 4096 nowhere in the file.
    length = trained_length(make_spec(scaling=Linear(4.0), claimed=16384))
    assert (length.tokens, length.stated) == (4096, False)
    assert "16384 / linear factor 4" in length.source


def test_layers_without_position_do_not_stop_the_arithmetic(make_spec: MakeSpec) -> None:
    free = LayerGroup("free", (2,), NoPosition())
    length = trained_length(make_spec(scaling=Linear(4.0), claimed=16384, more=(free,)))
    assert length.tokens == 4096


def test_linear_scaling_of_one_layer_type_gives_no_arithmetic(make_spec: MakeSpec) -> None:
    # Gemma 3: factor 8 on the global layers alone; 131072 / 8 is not a length it ever had.
    local = LayerGroup("local", (2,), Rotary(256, 256, 1e4), Window(1024))
    length = trained_length(make_spec(scaling=Linear(8.0), claimed=131072, more=(local,)))
    assert (length.tokens, length.stated) == (131072, False)


def test_without_scaling_the_claimed_length_is_the_guess(make_spec: MakeSpec) -> None:
    length = trained_length(make_spec(claimed=8192))
    assert (length.tokens, length.stated) == (8192, False)
    assert "guess" in length.source


def test_without_any_length_there_is_no_guess(make_spec: MakeSpec) -> None:
    assert trained_length(make_spec(claimed=None)).tokens is None
