"""The GPU kernels: checked against fp64, then timed beside a copy and beside what others run.

Values are medians over rounds in which the candidates take turns; each call is timed alone by
CUDA events, on tensors larger than the second-level cache. The ceiling is the bandwidth of a
device-to-device copy of the same bytes. Peers are transformers' apply_rotary_pos_emb, eager and
compiled, and flash-attn's and Liger's kernels where these import.

    benchmarks/gpu.sh [--out FOLDER] [--rounds 30] [--rehearse]

Without a GPU it says so and fails. `--rehearse` runs every part once on the CPU, at tiny sizes and
under Triton's interpreter, to prove that the script itself works: it times nothing and writes no
file. Otherwise the result is gpu-CARD.json in the folder; the last line printed is the same JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from triton.errors import TritonError

from benchmarks import gpu_checks as checks
from ropewalk.attention import attention
from ropewalk.kernels.triton import lookup, rotate
from ropewalk.positions.alibi import Alibi

REACH = 0.85
"""Of the copy's bandwidth."""

Run = Callable[[], object]

FAILURES = (AssertionError, RuntimeError, TypeError, ValueError, TritonError)
"""What a wrong result, or a kernel that does not compile or launch, raises; the rest goes on."""


@dataclass
class Bench:
    """One run: where, how often, and the rows so far."""

    device: str
    rounds: int
    rehearse: bool
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, value: float | None, unit: str, reach: float | None = None) -> None:
        """A row; it holds where the value reaches `reach`. A rehearsal has no values."""
        value = None if self.rehearse or value is None else value
        holds = None if reach is None or value is None else value >= reach
        shown = None if value is None else float(f"{value:.4g}")
        self.rows.append(
            {"name": name, "value": shown, "unit": unit, "reach": reach, "holds": holds}
        )
        print(f"{name:<72} {shown} {unit}" + ("" if holds is None else f"   holds: {holds}"))

    def medians(self, runs: dict[str, Run]) -> dict[str, float]:
        """Milliseconds of each; three unmeasured rounds first. A rehearsal runs each once."""
        if self.rehearse:
            for run in runs.values():
                run()
            return dict.fromkeys(runs, 1.0)
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(-3, self.rounds):
            for name, run in runs.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                run()
                end.record()
                end.synchronize()
                if number >= 0:
                    taken[name].append(begin.elapsed_time(end))
        return {name: statistics.median(values) for name, values in taken.items()}

    def usable(self, runs: dict[str, Run]) -> dict[str, Run]:
        """Those that run here; a row for each that does not."""
        kept = {}
        for name, run in runs.items():
            try:
                run()
            except FAILURES as error:
                self.add(f"{name}: {type(error).__name__} {str(error)[:200]}", None, "")
            else:
                kept[name] = run
        return kept

    def check(self, name: str, check: Callable[[], str]) -> None:
        """A row that holds where the check passes; a failure is said and ends nothing."""
        begun = time.perf_counter()
        try:
            said, passed = check(), True
        except FAILURES as error:
            said, passed = f"FAILED: {type(error).__name__} {str(error)[:500]}", False
        name = f"{name}: {said}"
        print(f"{name}   ({time.perf_counter() - begun:.0f} s)", flush=True)
        self.rows.append(
            {"name": name, "value": int(passed), "unit": "", "reach": 1, "holds": passed}
        )


def run_checks(bench: Bench) -> None:
    """Everything that is held before it is timed."""
    where = bench.device, bench.rehearse
    bench.check("rotary against fp64", lambda: checks.check_rotary(*where))
    bench.check("rotary under torch.compile", lambda: checks.check_operators(*where))
    bench.check("embedding against fp64", lambda: checks.check_embedding(*where))
    bench.check("ALiBi attention against fp64", lambda: checks.check_attention(*where))
    if not bench.rehearse:
        bench.check("rotary beyond 2^31 elements", lambda: checks.check_large(bench.device))


def rotary_peers(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, compiled: bool) -> dict[str, Run]:
    """Others' rotary for "half", by name, on q and k (batch, heads, length, head_dim)."""
    peers: dict[str, Run] = {}
    wide_cos, wide_sin = (torch.cat((t, t), -1)[None].to(q.dtype) for t in (cos, sin))
    if find_spec("transformers"):
        llama = import_module("transformers.models.llama.modeling_llama")
        apply = llama.apply_rotary_pos_emb
        peers["transformers, eager"] = partial(apply, q, k, wide_cos, wide_sin)
        if compiled:
            faster = torch.compile(apply)
            peers["transformers, compiled"] = partial(faster, q, k, wide_cos, wide_sin)
    if q.is_cuda and find_spec("flash_attn"):
        theirs = import_module("flash_attn.layers.rotary").apply_rotary_emb
        q_t, k_t = (x.transpose(1, 2) for x in (q, k))
        c, s = cos.to(q.dtype), sin.to(q.dtype)
        peers["flash-attn"] = lambda: (theirs(q_t, c, s), theirs(k_t, c, s))
    if q.is_cuda and find_spec("liger_kernel"):
        # It writes onto q and k.
        liger = import_module("liger_kernel.ops.rope").LigerRopeFunction
        peers["Liger"] = partial(liger.apply, q, k, wide_cos, wide_sin)
    return peers


def time_rotary(bench: Bench) -> None:
    """Out of place, in place, backward; each layout, dtype and order in memory; then peers."""
    batch, heads, kv_heads, length, width = (
        (1, 4, 2, 6, 8) if bench.rehearse else (4, 32, 8, 8192, 128)
    )
    cos, sin = checks.tables((length, width // 2), bench.device)
    for dtype in (torch.bfloat16, torch.float32):
        kind = str(dtype).removeprefix("torch.")
        for order in ("BHLD", "BLHD"):
            q, k = (
                torch.randn(batch, *((n, length) if order == "BHLD" else (length, n)), width,
                            device=bench.device).to(dtype)
                for n in (heads, kv_heads)
            )  # fmt: skip
            if order == "BLHD":
                q, k = q.transpose(1, 2), k.transpose(1, 2)
            size = q.numel() + k.numel()
            source = torch.empty(size, dtype=dtype, device=bench.device).normal_()
            target = torch.empty_like(source)
            runs: dict[str, Run] = {"copy": partial(target.copy_, source)}
            for layout in checks.LAYOUTS:
                by = (q, k, cos, sin, layout)
                runs[layout] = partial(checks.rotated, *by)
                runs[f"{layout}, in place"] = partial(checks.rotated_in_place, *by)
                runs[f"{layout}, backward"] = partial(checks.rotated, *by, inverse=True)
            medians = bench.medians(runs)
            moved = 2 * size * source.element_size()
            rate = moved / medians["copy"] / 1e6
            bench.add(f"copy, {kind}, {moved / 2**20:.0f} MiB moved (ceiling)", rate, "GB/s")
            for name in [name for name in runs if name != "copy"]:
                share = medians["copy"] / medians[name]
                bench.add(f"rotary, {name}, {kind}, {order}: share of copy", share, "", REACH)
            if order == "BHLD":
                time_blocks(bench, q, k, cos, sin, medians["copy"])
                time_peers(bench, q, k, cos, sin)


def time_blocks(bench: Bench, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, copy: float) -> None:
    """Other block sizes than those chosen, to see whether the choice is right."""
    rows = 32 if q.element_size() == 2 else 16
    for heads, tokens, warps in (
        (1, rows, 4), (2, rows // 2, 4), (8, rows // 8, 4), (4, rows // 2, 8), (4, rows // 8, 4),
    ):  # fmt: skip
        blocks = rotate.Blocks(heads, tokens, warps)
        runs: dict[str, Run] = {
            layout: partial(checks.rotated, q, k, cos, sin, layout, blocks=blocks)
            for layout in checks.LAYOUTS
        }
        for layout, taken in bench.medians(runs).items():
            name = f"rotary, {layout}, {str(q.dtype)[6:]}, blocks {heads} x {tokens}, {warps} warps"
            bench.add(f"{name}: share of copy", copy / taken, "")


def time_peers(bench: Bench, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> None:
    """How many times as fast as each peer; long tensors, then one decoded token."""
    for what in ("", ", one token"):
        if what:
            q, k, cos, sin = q[:1, :, -1:], k[:1, :, -1:], cos[-1:], sin[-1:]
        peers = bench.usable(rotary_peers(q, k, cos, sin, compiled=not bench.rehearse))
        ours = partial(checks.rotated, q, k, cos, sin, "half")
        medians = bench.medians({"ours": ours, **peers})
        for peer in peers:
            name = f"rotary{what}, {str(q.dtype)[6:]}: times as fast as {peer}"
            # What one token costs is launching; only long tensors have a reach.
            bench.add(name, medians[peer] / medians["ours"], "x", None if what else 1.0)
    for package in ("transformers", "flash_attn", "liger_kernel"):
        if not find_spec(package):
            bench.add(f"peer {package}: not installed here", None, "")


def time_embedding(bench: Bench) -> None:
    """Lookup x scale + position beside the eager chain."""
    vocabulary, width, count = (40, 16, 12) if bench.rehearse else (128_256, 2048, 16_384)
    table = torch.randn(vocabulary, width, device=bench.device).bfloat16().requires_grad_()
    added = torch.randn(count, width, device=bench.device).bfloat16()
    ids = torch.randint(0, vocabulary, (2, count), device=bench.device)
    places = torch.arange(count, device=bench.device)
    scale = math.sqrt(width)

    with torch.no_grad():
        medians = bench.medians(
            {
                "alone": lambda: functional.embedding(ids, table),
                "chain": lambda: functional.embedding(ids, table) * scale + added[places],
                "ours": lambda: lookup.lookup(ids, table, scale, added, places),
            }
        )
    ours = medians["ours"]
    bench.add("lookup x scale + position: times as fast as F.embedding alone",
              medians["alone"] / ours, "x", 1 / 1.3)  # fmt: skip
    bench.add("lookup x scale + position: times as fast as the chain", medians["chain"] / ours,
              "x", 2.5)  # fmt: skip


def time_attention(bench: Bench) -> None:
    """ALiBi beside plain causal attention and a bias that is built once; forward and backward."""
    heads, length, width = (2, 40, 8) if bench.rehearse else (32, 4096, 64)
    dtype = torch.float32 if bench.rehearse else torch.bfloat16
    q, k, v = (
        torch.randn(1, heads, length, width, device=bench.device, dtype=dtype).requires_grad_()
        for _ in range(3)
    )
    encoding, ids = Alibi(heads), torch.arange(length, device=bench.device)
    slopes = torch.tensor(encoding.slopes, device=bench.device)
    bias = -slopes[:, None, None] * (ids[:, None] - ids)
    bias = bias.masked_fill(ids[:, None] < ids, -math.inf)[None].to(dtype)
    sdpa = functional.scaled_dot_product_attention
    runs: dict[str, Callable[[], Tensor]] = {
        "plain causal (ceiling)": lambda: sdpa(q, k, v, is_causal=True),
        "features": lambda: attention(q, k, v, encoding, position_ids=ids),
        "a dense bias": lambda: sdpa(q, k, v, attn_mask=bias),
    }
    if not bench.rehearse:
        runs["FlexAttention"] = lambda: attention(
            q, k, v, encoding, position_ids=ids, kernel="flex"
        )

    def trained(run: Callable[[], Tensor]) -> Run:
        return lambda: torch.autograd.grad(run().sum(), (q, k, v))

    with torch.no_grad():
        forward = bench.medians(dict(runs))
    both = bench.medians({name: trained(run) for name, run in runs.items()})
    for what, medians in (("forward", forward), ("forward and backward", both)):
        ceiling = medians["plain causal (ceiling)"]
        for name, taken in medians.items():
            bench.add(f"attention, {what}, {name}", taken, "ms")
        bench.add(f"ALiBi by features, {what}: speed beside plain causal",
                  ceiling / medians["features"], "x", 1 / 1.2)  # fmt: skip
        bench.add(f"ALiBi by features, {what}: times as fast as a dense bias",
                  medians["a dense bias"] / medians["features"], "x", 1.4)  # fmt: skip


def main() -> None:
    """Check, time, print the rows and the JSON line, write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--rehearse", action="store_true")
    options = parser.parse_args()
    if not options.rehearse and not torch.cuda.is_available():
        sys.exit(f"No GPU is usable here (torch {torch.__version__}); --rehearse needs none.")
    torch.manual_seed(0)
    card = "a rehearsal on a CPU" if options.rehearse else torch.cuda.get_device_name()
    bench = Bench("cpu" if options.rehearse else "cuda", options.rounds, options.rehearse)
    machine = f"{card}, CUDA {torch.version.cuda}, {platform.machine()}, torch {torch.__version__}"
    name = re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-")
    line = ""
    for part in (run_checks, time_rotary, time_embedding, time_attention):
        part(bench)
        line = json.dumps({"benchmark": "gpu", "machine": machine, "rows": bench.rows})
        # After each part, so that what was measured is there should a later one not end.
        if not options.rehearse:
            options.out.mkdir(parents=True, exist_ok=True)
            (options.out / f"gpu-{name}.json").write_text(line + "\n", encoding="utf-8")
    print(line)
    if any(row["reach"] == 1 and row["unit"] == "" and not row["holds"] for row in bench.rows):
        sys.exit("a check failed; see above")


if __name__ == "__main__":
    main()
