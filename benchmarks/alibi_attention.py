"""Causal ALiBi attention: ours beside a dense bias, FlexAttention, and plain causal attention.

Each round runs, one after the other: plain causal SDPA without any position (the ceiling: no
bias can be cheaper than none), the bias as features (ours), the bias as a dense matrix that is
built once and kept, and FlexAttention compiled, where it compiles. Values are medians over the
rounds. Before that all of them are checked against double precision, and ours also against the
dense bias in its gradients. FlexAttention has no backward pass on CPUs.

    python benchmarks/alibi_attention.py [--length 2048] [--heads 8] [--head-dim 64] [--rounds 11]

Needs ropewalk[prove]. The last line is one JSON object; the reach is 1.25 of the ceiling.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.attention import attention
from ropewalk.attention.attend import AttentionCall, prepare
from ropewalk.positions.alibi import Alibi

REACH = 1.25
"""How much longer than plain causal attention ours may take."""

OURS, CEILING, DENSE = "ropewalk, features", "plain causal (ceiling)", "dense bias (peer)"
FLEX = "FlexAttention (peer)"


def dense_bias(encoding: Alibi, length: int) -> Tensor:
    """-m(i - j), minus infinity above the diagonal: (1, heads, length, length) in fp32."""
    ids = torch.arange(length)
    slopes = torch.tensor(encoding.slopes).view(-1, 1, 1)
    distance = ids[:, None] - ids
    return (-slopes * distance).masked_fill(distance < 0, -math.inf)[None]


def candidates(q: Tensor, k: Tensor, v: Tensor, flex: bool) -> dict[str, Callable[[], Tensor]]:
    """What is timed, by name."""
    heads, length = q.shape[1], q.shape[2]
    encoding, ids = Alibi(heads), torch.arange(length)
    call = AttentionCall(q=q, k=k, v=v, encoding=encoding, position_ids=ids)
    plan = prepare(call).plan
    assert plan.path == "features", plan
    bias = dense_bias(encoding, length)
    attend = functional.scaled_dot_product_attention
    runs: dict[str, Callable[[], Tensor]] = {
        CEILING: lambda: attend(q, k, v, is_causal=True),
        OURS: lambda: attention(q, k, v, encoding, position_ids=ids),
        DENSE: lambda: attend(q, k, v, attn_mask=bias),
    }
    if flex:
        runs[FLEX] = lambda: attention(q, k, v, encoding, position_ids=ids, kernel="flex")
    return runs


def check(q: Tensor, k: Tensor, v: Tensor, runs: dict[str, Callable[[], Tensor]]) -> None:
    """All that compute ALiBi agree with double precision; gradients with the dense bias."""
    bias = dense_bias(Alibi(q.shape[1]), q.shape[2]).double()
    scores = q.double() @ k.double().mT / math.sqrt(q.shape[-1]) + bias
    exact = scores.softmax(-1) @ v.double()
    with torch.no_grad():
        errors = {
            name: float((run().double() - exact).abs().max())
            for name, run in runs.items()
            if name != CEILING
        }
    print("largest error:", {name: f"{error:.1e}" for name, error in errors.items()})
    assert all(error <= max(2 * errors[DENSE], 1e-6) for error in errors.values()), errors
    gradients = [torch.autograd.grad(runs[name]().square().sum(), q)[0] for name in (OURS, DENSE)]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def seconds(run: Callable[[], Tensor], backward: bool) -> float:
    """Wall-clock seconds of one call, with its backward pass if asked for."""
    start = time.perf_counter()
    if backward:
        run().sum().backward()
    else:
        with torch.no_grad():
            run()
    return time.perf_counter() - start


def measure(runs: dict[str, Callable[[], Tensor]], rounds: int, backward: bool) -> dict[str, float]:
    """The median seconds of each over paired rounds; one unmeasured round before."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(-1, rounds):
        for name, run in runs.items():
            taken = seconds(run, backward)
            if number >= 0:
                times[name].append(taken)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return {name: statistics.median(values) for name, values in times.items()}


def flex_works(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether FlexAttention compiles here; it needs a C++ compiler."""
    from torch._dynamo.exc import BackendCompilerFailed
    from torch._inductor.exc import InductorError

    try:
        with torch.no_grad():
            attention(
                q, k, v, Alibi(q.shape[1]), position_ids=torch.arange(q.shape[2]), kernel="flex"
            )
    except (BackendCompilerFailed, InductorError) as error:
        print(f"FlexAttention left out: {error}")
        return False
    return True


def main() -> None:
    """Check, measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--no-flex", action="store_true", help="skip the seconds it compiles")
    options = parser.parse_args()
    torch.manual_seed(0)
    shape = (1, options.heads, options.length, options.head_dim)
    q, k, v = (torch.randn(shape, requires_grad=True) for _ in range(3))
    runs = candidates(q, k, v, not options.no_flex and flex_works(q, k, v))
    check(q, k, v, runs)
    rows = []
    for backward, unit in ((False, "s forward"), (True, "s forward and backward")):
        taking_part = {n: run for n, run in runs.items() if not (backward and n == FLEX)}
        medians = measure(taking_part, options.rounds, backward)
        for name, value in medians.items():
            reach = round(REACH * medians[CEILING], 5) if name == OURS else None
            holds = None if reach is None else value <= reach
            rows.append({"name": name, "value": round(value, 5), "unit": unit, "reach": reach,
                         "holds": holds})  # fmt: skip
            said = "" if holds is None else f"   holds: {holds}"
            print(f"{name:<26}{1000 * value:9.2f} ms {unit[2:]}{said}")
    machine = (
        f"{platform.machine()}, {os.cpu_count()} CPUs, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}"
    )
    print(json.dumps({"benchmark": "alibi_attention", "machine": machine, "rows": rows}))


if __name__ == "__main__":
    main()
