"""What a row tells by itself: planted faults are found, counted and named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.tables.health.nearest import duplicates_of
from ropewalk.tables.health.scan import Scan, histogram, norms_of, ranges, scan
from ropewalk.tables.open import EmbeddingTable

Numbers = Callable[..., Tensor]
MakeTable = Callable[..., EmbeddingTable]


def _spoilt(normal: Numbers, dtype: torch.dtype = torch.float32) -> Tensor:
    rows = normal(12, 5)
    rows[3] = 0.0
    rows[4] = -0.0
    rows[6, 2] = torch.nan
    rows[7, 0] = -torch.inf
    rows[9] = rows[1]
    rows[11] = rows[1]
    rows[10] = rows[2]
    return rows.to(dtype)


def test_norms_are_numpys_and_faulty_rows_are_told_apart(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = _spoilt(normal)
    found = scan(make_table(rows))
    expected = np.linalg.norm(rows.double().numpy(), axis=1)
    np.testing.assert_allclose(found.norms, expected, rtol=1e-6)
    assert found.zero.nonzero().flatten().tolist() == [3, 4]
    assert (~found.finite).nonzero().flatten().tolist() == [6, 7]
    assert found.usable.sum() == 8


def test_numbers_whose_squares_fp32_cannot_hold_are_named_and_left_out(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(6, 4)
    rows[2] *= 1e30
    found = scan(make_table(rows))
    assert found.oversized.nonzero().flatten().tolist() == [2]
    assert found.norms[2] == rows[2].double().norm()
    assert not found.usable[2]


def test_equal_rows_are_grouped_and_rows_of_zeros_or_nan_are_in_no_group(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = _spoilt(normal, torch.bfloat16)
    rows[8] = rows[6]
    found = duplicates_of(scan(make_table(rows)), top=5)
    assert (found.groups, found.rows) == (2, 5)
    assert [group.ranges for group in found.largest] == [
        ((1, 1), (9, 9), (11, 11)),
        ((2, 2), (10, 10)),
    ]


def test_rows_whose_digests_agree_and_whose_bits_do_not_are_no_duplicates(
    make_table: MakeTable, normal: Numbers
) -> None:
    honest = scan(make_table(normal(6, 3)))
    lying = Scan(
        honest.table, honest.norms, honest.finite, honest.zero, honest.oversized, honest.kinds,
        (b"same",) * 6,
    )  # fmt: skip
    assert duplicates_of(lying, top=5).groups == 0


def test_lists_are_ordered_by_norm_and_then_by_row(make_table: MakeTable) -> None:
    rows = torch.tensor([[2.0, 0], [0, 1], [1, 0], [0, 2], [0, 3]])
    found = scan(make_table(rows))
    norms = norms_of(found, found.usable, top=3)
    assert norms is not None
    assert [(one.row, one.score) for one in norms.lowest] == [(1, 1.0), (2, 1.0), (0, 2.0)]
    assert [one.row for one in norms.highest] == [4, 0, 3]
    assert sum(norms.counts) == 5


def test_norms_by_kind_are_those_of_the_vocabularys_kinds(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(7, 4) * torch.arange(1, 8)[:, None]
    table = make_table(rows, pieces=["[PAD]", "[unused0]", "the", "##s", "bank"])
    found = scan(table)
    norms = norms_of(found, found.counted(all_rows=False), top=2)
    assert norms is not None
    assert {one.kind: one.count for one in norms.kinds} == {
        "text": 3, "special": 1, "unused": 1, "no token": 2,
    }  # fmt: skip
    assert norms.count == 5
    by_kind = {one.kind: one for one in norms.kinds}
    longest = float(rows[5:].double().norm(dim=1).max())
    assert by_kind["no token"].highest == pytest.approx(longest, rel=1e-6)


def test_a_histogram_of_one_value_has_one_bin() -> None:
    assert histogram(torch.full((9,), 3.5, dtype=torch.float64)) == ((9,), (3.5, 3.5))
    counts, edges = histogram(torch.arange(101, dtype=torch.float64))
    assert (len(counts), sum(counts), edges[0], edges[-1]) == (20, 101, 0.0, 100.0)


def test_stretches_of_rows_are_first_and_last() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == ((0, 2), (5, 5), (7, 8))
    assert ranges([]) == ()


def test_wide_tables_are_read_in_tiles_of_one_row_at_least(make_table: MakeTable) -> None:
    rows = torch.ones(3, 1)
    assert scan(make_table(rows)).norms.tolist() == [1.0, 1.0, 1.0]
