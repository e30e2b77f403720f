"""Figures of isotropy against scikit-learn, the papers' own steps, and what must be."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from ropewalk.tables.health.isotropy import (
    Isotropy,
    isoscore,
    isotropy_of,
    participation_ratio,
    partition_ratio,
)
from ropewalk.tables.open import EmbeddingTable
from ropewalk.tables.principal import spread_of

Numbers = Callable[..., Tensor]
MakeTable = Callable[..., EmbeddingTable]


def _of(table: EmbeddingTable, sample: Tensor) -> Isotropy:
    spread = spread_of(table.tiles(), table.width)
    counted = torch.ones(table.rows, dtype=torch.bool)
    return isotropy_of(table, spread, spread.axes(), counted, sample, seed=0)


def _paper(variances: np.ndarray) -> float:
    """IsoScore by the five steps of Rudman et al., section 3, as they are written."""
    n = len(variances)
    scaled = math.sqrt(n) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(scaled - 1) / math.sqrt(2 * (n - math.sqrt(n)))
    used = (n - defect**2 * (n - math.sqrt(n))) ** 2 / n**2
    return float((n * used - 1) / (n - 1))


@pytest.mark.parametrize("width", [2, 3, 17, 300])
def test_the_closed_form_is_the_papers_five_steps(width: int) -> None:
    variances = np.random.default_rng(width).gamma(0.3, size=width)
    assert isoscore(torch.from_numpy(variances)) == pytest.approx(_paper(variances), abs=1e-12)


@pytest.mark.parametrize("axes", [1, 3, 9])
def test_k_of_d_axes_of_one_variance_score_k_minus_1_of_d_minus_1(axes: int) -> None:
    variances = torch.zeros(9, dtype=torch.float64)
    variances[:axes] = 0.7
    assert isoscore(variances) == pytest.approx((axes - 1) / 8)
    assert participation_ratio(variances) == pytest.approx(axes)


def test_one_column_or_no_variance_has_no_isoscore() -> None:
    assert isoscore(torch.ones(1)) is None
    assert isoscore(torch.zeros(4)) is None


def test_normal_rows_are_isotropic_and_rows_on_a_line_are_not(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(20_000, 8)
    found = _of(make_table(rows), rows[:500])
    assert found.isoscore == pytest.approx(1, abs=0.005)
    assert found.before.pair_cosine == pytest.approx(0, abs=0.02)
    assert found.before.participation_ratio == pytest.approx(8, rel=0.01)
    line = normal(400, 1) * normal(1, 8, seed=1)
    found = _of(make_table(line), line)
    assert found.isoscore == pytest.approx(0, abs=1e-5)
    assert found.after.shares[0] == pytest.approx(1)


def test_a_common_vector_is_seen_before_and_gone_after(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(3000, 16) + 3.0
    found = _of(make_table(rows), rows[:400])
    # E cos = |mean|^2 / E|row|^2, to first order: 9 / 10.
    assert found.before.pair_cosine == pytest.approx(0.9, abs=0.01)
    assert found.mean_share == pytest.approx(0.9, abs=0.01)
    assert found.after.pair_cosine == pytest.approx(0, abs=0.02)
    assert found.before.shares[0] > 0.9 > found.after.shares[0]
    assert found.before.partition_ratio is not None
    assert found.after.partition_ratio is not None
    assert found.before.partition_ratio < 1e-6 < found.after.partition_ratio


def test_shares_are_the_explained_variance_of_scikit_learn(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(700, 12) * torch.logspace(0, -1, 12) + 2.0
    theirs = PCA().fit(rows.double().numpy())
    found = _of(make_table(rows), rows)
    np.testing.assert_allclose(found.after.shares, theirs.explained_variance_ratio_[:10], rtol=1e-4)
    variances = theirs.explained_variance_
    ratio = variances.sum() ** 2 / (variances**2).sum()
    assert found.after.participation_ratio == pytest.approx(ratio, rel=1e-4)
    assert found.isoscore == pytest.approx(_paper(variances), rel=1e-4)


def test_the_mean_cosine_of_drawn_pairs_is_near_that_of_all_pairs(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = (normal(900, 6) + 1.0).double()
    units = rows / rows.norm(dim=1, keepdim=True)
    everything = (units.sum(0).square().sum() - 900) / (900 * 899)
    found = _of(make_table(rows.float()), rows[:9])
    assert found.before.pair_cosine is not None
    assert found.before.pair_deviation is not None
    allowed = 5 * found.before.pair_deviation / math.sqrt(found.pairs)
    assert abs(found.before.pair_cosine - float(everything)) < allowed


def test_the_partition_ratio_is_the_loop_over_axes_and_signs() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(50, 3, generator=generator, dtype=torch.float64)
    axes = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64)).Q
    sums = [
        sum(math.exp(sign * float(row @ axes[:, k])) for row in rows)
        for k in range(3)
        for sign in (1, -1)
    ]
    assert partition_ratio(rows, axes) == pytest.approx(min(sums) / max(sums))
    assert partition_ratio(rows * 1e6, axes) == 0.0


def test_one_row_and_one_column_have_what_can_be_had(make_table: MakeTable) -> None:
    one = _of(make_table(torch.ones(1, 4)), torch.ones(1, 4))
    assert (one.pairs, one.isoscore, one.after.participation_ratio) == (0, None, None)
    assert one.before.pair_cosine is None
    column = torch.tensor([[1.0], [2.0], [-1.0]])
    flat = _of(make_table(column), column)
    assert flat.isoscore is None
    assert flat.before.shares == (1.0,)
