"""Losses in windows, recall and probes, against loops, planted answers and planted positions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.comparison import measure
from ropewalk.comparison.language import Language
from ropewalk.comparison.measure import losses_in_windows
from ropewalk.comparison.readout import probe
from ropewalk.comparison.train import fresh
from ropewalk.errors import UsageError
from tests.comparison.conftest import small


@pytest.mark.parametrize(("window", "stride", "first"), [(8, 7, 1), (8, 2, 12), (5, 1, 20)])
def test_losses_in_windows_are_those_of_reading_each_window_alone(
    window: int, stride: int, first: int
) -> None:
    settings = small("rope")
    model: Any = fresh(settings, settings.variants[0], 0)
    tokens = torch.from_numpy(settings.language.streams((1,), 3, 40).tokens)
    found = losses_in_windows(model, tokens, window, stride, first)
    assert found.shape == (3, 40 - first)
    for row in range(3):
        for place in range(first, 40):
            # The windows are [0, W), then as many tokens up to each end that a stride makes.
            end = window
            while end <= place:
                end = min(end + stride, 40)
            seen = tokens[row : row + 1, max(0, end - window) : place]
            with torch.no_grad():
                said = model(seen).logits[0, -1].double().log_softmax(-1)
            expected = -float(said[tokens[row, place]])
            assert float(found[row, place - first]) == pytest.approx(expected, abs=1e-4)


class _Knows(torch.nn.Module):
    """Finds the fact of the name that stands last, up to `reach` back, and says its value."""

    def __init__(self, reach: int, language: Language) -> None:
        super().__init__()
        self.reach, self.language = reach, language

    def forward(self, tokens: Tensor, logits_to_keep: int = 0) -> Any:
        del logits_to_keep
        sizes = self.language
        logits = torch.zeros(len(tokens), 1, sizes.size + 1)
        for row, ids in enumerate(tokens.tolist()):
            first = sizes.fact(ids[-1] - sizes.words, 0)
            for token in ids[-1 - self.reach : -1]:
                if first <= token < first + sizes.values:
                    logits[row, 0, sizes.words + sizes.names + token - first] = 1.0
        return SimpleNamespace(logits=logits)


def test_recall_counts_exact_hits_and_nothing_else() -> None:
    settings = small("rope", prompts=30)
    model = _Knows(20, settings.language)
    assert measure.recall(model, settings, 64, 10).hits == 30
    # It then says token 0, a word, which is never a value.
    assert measure.recall(model, settings, 64, 50).hits == 0


def test_a_probe_finds_a_planted_position_and_nothing_where_there_is_none() -> None:
    random = np.random.default_rng(0)
    noise = random.normal(size=(40, 32, 6))
    places = np.arange(32.0)
    planted = noise.copy()
    planted[:, :, 2] += 5.0 * places
    found = probe(1, planted)
    # One channel is 5 p + noise of variance 1: the best map leaves noise of deviation 1 / 5.
    assert found.r2 > 0.999
    assert found.error == pytest.approx(0.2 * np.sqrt(2 / np.pi), rel=0.1)
    nothing = probe(0, noise)
    assert abs(nothing.r2) < 0.02
    # The mean distance of 0 .. 31 from their mean is 8.
    assert nothing.error == pytest.approx(8.0, rel=0.02)


def test_a_probe_is_scored_on_streams_that_it_was_not_fitted_on() -> None:
    random = np.random.default_rng(1)
    # More channels than tokens to fit: any position can be learned by heart, and none is there.
    found = probe(0, random.normal(size=(4, 8, 40)))
    assert found.r2 < 0.0


def test_a_probe_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="give 2 of each"):
        probe(0, np.zeros((1, 8, 4)))


def test_a_learned_table_ends_the_reading_with_what_it_says_and_others_go_on() -> None:
    settings = small("learned", "alibi")
    for variant, windows in zip(settings.variants, ({16}, {16, 32, 64, 128}), strict=True):
        model: Any = fresh(settings, variant, 0)
        reading = measure.read_beyond(model, settings, settings.windows)
        assert {each.window for each in reading.losses} == windows
        assert {each.length for each in reading.recalls} == windows
        assert ("16 positions" in reading.refusal) == (variant.position == "learned")
        ends = [each.end for each in measure.by_position(model, settings)]
        assert ends == [4, 8, 16, *sorted(windows - {16})]


def test_another_schedule_changes_what_is_beyond_and_is_gone_afterwards() -> None:
    settings = small("rope")
    model: Any = fresh(settings, settings.variants[0], 0)
    ids = torch.arange(12)[None]
    before = model(ids).logits
    own = measure.read_beyond(model, settings, (16, 64))
    for scaling in measure.schedules(settings).values():
        other = measure.rescaled(model, settings, scaling)
        assert other.loss("sliding", 64) != own.loss("sliding", 64)
    assert torch.equal(model(ids).logits, before)
