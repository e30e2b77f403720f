"""The trained length: stated, or a guess that says it is one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.rope.lengths import trained_length
from ropewalk.rope.override import override
from ropewalk.rope.schedules import UNSCALED, Linear, Scaling
from ropewalk.rope.spec import LayerGroup, Length, NoPositionSpec, PositionSpec, RotarySpec, Window

MakeSpec = Callable[..., PositionSpec]


@pytest.fixture
def make_spec() -> MakeSpec:
    """A spec with one group of rotary layers, and more where they are given."""

    def make(
        claimed: int | None = 4096,
        trained: int | None = None,
        scaling: Scaling = UNSCALED,
        more: tuple[LayerGroup, ...] = (),
    ) -> PositionSpec:
        group = LayerGroup("all layers", (0, 1), RotarySpec(128, 128, 1e4, scaling=scaling))
        return PositionSpec(
            "llama",
            "written by hand",
            (group, *more),
            Length.unknown() if trained is None else Length(trained, "original length"),
            Length.unknown("no length key") if claimed is None else Length(claimed, "max length"),
        )

    return make


def test_a_stated_length_is_taken(make_spec: MakeSpec) -> None:
    length = trained_length(make_spec(trained=2048))
    assert (length.tokens, length.stated) == (2048, True)


def test_linear_scaling_of_every_layer_gives_a_guess_by_arithmetic(make_spec: MakeSpec) -> None:
    # Chinese-Alpaca-2-13B-16K: 16384 claimed, linear 4, Llama-2's 4096 nowhere in the file.
    length = trained_length(make_spec(scaling=Linear(4.0), claimed=16384))
    assert (length.tokens, length.stated) == (4096, False)
    assert "16384 / linear factor 4" in length.source


def test_layers_without_position_do_not_stop_the_arithmetic(make_spec: MakeSpec) -> None:
    free = LayerGroup("free", (2,), NoPositionSpec())
    length = trained_length(make_spec(scaling=Linear(4.0), claimed=16384, more=(free,)))
    assert length.tokens == 4096


def test_linear_scaling_of_one_layer_type_gives_no_arithmetic(make_spec: MakeSpec) -> None:
    # Gemma 3: factor 8 on the global layers alone; 131072 / 8 is not a length it ever had.
    local = LayerGroup("local", (2,), RotarySpec(256, 256, 1e4), Window(1024))
    length = trained_length(make_spec(scaling=Linear(8.0), claimed=131072, more=(local,)))
    assert (length.tokens, length.stated) == (131072, False)


def test_without_scaling_the_claimed_length_is_the_guess(make_spec: MakeSpec) -> None:
    length = trained_length(make_spec(claimed=8192))
    assert (length.tokens, length.stated) == (8192, False)
    assert "guess" in length.source


def test_without_any_length_there_is_no_guess(make_spec: MakeSpec) -> None:
    assert trained_length(make_spec(claimed=None)).tokens is None


@pytest.mark.parametrize("trained", [None, 2048])
@pytest.mark.parametrize("text", ["linear:2", "yarn:2", "ntk:2", "base:5e5", "dynamic:2", "none"])
def test_another_schedule_does_not_change_what_a_model_was_trained_on(
    make_spec: MakeSpec, text: str, trained: int | None
) -> None:
    spec = make_spec(claimed=8192, trained=trained)
    changed = override(spec, text)
    # With a factor of 2 over all layers the files of a stretched model would say 4,096.
    assert trained_length(changed) == trained_length(spec)
    assert changed.trained.stated == (trained is not None)
