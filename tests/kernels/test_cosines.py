"""Cosines of stored rows with a few queries: every path against double precision."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.kernels import cosines as near
from ropewalk.kernels.arrays import as_array, as_tensor
from ropewalk.kernels.cosines import cosine_error
from ropewalk.kernels.cpu.library import INSTRUCTION_SETS, native

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def cosines(rows: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
    """Of tensors' own memory."""
    scores, squares = near.cosines(as_array(rows), as_array(queries))
    return as_tensor(scores), as_tensor(squares)


@pytest.fixture(params=("numpy", *INSTRUCTION_SETS))
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Plain numpy, then every instruction set that runs here."""
    library = native()
    if request.param == "numpy":
        monkeypatch.setattr("ropewalk.kernels.cpu.cosines.serves", lambda _rows: False)
        yield "numpy"
        return
    if library is None:
        pytest.skip("no compiled kernels here")
    widest = library.instruction_set
    try:
        if library.use_instruction_set(request.param) != request.param:
            pytest.skip(f"this processor has no {request.param}")
        yield request.param
    finally:
        library.use_instruction_set(widest)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 15, 64, 257])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_cosines_are_those_of_double_precision(dtype: torch.dtype, width: int, count: int) -> None:
    torch.manual_seed(width)
    rows = torch.randn(403, width).to(dtype)
    queries = torch.nn.functional.normalize(torch.randn(count, width), dim=1)
    scores, squares = cosines(rows, queries)
    wide = rows.double()
    exact = queries.double() @ wide.T / wide.norm(dim=1)
    assert scores.dtype == squares.dtype == torch.float32
    assert (scores.double() - exact).abs().max() <= cosine_error(width)
    torch.testing.assert_close(squares.double(), wide.square().sum(1), rtol=2e-6, atol=0)


@pytest.mark.usefixtures("way")
def test_long_rows_stay_far_within_the_bound() -> None:
    torch.manual_seed(1)
    rows = torch.randn(9, 8192).abs()
    query = torch.nn.functional.normalize(torch.ones(1, 8192), dim=1)
    exact = query.double() @ rows.double().T / rows.double().norm(dim=1)
    assert (cosines(rows, query)[0].double() - exact).abs().max() < 2e-6


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
@pytest.mark.parametrize("count", [1, 3])
def test_equal_rows_have_equal_scores_wherever_they_lie(name: str, count: int) -> None:
    library = native()
    if library is None:
        pytest.skip("no compiled kernels here")
    widest = library.instruction_set
    library.use_instruction_set(name)
    try:
        rows = torch.randn(77).bfloat16().repeat(1003, 1)
        scores, squares = cosines(rows, torch.nn.functional.normalize(torch.randn(count, 77)))
    finally:
        library.use_instruction_set(widest)
    assert torch.equal(scores, scores[:, :1].expand_as(scores))
    assert torch.equal(squares, squares[:1].expand_as(squares))


@pytest.mark.usefixtures("way")
def test_rows_apart_in_memory_are_read_where_they_lie() -> None:
    wide = torch.randn(50, 40)
    query = torch.nn.functional.normalize(torch.randn(1, 20), dim=1)
    for rows in (wide[:, 10:30], wide[::3, :20], torch.randn(20, 50).T):
        torch.testing.assert_close(
            cosines(rows, query)[0], query @ torch.nn.functional.normalize(rows, dim=1).T
        )


@pytest.mark.usefixtures("way")
def test_a_square_tells_rows_without_direction() -> None:
    rows = torch.ones(4, 33)
    rows[0], rows[1, 32], rows[2, 0] = 0.0, float("nan"), float("inf")
    squares = cosines(rows, torch.nn.functional.normalize(torch.ones(1, 33)))[1]
    assert squares[0] == 0.0
    assert not torch.isfinite(squares[1:3]).any()
    assert squares[3] == 33.0


@pytest.mark.usefixtures("way")
def test_no_rows_and_no_queries_are_no_scores() -> None:
    assert cosines(torch.empty(0, 5), torch.ones(2, 5))[0].shape == (2, 0)
    assert cosines(torch.ones(3, 5), torch.empty(0, 5))[0].shape == (0, 3)


def test_sizes_and_dtypes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match="of one width"):
        cosines(torch.ones(3, 5), torch.ones(1, 4))
    with pytest.raises(UsageError, match=r"queries float64"):
        cosines(torch.ones(3, 5), torch.ones(1, 5).double())
