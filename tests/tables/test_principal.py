"""Covariance and principal axes, against numpy, scikit-learn and planted structure."""

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
from ropewalk.tables.principal import Moments, nearest, project, spread_of


def _tiled(rows: torch.Tensor, size: int) -> list[tuple[int, torch.Tensor]]:
    return [(at, rows[at : at + size]) for at in range(0, len(rows), size)]


@pytest.fixture
def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    stretched = torch.randn(500, 24, generator=generator) * torch.logspace(0, -2, 24)
    turn: torch.Tensor = torch.linalg.qr(torch.randn(24, 24, generator=generator)).Q
    return torch.matmul(stretched, turn) + 5.0


@pytest.mark.parametrize("size", [1, 7, 500])
def test_mean_and_covariance_are_numpys_whatever_the_tiles(rows: torch.Tensor, size: int) -> None:
    spread = spread_of(_tiled(rows, size), 24)
    wide = rows.double().numpy()
    assert spread.count == 500
    np.testing.assert_allclose(spread.mean, wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(spread.covariance(), np.cov(wide.T), atol=3e-6)
    about_zero = spread.covariance(centred=False)
    np.testing.assert_allclose(about_zero, wide.T @ wide / 500, rtol=1e-6)


def test_a_common_vector_a_thousand_times_the_spread_costs_no_digits(rows: torch.Tensor) -> None:
    far = rows.double() + 1000.0
    spread = spread_of(_tiled(far.float(), 64), 24)
    # What rounding the rows themselves to fp32 left of them.
    truth = np.cov(far.float().double().numpy().T)
    np.testing.assert_allclose(spread.covariance(), truth, atol=1e-5)


def test_axes_and_places_are_those_of_scikit_learn(rows: torch.Tensor) -> None:
    theirs = PCA(2, svd_solver="full").fit(rows.double().numpy())
    ours = spread_of(_tiled(rows, 100), 24).axes(2)
    np.testing.assert_allclose(ours.shares, theirs.explained_variance_ratio_, rtol=1e-5)
    np.testing.assert_allclose(ours.values, theirs.explained_variance_, rtol=1e-5)
    for axis in range(2):
        assert abs(ours.vectors[:, axis].numpy() @ theirs.components_[axis]) > 1 - 1e-6
    places = theirs.transform(rows.double().numpy())
    np.testing.assert_allclose(ours.project(rows).abs(), np.abs(places), atol=2e-4)


def test_without_the_mean_the_first_axis_is_the_common_vector() -> None:
    common = torch.full((16,), 10.0)
    rows = common + 0.1 * torch.randn(300, 16, generator=torch.Generator().manual_seed(0))
    axes = spread_of(_tiled(rows, 50), 16).axes(1, centred=False)
    assert axes.shares[0] > 0.99
    assert axes.vectors[:, 0] @ (common / common.norm()).double() == pytest.approx(1, abs=1e-4)


def test_rows_that_are_not_finite_are_named_and_change_nothing(rows: torch.Tensor) -> None:
    spoilt = torch.cat([rows[:10], torch.full((1, 24), torch.nan), rows[10:], rows[:1] * 1e30])
    spread = spread_of(_tiled(spoilt, 64), 24)
    assert spread.left_out == (10, 501)
    clean = spread_of(_tiled(rows, 64), 24)
    torch.testing.assert_close(spread.covariance(), clean.covariance(), atol=1e-5, rtol=1e-5)


def test_rows_that_do_not_count_are_left_aside_unnamed(rows: torch.Tensor) -> None:
    keep = torch.arange(500) % 2 == 0
    spoilt = rows.clone()
    spoilt[1] = torch.nan
    spread = spread_of(_tiled(spoilt, 33), 24, keep)
    assert (spread.count, spread.left_out) == (250, ())
    np.testing.assert_allclose(spread.mean, rows[::2].double().numpy().mean(0), rtol=1e-6)


def test_what_has_no_spread_is_said() -> None:
    with pytest.raises(UsageError, match="no row was taken in"):
        Moments(4).spread()
    with pytest.raises(UsageError, match="all 3 rows hold NaN"):
        spread_of([(0, torch.full((3, 4), torch.nan))], 4)
    one = spread_of([(0, torch.ones(1, 4))], 4)
    assert one.axes(2).shares == [0.0, 0.0]


@pytest.mark.parametrize("k", [0, -1, 5])
def test_axes_that_cannot_be_are_refused(k: int) -> None:
    with pytest.raises(UsageError, match=f"{k} axes were asked for; rows of 4 numbers have 1 to 4"):
        spread_of([(0, torch.eye(4))], 4).axes(k)


def test_rows_wider_than_a_block_of_products_have_numpys_covariance() -> None:
    rows = torch.randn(300, 1100, generator=torch.Generator().manual_seed(0)) + 1.0
    found = spread_of(_tiled(rows, 128), 1100).covariance()
    np.testing.assert_allclose(found, np.cov(rows.double().numpy().T), atol=1e-5)
    assert torch.equal(found, found.T)


def _table(folder: Path, rows: torch.Tensor) -> EmbeddingTable:
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    return open_table(folder / "model.safetensors")


@pytest.fixture
def wide() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(300, 12, generator=generator) * torch.linspace(3, 1, 12) + 2.0


def test_places_and_shares_are_those_of_scikit_learn(tmp_path: Path, wide: torch.Tensor) -> None:
    shown = project(_table(tmp_path, wide))
    theirs = PCA(2).fit(wide.double().numpy())
    np.testing.assert_allclose(shown.axes.shares, theirs.explained_variance_ratio_, rtol=1e-4)
    places = np.abs(theirs.transform(wide.double().numpy()))
    np.testing.assert_allclose(shown.places.abs(), places, atol=1e-3)
    torch.testing.assert_close(shown.norms, wide.norm(dim=1))


def test_a_sample_lies_where_it_lies_among_all(tmp_path: Path, wide: torch.Tensor) -> None:
    table = _table(tmp_path, wide)
    every, some = project(table), project(table, most=40, seed=7)
    assert some.fitted == every.fitted == 300
    assert "40 of 300 rows, drawn without preference, none twice, seed 7" in some.chosen.line
    torch.testing.assert_close(some.places, every.places[some.ids])


def test_with_the_mean_left_in_axes_go_through_zero(tmp_path: Path, wide: torch.Tensor) -> None:
    shown = project(_table(tmp_path, wide + 20.0), centred=False)
    assert shown.axes.shares[0] > 0.98
    assert float(shown.axes.centre.abs().sum()) == 0.0


def test_neighbours_are_those_of_all_pairs(tmp_path: Path, wide: torch.Tensor) -> None:
    table = _table(tmp_path, wide)
    shown = project(table, most=120)
    found = nearest(table, shown, 5)
    own = wide[shown.ids].double().numpy()
    index = NearestNeighbors(n_neighbors=6, metric="cosine", algorithm="brute").fit(own)
    distances, at = index.kneighbors(own)
    np.testing.assert_array_equal(found.at, at[:, 1:])
    np.testing.assert_allclose(found.cosines, 1 - distances[:, 1:], atol=1e-6)


def test_rows_without_a_place_or_a_direction_are_named(tmp_path: Path, wide: torch.Tensor) -> None:
    wide[4], wide[9] = torch.inf, 0.0
    table = _table(tmp_path, wide)
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
    tmp_path: Path, wide: torch.Tensor, k: int
) -> None:
    table = _table(tmp_path, wide)
    with pytest.raises(UsageError, match=f"{k} neighbours were asked for"):
        nearest(table, project(table), k)


def test_one_number_a_row_makes_no_map(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a map needs rows of 2 numbers"):
        project(_table(tmp_path, torch.ones(5, 1)))
