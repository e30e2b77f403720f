"""Causal ALiBi on the CPU, forward and backward: time beside its peers, memory as length grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.alibi_attention import CEILING, DENSE, OURS, candidates, check, dense_bias
from benchmarks.cpu_timing import Reach, Row, measure, row
from ropewalk.positions.alibi import Alibi

REBUILT = "dense bias, rebuilt each call (peer)"


class _Allocated(TorchDispatchMode):
    """Counts the bytes of all results of all operators, views left out."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            outs = out if isinstance(out, tuple | list) else (out,)
            self.bytes += sum(x.nbytes for x in outs if isinstance(x, Tensor))
        return out


def operands(length: int, heads: int, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random q, k and v that ask for gradients."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, heads, length, dim, requires_grad=True) for _ in range(3))
    return q, k, v


def both_ways(run: Callable[[], Tensor]) -> Callable[[], object]:
    """A forward and a backward pass."""
    return lambda: run().sum().backward()


def rows(length: int, heads: int, dim: int, rounds: int) -> Iterator[Row]:
    """The time, then the memory."""
    q, k, v = operands(length, heads, dim)
    runs = candidates(q, k, v, flex=False)
    check(q, k, v, runs)
    encoding = Alibi(heads)
    runs[REBUILT] = lambda: functional.scaled_dot_product_attention(
        q, k, v, attn_mask=dense_bias(encoding, length)
    )
    times = measure({name: both_ways(run) for name, run in runs.items()}, rounds)
    yield row(
        f"ALiBi attention, forward + backward, {length:,} tokens", times,
        Reach("of plain causal", times.ratio(OURS, CEILING), 1.2, at_least=False),
        Reach("times a dense bias", times.ratio(DENSE, OURS), 1.4, at_least=True),
        Reach("times one rebuilt", times.ratio(REBUILT, OURS), 3, at_least=True),
        limit="plain causal attention, the floor of them all, is itself "
        f"{times.ratio(REBUILT, CEILING):.2f} times as fast as a bias rebuilt; a head of {dim} "
        "channels is 4 wider by its features, and copied to take them in",
    )  # fmt: skip
    yield memory(length, heads, dim)


def memory(length: int, heads: int, dim: int) -> Row:
    """Bytes that all operators allocate, at one length and at twice that."""
    counted: dict[str, list[int]] = {OURS: [], DENSE: []}
    for size in (length, 2 * length):
        q, k, v = operands(size, heads, dim)
        runs = candidates(q, k, v, flex=False)
        encoding = Alibi(heads)
        runs[DENSE] = lambda q=q, k=k, v=v, size=size, encoding=encoding: (  # type: ignore[misc]
            functional.scaled_dot_product_attention(q, k, v, attn_mask=dense_bias(encoding, size))
        )
        for name, sizes in counted.items():
            with _Allocated() as allocated:
                runs[name]().sum().backward()
            sizes.append(allocated.bytes)
    growth = {name: second / first for name, (first, second) in counted.items()}
    notes = tuple(
        f"{name}: {first / 2**20:.0f} MiB, then {second / 2**20:.0f} MiB"
        for name, (first, second) in counted.items()
    )
    return Row(
        f"ALiBi attention, memory at {length:,} and twice as many tokens", {},
        (Reach("times the memory", growth[OURS], 2.1, at_least=False),),
        "a matrix of length x length would make it 4", notes,
    )  # fmt: skip
