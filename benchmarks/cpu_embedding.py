"""Token vectors on the CPU: looked up, scaled and summed in one pass, and steps on their rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.cpu_timing import Reach, Row, measure, row
from ropewalk.kernels.embedding import lookup, sgd_rows_

OURS = "ropewalk"


def rows(batch: int, length: int, vocabulary: int, width: int, rounds: int) -> Iterator[Row]:
    """The two rows: looking up, and a step of SGD."""
    check_steps()
    torch.manual_seed(0)
    ids = torch.randint(vocabulary, (batch, length))
    table = torch.randn(vocabulary, width)
    yield looked_up(ids, table, rounds)
    yield step(ids, table, rounds)


def looked_up(ids: Tensor, table: Tensor, rounds: int) -> Row:
    """Lookup x sqrt(d) + position, beside `F.embedding` alone and the eager chain."""
    width = table.shape[1]
    position, scale = torch.randn(ids.shape[1], width), math.sqrt(width)
    gather, chain = "F.embedding alone", "eager chain"

    def eager() -> Tensor:
        return functional.embedding(ids, table) * scale + position

    def ours() -> Tensor:
        return lookup(ids, table, scale=scale, added=position)

    torch.testing.assert_close(ours(), eager(), rtol=1e-6, atol=1e-5)
    ready = torch.empty(*ids.shape, width)
    times = measure(
        {
            OURS: ours,
            f"{OURS}, ready buffer": lambda: lookup(
                ids, table, scale=scale, added=position, out=ready
            ),
            gather: lambda: functional.embedding(ids, table),
            chain: eager,
        },
        rounds,
    )
    return row(
        "lookup x sqrt(d) + position", times,
        Reach("of F.embedding alone", times.ratio(OURS, gather), 1.3, at_least=False),
        Reach("times the eager chain", times.ratio(chain, OURS), 2.5, at_least=True),
        limit="page faults of the fresh result, which the gather alone pays too",
    )  # fmt: skip


def step(ids: Tensor, table: Tensor, rounds: int) -> Row:
    """The gradient and a step of SGD on the touched rows, beside the dense ones."""
    grad, rate = torch.randn(*ids.shape, table.shape[1]), 1e-3
    dense, sparse = "dense gradient + SGD", "F.embedding(sparse) + SGD"
    times = measure(
        {
            OURS: lambda: sgd_rows_(table, ids, grad, rate),
            dense: stepper(table, ids, grad, rate, sparse=False),
            sparse: stepper(table, ids, grad, rate, sparse=True),
        },
        rounds,
    )
    return row(
        "embedding gradient + SGD", times,
        Reach("times dense", times.ratio(dense, OURS), 5, at_least=True),
        limit="reading the gradient and reading and writing the touched rows",
    )  # fmt: skip


def stepper(
    table: Tensor, ids: Tensor, grad: Tensor, rate: float, *, sparse: bool
) -> Callable[[], object]:
    """torch's own backward pass and step, on the same memory."""
    weight = torch.nn.Parameter(table)
    optimizer = torch.optim.SGD([weight], lr=rate)

    def run() -> None:
        optimizer.zero_grad()
        functional.embedding(ids, weight, sparse=sparse).backward(grad)
        optimizer.step()

    return run


def check_steps() -> None:
    """On small tables: a step is dense SGD's, and a sparse gradient is one for SparseAdam."""
    torch.manual_seed(0)
    ids, table, grad = torch.randint(50, (4, 64)), torch.randn(100, 16), torch.randn(4, 64, 16)
    theirs = table.clone()
    stepper(theirs, ids, grad, 0.1, sparse=False)()
    torch.testing.assert_close(sgd_rows_(table.clone(), ids, grad, 0.1), theirs)
    finals = []
    embeds: tuple[Callable[[Any], Tensor], ...] = (
        lambda weight: lookup(ids, weight, sparse=True),
        lambda weight: functional.embedding(ids, weight, sparse=True),
    )
    for embed in embeds:
        weight = torch.nn.Parameter(table.clone())
        optimizer = torch.optim.SparseAdam([weight], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            embed(weight).backward(grad)
            optimizer.step()
        finals.append(weight.detach())
    torch.testing.assert_close(finals[0], finals[1], rtol=1e-4, atol=1e-4)
