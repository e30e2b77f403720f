"""Two real processes over gloo, against the same table in one."""

from __future__ import annotations

import pytest
import torch

from tests.ranks import two_ranks

WORKER = """
import datetime, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from ropewalk.errors import RowError, UsageError
from ropewalk.inputs import Scale
from ropewalk.tables.module import TokenEmbedding
from ropewalk.tables.parallel import RowParallelEmbedding, local_rows
from ropewalk.tables.resize import resize

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
mesh = init_device_mesh("cpu", (2,))
found = {}
for rows in (8, 7):
    torch.manual_seed(0)
    table = TokenEmbedding(rows, 4, Scale.sqrt(4), padding_idx=2, bias=True)
    head = nn.Linear(4, rows, bias=False)
    head.weight = table.weight
    hidden = torch.randn(2, 4, requires_grad=True)
    spread = RowParallelEmbedding(table, mesh, head)
    looked = spread(torch.tensor([[0, 5, 2], [rows - 1, 3, 0]]))
    logits = spread.logits(hidden)
    (looked.square().sum() + logits.square().sum()).backward()
    found[rows] = {
        "looked": looked.detach(), "logits": logits.detach(), "hidden": hidden.grad,
        "weight": table.weight.grad.full_tensor(), "bias": table.bias.grad.full_tensor(),
        "local": local_rows(table), "tied": head.weight is table.weight,
        "parameters": len(list(nn.ModuleList([spread, head]).parameters())),
    }
    try:
        spread(torch.tensor([[0, rows]]))
    except RowError as error:
        found[rows]["error"] = str(error)
try:
    resize(table, 9)
except UsageError as error:
    found["resize"] = str(error)
try:
    RowParallelEmbedding(TokenEmbedding(8, 4), mesh, nn.Linear(4, 8))
except UsageError as error:
    found["untied"] = str(error)
torch.save(found, f"{sys.argv[1]}/{dist.get_rank()}.pt")
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[object, object]]:
    folder = tmp_path_factory.mktemp("ranks")
    two_ranks(WORKER, folder, seconds=180)
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def alone(rows: int) -> dict[str, torch.Tensor]:
    """torch's own layers, in one process."""
    from ropewalk.tables.module import TokenEmbedding

    torch.manual_seed(0)
    weight = torch.nn.Parameter(TokenEmbedding(rows, 4, padding_idx=2).weight.detach())
    _ = torch.nn.Linear(4, rows, bias=False)
    hidden = torch.randn(2, 4, requires_grad=True)
    bias = torch.zeros(rows, requires_grad=True)
    ids = torch.tensor([[0, 5, 2], [rows - 1, 3, 0]])
    looked = torch.nn.functional.embedding(ids, weight, 2) * 2.0
    logits = hidden @ weight.T + bias
    (looked.square().sum() + logits.square().sum()).backward()
    assert weight.grad is not None
    assert bias.grad is not None
    assert hidden.grad is not None
    return {
        "looked": looked.detach(),
        "logits": logits.detach(),
        "hidden": hidden.grad,
        "weight": weight.grad,
        "bias": bias.grad,
    }


@pytest.mark.parametrize("rows", [8, 7])
def test_two_ranks_give_what_one_gives_with_all_gradients(
    ranks: list[dict[int, dict[str, torch.Tensor]]], rows: int
) -> None:
    for name, expected in alone(rows).items():
        for rank in ranks:
            torch.testing.assert_close(rank[rows][name], expected, msg=f"{name}, {rows} rows")


@pytest.mark.parametrize("rows", [8, 7])
def test_each_rank_holds_its_part_and_the_head_is_tied(
    ranks: list[dict[int, dict[str, object]]], rows: int
) -> None:
    assert [rank[rows]["local"] for rank in ranks] == [4, rows - 4]
    assert [rank[rows]["tied"] for rank in ranks] == [True, True]
    assert [rank[rows]["parameters"] for rank in ranks] == [2, 2]


@pytest.mark.parametrize("rows", [8, 7])
def test_an_id_that_no_rank_has_is_an_error_on_every_rank(
    ranks: list[dict[int, dict[str, str]]], rows: int
) -> None:
    for rank in ranks:
        assert f"holds {rows} at row 0, column 1; allowed is 0 to {rows - 1}" in rank[rows]["error"]


def test_a_head_that_is_not_tied_is_refused(ranks: list[dict[str, str]]) -> None:
    assert all("does not share the table's parameter" in rank["untied"] for rank in ranks)


def test_a_table_that_is_spread_is_not_resized(ranks: list[dict[str, str]]) -> None:
    assert all("resize it before it is spread" in rank["resize"] for rank in ranks)
