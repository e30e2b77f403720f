"""Kept tables: used again where everything is equal, and never where anything has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from ropewalk.positions.rotary import Rotary
from ropewalk.positions.rotary_tables import ROTARY_TABLES, Tables, TablesCache
from ropewalk.rope import spec
from ropewalk.rope.schedules import DynamicNtk, Yarn


def encoding(base: float = 10000.0, **keys: Any) -> Rotary:
    return Rotary(spec.RotarySpec(head_dim=8, rotary_dim=8, rope_theta=base, **keys))


def by_hand(position_ids: Tensor, base: float = 10000.0) -> Tensor:
    """Cosines by the paper's formula, a loop over pairs."""
    pairs = [base ** (-2 * i / 8) for i in range(4)]
    return torch.stack([(position_ids.double() * f).cos() for f in pairs], dim=-1).float()


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    ROTARY_TABLES.clear()
    yield
    ROTARY_TABLES.clear()


def test_equal_positions_share_tables_between_layers() -> None:
    first = encoding().tables(torch.arange(16))
    assert encoding().tables(torch.arange(16)).cos is first.cos


@pytest.mark.parametrize(
    "change",
    [
        lambda: encoding(base=5000.0).tables(torch.arange(16)),
        lambda: encoding().tables(torch.arange(16) + 1),
        lambda: encoding().tables(torch.arange(17)),
        lambda: encoding().tables(torch.arange(16), dtype=torch.float64),
        lambda: encoding().tables(torch.arange(16)[None]),
        lambda: encoding(scaling=Yarn(factor=2.0, original_max_position_embeddings=8)).tables(
            torch.arange(16)
        ),
    ],
    ids=["base", "positions", "count", "dtype", "rows", "scaling"],
)
def test_a_changed_input_gives_a_changed_table(change: Callable[[], Tables]) -> None:
    first = encoding().tables(torch.arange(16)).cos.clone()
    changed = change().cos
    assert (
        changed.shape != first.shape
        or changed.dtype != first.dtype
        or (not torch.equal(changed, first))
    )
    assert torch.equal(first, by_hand(torch.arange(16)))


def test_the_length_of_a_schedule_that_depends_on_it_is_part_of_the_key() -> None:
    scaled = encoding(scaling=DynamicNtk(factor=2.0, max_position_embeddings=8))
    ids = torch.arange(16)
    long, short = scaled.tables(ids, 16).cos, scaled.tables(ids, 8).cos
    assert not torch.equal(long, short)
    assert scaled.tables(ids, 16).cos is long
    rows = scaled.tables(torch.stack((ids, ids)), [16, 8]).cos
    assert torch.equal(rows, torch.stack((long, short)))


def test_positions_written_to_in_place_are_seen() -> None:
    ids = torch.arange(16)
    encoding().tables(ids)
    ids += 5
    assert torch.equal(encoding().tables(ids).cos, by_hand(ids))


def test_tables_written_to_in_place_are_not_given_out() -> None:
    encoding().tables(torch.arange(16)).cos.zero_()
    assert torch.equal(encoding().tables(torch.arange(16)).cos, by_hand(torch.arange(16)))


def test_tables_of_inference_mode_do_not_meet_training() -> None:
    ids = torch.arange(16)
    with torch.inference_mode():
        encoding().tables(ids)
    q = torch.randn(1, 1, 16, 8, requires_grad=True)
    encoding().rotate(q, q, ids)[0].sum().backward()
    assert q.grad is not None


def test_memory_is_bounded() -> None:
    cache = TablesCache(most_entries=3, most_bytes=4000)

    def build(size: int) -> Tables:
        return cache.get("key", torch.arange(size), lambda: Tables(*torch.randn(2, size, 4)))

    first = build(8)
    for size in range(9, 20):
        build(size)
        assert cache.bytes_kept <= 4000
    assert build(8).cos is not first.cos
    build(1000)
    assert cache.bytes_kept <= 4000
    assert build(19).cos is build(19).cos


def test_a_compiled_call_builds_its_own() -> None:
    ids = torch.arange(16)
    rotary = encoding()
    compiled = torch.compile(lambda ids: rotary.tables(ids).cos, backend="eager")
    assert torch.allclose(compiled(ids), by_hand(ids))
    assert ROTARY_TABLES.bytes_kept == 0
