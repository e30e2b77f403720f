"""What a schedule predicts, against published numbers."""

from __future__ import annotations

import pytest

from ropewalk.proof.sentences import frequency, predict, predictions_text, read_predictions, reasons
from ropewalk.rope.override import override
from ropewalk.rope.spec import (
    LayerGroup,
    LearnedPositions,
    Length,
    PositionSpec,
    RotarySpec,
    Window,
)


def spec_of(
    encoding: RotarySpec | LearnedPositions, trained: int, window: Window | None = None
) -> PositionSpec:
    group = LayerGroup("all", (0,), encoding, window)
    return PositionSpec("llama", "test", (group,), Length(trained, "t"), Length(trained, "c"))


LLAMA_2 = spec_of(RotarySpec(128, 128, 10000.0), 4096)


def test_half_a_window_holds_three_quarters_of_its_distances() -> None:
    # Published for full windows of 2,048: 75.0 % at or below half, 6.3 % from three quarters on.
    assert 1 - frequency(2048, 1024) == pytest.approx(0.75, abs=1e-3)
    assert frequency(2048, 1536) == pytest.approx(0.063, abs=1e-3)
    assert frequency(2048, 2048) == frequency(2048, 9000) == 0.0
    counted = sum(2048 - i for i in range(700, 2048)) / sum(2048 - i for i in range(2048))
    assert frequency(2048, 700) == pytest.approx(counted)


def test_the_horizon_of_llama_2_is_the_published_one() -> None:
    assert predict(LLAMA_2, 4096).horizon == 1707
    assert predict(LLAMA_2, 1024).horizon is None


def test_twice_the_trained_length_shows_angles_that_were_never_seen() -> None:
    found = predict(LLAMA_2, 8192)
    # Pairs 46 to 63 make less than a turn in 4,096 tokens: 10000^(2i/128) > 4096 / 2 pi.
    assert (found.unseen, found.pairs) == (18, 64)
    said = reasons(found, 0.0)
    assert said[0] == (
        "18 of 64 rotary pairs turn to angles that training at 4,096 tokens did not show"
    )
    assert any("similarity horizon is at 1,707" in each for each in said)
    assert any("8,192 tokens did not occur in training" in each for each in said)


def test_a_rescaled_schedule_shows_no_new_angles() -> None:
    assert predict(override(LLAMA_2, "linear:2"), 8192).unseen == 0


def test_a_needle_near_the_question_has_no_distance_against_it() -> None:
    assert reasons(predict(LLAMA_2, 4096), 0.9) == ()
    assert "at most" in reasons(predict(LLAMA_2, 4096), 0.1)[-1]


def test_windows_and_tables_that_end_are_named() -> None:
    narrow = predict(spec_of(RotarySpec(128, 128, 10000.0), 4096, Window(512)), 2048)
    assert narrow.horizon is None
    assert "no layer sees further back than 512 tokens" in reasons(narrow, 0.0)[0]
    learned = predict(spec_of(LearnedPositions(1024), 1024), 2048)
    assert reasons(learned, 1.0)[0] == "positions end at 1,024"


def test_predictions_are_read_back_from_a_run_folder_as_they_were() -> None:
    kept = read_predictions(predictions_text(LLAMA_2, (1024, 8192)))
    assert kept == {n: predict(LLAMA_2, n) for n in (1024, 8192)}
    with pytest.raises(ValueError, match="predictions"):
        read_predictions('[{"length": 3}]')
