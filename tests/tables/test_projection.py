"""A table on two axes: places are scikit-learn's, neighbours are all-pairs', samples are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from ropewalk.errors import UsageError
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.principal import nearest, project


def _table(folder: Path, rows: torch.Tensor) -> EmbeddingTable:
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    return open_table(folder / "model.safetensors")


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(300, 12, generator=generator) * torch.linspace(3, 1, 12) + 2.0


def test_places_and_shares_are_those_of_scikit_learn(tmp_path: Path, rows: torch.Tensor) -> None:
    shown = project(_table(tmp_path, rows))
    theirs = PCA(2).fit(rows.double().numpy())
    np.testing.assert_allclose(shown.axes.shares, theirs.explained_variance_ratio_, rtol=1e-4)
    places = np.abs(theirs.transform(rows.double().numpy()))
    np.testing.assert_allclose(shown.places.abs(), places, atol=1e-3)
    torch.testing.assert_close(shown.norms, rows.norm(dim=1))


def test_a_sample_lies_where_it_lies_among_all(tmp_path: Path, rows: torch.Tensor) -> None:
    table = _table(tmp_path, rows)
    every, some = project(table), project(table, most=40, seed=7)
    assert some.fitted == every.fitted == 300
    assert "40 of 300 rows, drawn without preference, none twice, seed 7" in some.chosen.line
    torch.testing.assert_close(some.places, every.places[some.ids])


def test_with_the_mean_left_in_axes_go_through_zero(tmp_path: Path, rows: torch.Tensor) -> None:
    shown = project(_table(tmp_path, rows + 20.0), centred=False)
    assert shown.axes.shares[0] > 0.98
    assert float(shown.axes.centre.abs().sum()) == 0.0


def test_neighbours_are_those_of_all_pairs(tmp_path: Path, rows: torch.Tensor) -> None:
    table = _table(tmp_path, rows)
    shown = project(table, most=120)
    found = nearest(table, shown, 5)
    own = rows[shown.ids].double().numpy()
    index = NearestNeighbors(n_neighbors=6, metric="cosine", algorithm="brute").fit(own)
    distances, at = index.kneighbors(own)
    np.testing.assert_array_equal(found.at, at[:, 1:])
    np.testing.assert_allclose(found.cosines, 1 - distances[:, 1:], atol=1e-6)


def test_rows_without_a_place_or_a_direction_are_named(tmp_path: Path, rows: torch.Tensor) -> None:
    rows[4], rows[9] = torch.inf, 0.0
    table = _table(tmp_path, rows)
    shown = project(table)
    assert (shown.not_finite, shown.zero) == ((4,), (9,))
    assert len(shown) == 299
    assert 4 not in shown.ids
    found = nearest(table, shown, 3)
    place = shown.ids.tolist().index(9)
    assert found.at[place].tolist() == [-1, -1, -1]
    assert not bool((found.at == place).any())
    heard: list[tuple[int, int]] = []
    nearest(table, shown, 1, lambda done, of: heard.append((done, of)))
    assert heard == [(298, 298)]


@pytest.mark.parametrize("k", [0, -1, 300])
def test_numbers_of_neighbours_that_cannot_be_are_refused(
    tmp_path: Path, rows: torch.Tensor, k: int
) -> None:
    table = _table(tmp_path, rows)
    with pytest.raises(UsageError, match=f"{k} neighbours were asked for"):
        nearest(table, project(table), k)


def test_one_number_a_row_makes_no_map(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a map needs rows of 2 numbers"):
        project(_table(tmp_path, torch.ones(5, 1)))
