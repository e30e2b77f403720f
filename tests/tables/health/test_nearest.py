"""Near duplicates and hubs against scipy, sorting by definition, and planted rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.stats import skew
from torch import Tensor

from ropewalk.tables.health.nearest import (
    draw,
    nearest_of,
    occurrences,
    occurrences_among,
    thinned_skewness,
)
from ropewalk.tables.health.scan import scan
from ropewalk.tables.open import EmbeddingTable

Numbers = Callable[..., Tensor]
MakeTable = Callable[..., EmbeddingTable]


def _graph(rows: Tensor, k: int) -> np.ndarray:
    """The k nearest others of each row by sorting all cosines, (n, k)."""
    wide = rows.double().numpy()
    units = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    cosines = units @ units.T
    np.fill_diagonal(cosines, -2)
    return np.argsort(-cosines, axis=1, kind="stable")[:, :k]


def test_figures_of_the_graph_are_those_of_the_definitions(normal: Numbers) -> None:
    rows = normal(300, 40)
    counts = np.bincount(_graph(rows, 10).ravel(), minlength=300)
    found = occurrences_among(rows, 10)
    assert found is not None
    assert found.skewness == pytest.approx(skew(counts))
    assert found.antihubs == (counts == 0).mean()
    assert found.hubs == (counts >= 20).mean()
    assert found.hub_share == pytest.approx(counts[counts >= 20].sum() / 3000)
    # Hoover: the part of all places above an even share.
    assert found.robin_hood == pytest.approx((counts - 10).clip(0).sum() / 3000)


def test_a_graph_in_which_all_are_alike_has_no_hubs() -> None:
    found = occurrences(torch.full((50,), 4), 4)
    assert (found.skewness, found.antihubs, found.hubs, found.robin_hood) == (None, 0, 0, 0)


def test_a_row_that_is_near_to_all_is_the_busiest(make_table: MakeTable, normal: Numbers) -> None:
    rows = normal(200, 64) + 1.0
    rows[17] = 1.0
    found = scan(make_table(rows))
    drawn = draw(found.usable, 60, seed=1)
    near = nearest_of(found, found.usable, drawn, rows[drawn], top=3)
    assert near is not None
    assert near.hubness.busiest[0].row == 17
    assert near.hubness.busiest[0].score > 0.7


def test_a_sample_of_all_rows_gives_the_tables_own_skewness(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(150, 30)
    found = scan(make_table(rows))
    drawn = draw(found.usable, 10_000, seed=0)
    near = nearest_of(found, found.usable, drawn, rows[drawn], top=3)
    assert near is not None
    counts = np.bincount(_graph(rows, 10).ravel(), minlength=150)
    assert near.hubness.table_skewness == pytest.approx(skew(counts))
    assert near.hubness.sampled is not None
    assert near.hubness.sampled.skewness == pytest.approx(skew(counts))


def test_the_skewness_from_a_sample_of_queries_is_that_of_all_on_average(normal: Numbers) -> None:
    graph = _graph(normal(1500, 60, seed=4) + 0.7, 10)
    whole = skew(np.bincount(graph.ravel(), minlength=1500))
    random = np.random.default_rng(0)
    estimates = []
    for _ in range(40):
        queries = random.choice(1500, 300, replace=False)
        counts = np.bincount(graph[queries].ravel(), minlength=1500)
        estimate = thinned_skewness(torch.from_numpy(counts), 300)
        assert estimate is not None
        estimates.append(estimate)
        naive = skew(counts)
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(whole, abs=max(4 * error, 0.1 * whole))
    # What the sample's own counts would say is another figure.
    assert abs(naive - whole) > 4 * error


def test_near_duplicates_are_pairs_and_equal_rows_are_not_among_them(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(40, 16)
    rows[5] = rows[4] + 1e-3
    rows[9] = rows[8]
    found = scan(make_table(rows))
    drawn = draw(found.usable, 40, seed=0)
    near = nearest_of(found, found.usable, drawn, rows[drawn], top=2)
    assert near is not None
    assert near.duplicates.near == 2
    assert [(p.row, p.other) for p in near.duplicates.pairs] == [(4, 5), (5, 4)]
    assert {8, 9}.isdisjoint({p.row for p in near.duplicates.pairs})


def test_rows_without_direction_or_that_do_not_count_are_never_drawn_nor_neighbours(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(30, 8)
    rows[3], rows[4, 2] = 0.0, torch.nan
    found = scan(make_table(rows))
    counted = found.usable.clone()
    counted[20:] = False
    drawn = draw(counted, 100, seed=0)
    assert drawn.tolist() == [r for r in range(20) if r not in (3, 4)]
    near = nearest_of(found, counted, drawn, rows[drawn], top=30)
    assert near is not None
    assert near.duplicates.ranked == 18
    assert {one.row for one in near.hubness.busiest} <= set(drawn.tolist())


def test_the_same_seed_draws_the_same_rows_and_another_others() -> None:
    counted = torch.ones(1000, dtype=torch.bool)
    assert torch.equal(draw(counted, 50, 7), draw(counted, 50, 7))
    assert not torch.equal(draw(counted, 50, 7), draw(counted, 50, 8))


def test_one_row_has_no_neighbours(make_table: MakeTable) -> None:
    found = scan(make_table(torch.ones(1, 4)))
    assert nearest_of(found, found.usable, draw(found.usable, 5, 0), torch.ones(1, 4), 3) is None
    assert occurrences_among(torch.ones(1, 4), 3) is None
