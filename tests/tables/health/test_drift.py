"""Drift between the two tables of a model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ropewalk.tables.health.check import HealthOptions, check_health
from ropewalk.tables.health.drift import HeadDrift
from ropewalk.tables.open import EmbeddingTable

Numbers = Callable[..., Tensor]
MakeTable = Callable[..., EmbeddingTable]


def _drift(table: EmbeddingTable, top: int = 2) -> HeadDrift:
    drift = check_health(table, HealthOptions(top=top)).drift
    assert drift is not None
    return drift


def test_the_most_drifted_rows_and_the_mean_are_torchs_cosines(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(30, 8)
    head = 2 * rows + 0.1 * normal(30, 8, seed=1)
    head[13] = -rows[13]
    drift = _drift(make_table(rows, head=head))
    cosines = torch.nn.functional.cosine_similarity(rows.double(), head.double())
    assert drift.mean_cosine == pytest.approx(float(cosines.mean()))
    assert drift.drifted[0].row == 13
    assert drift.drifted[0].score == pytest.approx(-1)
    assert drift.norm_ratio == pytest.approx(2, rel=0.1)
    assert (drift.equal, drift.compared) == (False, 30)


def test_a_stored_head_with_the_same_bits_is_equal(make_table: MakeTable, normal: Numbers) -> None:
    rows = normal(9, 4)
    rows[2, 1] = torch.nan
    drift = _drift(make_table(rows, head=rows.clone()))
    assert (drift.equal, drift.compared) == (True, 8)
    assert drift.mean_cosine == pytest.approx(1)


def test_a_tied_head_is_said_and_not_compared(make_table: MakeTable, normal: Numbers) -> None:
    drift = _drift(make_table(normal(9, 4)))
    assert drift.sentence.startswith("tied: the head is not stored")
    assert (drift.head, drift.compared) == (None, 0)


def test_a_head_of_another_shape_is_said(make_table: MakeTable, normal: Numbers) -> None:
    drift = _drift(make_table(normal(9, 4), head=normal(8, 4)))
    assert "it is 8 x 4 and the input table 9 x 4" in drift.sentence


def test_a_missing_head_is_said_and_the_rest_goes_on(
    make_table: MakeTable, normal: Numbers
) -> None:
    drift = _drift(make_table(normal(9, 4), tied=False))
    assert "the head's weights are missing" in drift.sentence


def test_rows_without_direction_in_the_head_are_counted(
    make_table: MakeTable, normal: Numbers
) -> None:
    head = normal(9, 4)
    head[4] = 0.0
    drift = _drift(make_table(normal(9, 4, seed=1), head=head))
    assert (drift.compared, drift.without_direction) == (8, 1)


def test_the_output_table_by_itself_has_no_drift(make_table: MakeTable, normal: Numbers) -> None:
    table = make_table(normal(9, 4), head=normal(9, 4, seed=2), role="output")
    assert check_health(table).drift is None
