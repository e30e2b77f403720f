"""Rotary, embedding and ALiBi on this CPU: beside the speed of memory and beside peers.

Every row times ours, its ceiling and its peers one after the other in each round and takes
medians; results are compared before. At full size the run takes less than 15 minutes on two
cores and 8 GiB of memory, and rewrites benchmarks/results/cpu-MAKER.md and .svg: makers of
processors differ in what is slow on them, so each keeps its own last result.

    python -m benchmarks.cpu [--small] [--only rotary,embedding,alibi,model,growth]

`--small` runs everything at a fraction of the size, to see that it runs, and writes nothing.
Needs ropewalk[prove,bench]. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks import cpu_attention, cpu_embedding, cpu_model, cpu_report, cpu_rotary
from benchmarks.cpu_timing import Row

RESULTS = Path(__file__).parent / "results"
PARTS = ("rotary", "embedding", "alibi", "model", "growth")


def rotary(small: bool) -> Iterator[Row]:
    """In place in both dtypes, out of place, training, decoding, tables."""
    length, rounds = (128, 3) if small else (4096, 21)
    yield from cpu_rotary.in_place(length, torch.float32, rounds, peers=True)
    yield from cpu_rotary.in_place(length, torch.bfloat16, rounds, peers=not small)
    yield cpu_rotary.out_of_place(length, rounds)
    yield cpu_rotary.forward_backward(length, rounds)
    yield cpu_rotary.one_token(rounds)
    yield from cpu_rotary.table_building((128, 512) if small else (4096, 131072), rounds)


def rows(parts: set[str], small: bool) -> Iterator[Row]:
    """The rows of these parts."""
    if "rotary" in parts:
        yield from rotary(small)
    if "embedding" in parts:
        sizes = (2, 64, 1000, 128) if small else (4, 4096, 128256, 2048)
        yield from cpu_embedding.rows(*sizes, rounds=3 if small else 9)
    if "alibi" in parts:
        sizes_of_heads = (128, 2, 32) if small else (2048, 8, 64)
        yield from cpu_attention.rows(*sizes_of_heads, rounds=3 if small else 11)
    if "model" in parts:
        yield cpu_model.prefill(64 if small else 4096, rounds=2 if small else 3)


def tell(row: Row) -> None:
    """A row as it comes."""
    print(f"{row.work}   {'' if row.holds is None else f'holds: {row.holds}'}")
    for name, seconds in row.seconds.items():
        print(f"    {cpu_report.milliseconds(seconds):>8} ms  {name}")
    for text in (*map(str, row.reaches), *row.notes):
        print(f"    {text}")
    sys.stdout.flush()


def main() -> None:
    """Measure, print, write the results and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a fraction of the size; no files")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    options = parser.parse_args()
    parts = set(options.only.split(","))
    if not parts <= set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}")
    start, done = time.perf_counter(), []
    for row in rows(parts, options.small):
        tell(row)
        done.append(row)
    grown: dict[str, list[dict[str, float]]] = {}
    if "growth" in parts:
        sizes = {"length": [64, 128], "heads": [2, 4], "batch": [1, 2]}
        if not options.small:
            sizes = {
                "length": [1024, 2048, 4096, 8192, 16384],
                "heads": [4, 8, 16, 32, 64],
                "batch": [1, 2, 4, 8, 16],
            }
        grown = cpu_rotary.growth(sizes, 3 if options.small else 7)
    minutes = (time.perf_counter() - start) / 60
    print(f"{minutes:.1f} minutes")
    if not options.small and parts == set(PARTS):
        result = RESULTS / f"cpu-{cpu_report.maker()}.md"
        picture = result.with_suffix(".svg")
        picture.write_text(cpu_report.plot(grown), encoding="utf-8")
        result.write_text(cpu_report.markdown(done, picture.name, minutes), encoding="utf-8")
    results = [
        {
            "name": row.work,
            "seconds": {name: round(value, 8) for name, value in row.seconds.items()},
            "reach": {
                reach.what: {"value": round(reach.value, 3), "bound": reach.bound}
                for reach in row.reaches
            },
            "holds": row.holds,
        }
        for row in done
    ]
    print(
        json.dumps(
            {"benchmark": "cpu", "machine": cpu_report.machine(), "rows": results, "growth": grown}
        )
    )


if __name__ == "__main__":
    main()
