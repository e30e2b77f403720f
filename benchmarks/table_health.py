"""How long `ropewalk table MODEL health` takes on a table of 128,256 x 2,048, and what it holds.

A table of that size is written in bf16 with a vocabulary beside it: rows about a common vector and
a spectrum that falls, as trained tables have them, with planted zero, NaN, equal and unused rows.
The command runs in a fresh process, and what it found is checked against what was planted. Printed
are the seconds of each part, the whole time from the shell, and the most memory of its own that
the process held (resident and anonymous: pages of the mapped file are the file's), beside the same
for a command that reads one row, which is the interpreter and torch.

    python benchmarks/table_health.py [--rows 128256] [--width 2048] [--rounds 3]

Needs ropewalk[prove]. The last line is one JSON object; the reach is 60 s on 2 cores, and memory
beyond that of one row that stays below the size of the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

REACH = 60.0
MIB = 2**20

ZERO, NAN, COPY, UNUSED, PLANTED = 5, 6, (100, 200, 300), range(1000, 1256), (5000, 5001)


@dataclass(frozen=True)
class Ran:
    """One run of a command: its output, its seconds, the most bytes of its own that it held."""

    output: str
    seconds: float
    held: int


def write(folder: Path, rows: int, width: int) -> None:
    """The table and its vocabulary."""
    generator = torch.Generator().manual_seed(0)
    common = torch.randn(width, generator=generator) / width**0.5
    scales = torch.arange(1, width + 1).pow(-0.3)
    table = torch.empty(rows, width, dtype=torch.bfloat16)
    for start in range(0, rows, 8192):
        part = table[start : start + 8192]
        noise = torch.randn(len(part), width, generator=generator)
        part.copy_(0.05 * noise * scales + common)
    place = 0.01 * torch.randn(width, generator=generator)
    for row in (*UNUSED, *PLANTED):
        table[row] = place + 0.0005 * torch.randn(width, generator=generator)
    table[ZERO] = 0.0
    table[NAN, 3] = torch.nan
    table[list(COPY)] = table[COPY[0]].clone()
    save_file({"model.embed_tokens.weight": table}, folder / "model.safetensors")
    pieces = [f"[unused{n}]" if n in UNUSED else f"token{n}" for n in range(rows)]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))


def run(arguments: list[str]) -> Ran:
    """`ropewalk ARGUMENTS` in a fresh process, watched every 20 ms."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ropewalk", *arguments], stdout=output, stderr=subprocess.DEVNULL
        )
        held = 0
        while process.poll() is None:
            held = max(held, anonymous(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(f"ropewalk {arguments} ended with {process.returncode}")
        output.seek(0)
        return Ran(output.read(), seconds, held)


def anonymous(pid: int) -> int:
    """Resident bytes of a process that belong to no file; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def check(found: dict[str, Any], rows: int) -> None:
    """What was planted was found."""
    assert found["zero"]["ranges"] == [[ZERO, ZERO]]
    assert found["not_finite"]["ranges"] == [[NAN, NAN]]
    assert found["counted"] == rows - 2
    (group,) = found["duplicates"]["largest"]
    assert [first for first, _ in group["ranges"]] == list(COPY)
    undertrained = found["undertrained"]
    assert undertrained["unused"] == len(UNUSED)
    assert {one["row"] for one in undertrained["candidates"][:2]} == set(PLANTED)
    before, after = found["isotropy"]["before"], found["isotropy"]["after"]
    assert before["pair_cosine"] > 0.5 > 0.05 > abs(after["pair_cosine"])


def main() -> None:
    """Write, measure, check, print a table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=128_256)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = options.rows * options.width * 2
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), options.rows, options.width)
        one = run(["table", name, "near", "--id", "7", "-k", "1"])
        runs = []
        for number in range(options.rounds):
            runs.append(run(["table", name, "health", "--json"]))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    documents = [json.loads(done.output) for done in runs]
    for found in documents:
        check(found, options.rows)
    rows: list[dict[str, object]] = []
    for part in documents[0]["seconds"]:
        value = statistics.median(found["seconds"][part] for found in documents)
        rows.append({"name": part, "value": round(value, 2), "unit": "s", "reach": None,
                     "holds": None})  # fmt: skip
    whole = statistics.median(done.seconds for done in runs)
    held = max(done.held for done in runs)
    rows += [
        {"name": "whole command", "value": round(whole, 2), "unit": "s", "reach": REACH,
         "holds": whole <= REACH},
        {"name": "memory held, one row read", "value": round(one.held / MIB), "unit": "MiB",
         "reach": None, "holds": None},
        {"name": "memory held beyond that", "value": round((held - one.held) / MIB),
         "unit": "MiB", "reach": round(size / MIB), "holds": held - one.held < size},
    ]  # fmt: skip
    print(f"{options.rows:,} x {options.width:,} bf16, {size / MIB:,.0f} MiB; median of "
          f"{options.rounds}")  # fmt: skip
    for row in rows:
        verdict = "" if row["holds"] is None else f"   holds: {row['holds']}"
        print(f"{row['name']:<28}{row['value']:>9} {row['unit']}{verdict}")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(json.dumps({"benchmark": "table_health", "machine": machine, "rows": rows}))


if __name__ == "__main__":
    main()
