"""Learned positions: against numpy, against the sinusoids' known profile, and in a real model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.spatial.distance import cdist

from ropewalk.errors import UsageError
from ropewalk.tables.open import open_table
from ropewalk.tables.positions_table import mean_by_distance, measure, measured


def _sinusoids(rows: int, width: int) -> torch.Tensor:
    """Vaswani et al. 2017, section 3.5, by its formula."""
    table = np.zeros((rows, width))
    for position in range(rows):
        for pair in range(width // 2):
            angle = position / 10000 ** (2 * pair / width)
            table[position, 2 * pair : 2 * pair + 2] = math.sin(angle), math.cos(angle)
    return torch.from_numpy(table).float()


def test_sinusoids_have_the_profile_that_their_formula_gives() -> None:
    width = 64
    found = measured(_sinusoids(200, width))
    for distance in (0, 1, 5, 50, 199):
        # The dot product of two sinusoidal positions depends on their distance alone.
        pairs = [math.cos(distance / 10000 ** (2 * i / width)) for i in range(width // 2)]
        assert float(found.profile[distance]) == pytest.approx(2 / width * sum(pairs), abs=1e-6)
    assert found.end.effective == 200
    torch.testing.assert_close(found.norms, torch.full((200,), math.sqrt(32)).double())


def test_the_mean_by_distance_is_that_of_all_pairs() -> None:
    rows = np.random.default_rng(0).normal(size=(57, 130)) + 0.3
    cosines = 1 - cdist(rows, rows, "cosine")
    units = torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    found = mean_by_distance(units)
    truth = [cosines.diagonal(d).mean() for d in range(57)]
    np.testing.assert_allclose(found, truth, atol=1e-9)


def test_rows_without_direction_are_in_no_pair() -> None:
    rows = torch.randn(40, 64, generator=torch.Generator().manual_seed(1)) + 1.0
    rows[7], rows[20] = 0.0, torch.nan
    found = measured(rows)
    assert (found.zero, found.not_finite) == ((7,), (20,))
    kept = [p for p in range(40) if p not in (7, 20)]
    units = rows.double() / rows.double().norm(dim=1, keepdim=True)
    pairs = [float(units[p] @ units[p + 3]) for p in kept if p + 3 in kept]
    assert float(found.profile[3]) == pytest.approx(np.mean(pairs), abs=1e-6)
    assert math.isnan(float(found.norms[20]))
    assert torch.isnan(found.beside[[7, 8, 20, 21]]).all()
    assert not torch.isnan(found.beside[[0, 6, 9, 19, 22]]).any()
    assert torch.isnan(found.similarity([0, 7])).tolist() == [[False, True], [True, True]]


def test_similarity_and_spectrum_are_numpys() -> None:
    rows = torch.randn(60, 40, generator=torch.Generator().manual_seed(2))
    found = measured(rows)
    centred = rows.double() - rows.double().mean(0)
    squares = np.linalg.svd(centred.numpy(), compute_uv=False) ** 2
    np.testing.assert_allclose(found.spectrum, squares / squares.sum(), atol=1e-6)
    assert found.axes_for(1.0) <= 40
    shares = squares / squares.sum()
    assert found.participation == pytest.approx(1 / (shares**2).sum(), rel=1e-5)
    assert found.axes_for(0.5) == int(np.searchsorted(np.cumsum(shares), 0.5)) + 1
    truth = 1 - cdist(rows.double().numpy(), rows.double().numpy(), "cosine")
    np.testing.assert_allclose(found.similarity(range(60)), truth, atol=1e-6)


def test_the_last_rows_of_a_table_that_were_never_trained_are_found() -> None:
    table = _sinusoids(512, 128)
    table[300:] = 0.02 * torch.randn(212, 128, generator=torch.Generator().manual_seed(0))
    assert measured(table).end.effective == 300
    # As large as trained rows: only their directions tell.
    table[300:] *= float(table[0].norm()) / table[300].norm()
    assert measured(table).end.effective == 300
    table[300:] = 0.0
    found = measured(table)
    assert found.end.effective == 300
    assert len(found.zero) == 212


def test_rows_drawn_at_random_are_not_called_trained() -> None:
    found = measured(torch.randn(256, 128, generator=torch.Generator().manual_seed(0)))
    assert found.end.effective == 0
    assert "nothing shows that these rows were trained" in found.end.definition


def test_of_rows_too_narrow_to_tell_nothing_is_said() -> None:
    found = measured(torch.randn(256, 8, generator=torch.Generator().manual_seed(0)))
    assert found.end.effective is None
    assert "this narrow" in found.end.definition


def test_all_minilm_shows_both_lengths_of_its_training(minilm: Path) -> None:
    """BERT's recipe: 90 % of the steps at 128 tokens, the rest at 512 (Devlin et al. 2019, A.2)."""
    found = measure(open_table(minilm, "positions"))
    assert found.positions == 512
    assert found.end.effective == 509
    assert 127 in found.end.apart
    assert 128 in found.end.apart
    assert found.step is not None
    assert abs(found.step.position - 128) <= 2
    weights = open_table(minilm, "positions").whole().numpy()
    assert float(found.beside[6]) == pytest.approx(
        1 - cdist(weights[5:6], weights[6:7], "cosine")[0, 0], abs=1e-6
    )


def _model(folder: Path, rows: torch.Tensor, **config: object) -> Path:
    folder.mkdir()
    save_file({"model.decoder.embed_positions.weight": rows}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_rows_before_position_zero_are_set_aside(tmp_path: Path) -> None:
    """OPT, as fairseq before it, keeps two rows for padding at the start."""
    rows = torch.cat([torch.full((2, 64), 9.0), _sinusoids(50, 64)])
    folder = _model(tmp_path / "opt", rows, model_type="opt", hidden_size=64)
    found = measure(open_table(folder, "positions"))
    assert (found.offset, found.positions) == (2, 50)
    torch.testing.assert_close(found.norms, _sinusoids(50, 64).double().norm(dim=1))


def test_a_token_table_and_one_position_are_refused(tmp_path: Path) -> None:
    folder = _model(tmp_path / "opt", torch.ones(3, 8), model_type="opt", hidden_size=8)
    with pytest.raises(UsageError, match="has 3 rows, 2 of them before position 0"):
        measure(open_table(folder, "positions"))
    save_file({"wte.weight": torch.ones(3, 8)}, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match=r"wte\.weight is the input table"):
        measure(open_table(tmp_path / "model.safetensors"))
    with pytest.raises(UsageError, match="all 4 rows hold NaN or infinity"):
        measured(torch.full((4, 64), torch.inf))
