"""Nearest rows of a large table: beside the speed of memory, and beside torch, gensim and faiss.

A table of 128,256 x 2,048 in bfloat16 lies in a file, mapped, its pages in memory. One query is
set beside the fastest of several readers of the same pages, 16 queries beside matrix products.
All run one after the other in every round; medians, and ratios as the median of the rounds'
ratios. Then `ropewalk table MODEL near` is timed as a process of its own on a checkpoint of
40 GB in shards (sparse files, of which only the embedding is written).

    python -m benchmarks.near [--small] [--start]

`--small` runs everything at a fraction of the size, and writes nothing; else the results go to
benchmarks/results/near.md. `--start` times the processes alone, and puts their rows in place of
those that stand there. Needs ropewalk[prove,bench] and 6 GiB of memory. The last line is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.closing import Row, closing_line
from benchmarks.cpu_report import machine
from benchmarks.cpu_timing import Runs, Times, measure
from ropewalk.kernels.arrays import as_tensor
from ropewalk.kernels.cpu.library import native
from ropewalk.tables.open import open_table
from ropewalk.tables.search import neighbours

RESULT = Path(__file__).parent / "results" / "near.md"
K = 10
OURS = "ropewalk near"
READERS = ("torch max int32", "torch sum int64", "torch sum float32")
GENSIM, FAISS = "gensim float32", "faiss flat float32"
BF16, FP32 = "torch bfloat16 product + topk", "torch float32 product + topk"
RENEWED = "Measured anew by `python -m benchmarks.near --start`:"
"""Begins the line of a document that says which of its rows are younger than the others."""


def write_sharded(folder: Path, rows: int, width: int, layers: int, layer_bytes: int) -> Path:
    """A checkpoint as the hub has them: the table in the first shard, a layer in each other."""
    folder.mkdir()
    homes: dict[str, str] = {}
    for shard in range(layers + 1):
        file = f"model-{shard + 1:05d}-of-{layers + 1:05d}.safetensors"
        tensor, shape = "model.embed_tokens.weight", [rows, width]
        if shard:
            tensor = f"model.layers.{shard - 1}.mlp.up_proj.weight"
            shape = [layer_bytes // 2 // width, width]
        size = shape[0] * shape[1] * 2
        entry = {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}
        header = json.dumps({tensor: entry}).encode()
        header += b" " * (-len(header) % 8)
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(header)) + header)
            if not shard:
                torch.manual_seed(0)
                for start in range(0, rows, 8192):
                    part = torch.randn(min(8192, rows - start), width).bfloat16()
                    out.write(part.view(torch.int16).numpy().tobytes())
            out.truncate(8 + len(header) + size)
        homes[tensor] = file
    index = {"metadata": {}, "weight_map": homes}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "llama", "hidden_size": width, "vocab_size": rows}
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    vocab = {f"Ġword{row}": row for row in range(rows)}
    tokenizer = {"model": {"type": "BPE", "vocab": vocab}, "pre_tokenizer": {"type": "ByteLevel"}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def check(rows: Tensor, queries: Tensor) -> None:
    """Order and scores are those of double precision."""
    found = neighbours(rows, queries, K)
    units = torch.nn.functional.normalize(queries.double(), dim=1)
    scores = torch.cat(
        [
            units @ torch.nn.functional.normalize(rows[i : i + 4096].double(), dim=1).T
            for i in range(0, len(rows), 4096)
        ],
        dim=1,
    )
    best = torch.sort(torch.round(scores, decimals=9), dim=1, descending=True, stable=True)
    assert torch.equal(found.ids, best.indices[:, :K])
    torch.testing.assert_close(found.scores, best.values[:, :K], rtol=0, atol=2e-9)


class Peers:
    """The table in float32 as others keep it."""

    def __init__(self, rows: Tensor) -> None:
        import faiss
        from gensim.models import KeyedVectors

        wide = rows.float()
        self.vectors: Any = KeyedVectors(rows.shape[1])
        self.vectors.add_vectors([str(i) for i in range(len(rows))], wide.numpy())
        self.vectors.fill_norms()
        self.wide = torch.from_numpy(self.vectors.vectors)
        self.norms = torch.from_numpy(self.vectors.norms)
        del wide
        self.flat: Any = faiss.IndexFlatIP(rows.shape[1])
        for start in range(0, len(rows), 8192):
            part = self.wide[start : start + 8192]
            self.flat.add(torch.nn.functional.normalize(part, dim=1).numpy())

    def gensim(self, query: Tensor) -> object:
        """Its nearest rows to one vector."""
        return self.vectors.similar_by_vector(query.numpy(), topn=K)

    def faiss(self, queries: np.ndarray[Any, Any]) -> object:
        """Its nearest rows to several."""
        return self.flat.search(queries, K)

    def product(self, units: Tensor) -> object:
        """torch on the float32 rows."""
        return torch.topk(units @ self.wide.T / self.norms, K)


def one_query(rows: Tensor, peers: Peers, rounds: int) -> Times:
    """A vector, beside readers of the same pages and beside peers."""
    query = torch.randn(1, rows.shape[1])
    unit = torch.nn.functional.normalize(query, dim=1)
    half = unit.bfloat16()[0]
    check(rows, query)
    runs: Runs = {
        OURS: lambda: neighbours(rows, query, K),
        READERS[0]: lambda: rows.view(torch.int32).amax(),
        READERS[1]: lambda: rows.view(torch.int64).sum(),
        READERS[2]: lambda: rows.view(torch.float32).sum(),
        BF16: lambda: torch.topk(rows @ half, K),
        GENSIM: lambda: peers.gensim(query[0]),
        FAISS: lambda: peers.faiss(unit.numpy()),
    }
    return measure(runs, rounds)


def many_queries(rows: Tensor, peers: Peers, count: int, rounds: int) -> Times:
    """Several at once."""
    queries = torch.randn(count, rows.shape[1])
    units = torch.nn.functional.normalize(queries, dim=1)
    half = units.bfloat16()
    check(rows, queries)
    runs: Runs = {
        OURS: lambda: neighbours(rows, queries, K),
        FP32: lambda: peers.product(units),
        BF16: lambda: torch.topk(half @ rows.T, K),
        FAISS: lambda: peers.faiss(units.numpy()),
    }
    return measure(runs, rounds)


def command(folder: Path, *arguments: str) -> tuple[float, str]:
    """Seconds of a process from its start to its end, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ropewalk", "table", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - start, done.stdout


def processes(folder: Path, rounds: int) -> Iterator[Row]:
    """`near` on the sharded checkpoint: seconds, bytes, shards."""
    whole, start, text = [], [], ""
    for _ in range(rounds):
        seconds, text = command(folder, "near", "word5", "-k", str(K))
        whole.append(seconds)
        # What is told without a byte of the table is what comes before its first byte.
        start.append(command(folder)[0])
    told = re.search(r"read ([\d,]+) of the table's ([\d,]+) bytes .*?(\d+) file", text)
    assert told is not None, text
    read, size = (int(number.replace(",", "")) for number in told.groups()[:2])
    total = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    yield Row("checkpoint", total / 1e9, "GB")
    yield Row("process before the table's first byte", statistics.median(start), "s", 2.0, True)
    yield Row("process as a whole", statistics.median(whole), "s", 2.0, True)
    yield Row("bytes read / bytes of the table", read / size, "", 1.0, True)
    yield Row("shards opened", float(told[3]), "", 1.0, True)


def compared(times: Times, rows: Tensor, work: str) -> Iterator[Row]:
    """Medians of everything that ran, then the ratios."""
    for name in times.seconds:
        yield Row(f"{work}: {name}", 1000 * times.median(name), "ms")
    if GENSIM in times.seconds:
        best = min((*READERS, BF16), key=times.median)
        speed = rows.nbytes / times.median(best) / 1e9
        yield Row(f"{work}: best reader ({best})", speed, "GB/s")
        yield Row(f"{work}: of the best reader's speed", times.ratio(best, OURS), "", 0.8)
        yield Row(f"{work}: times gensim's speed", times.ratio(GENSIM, OURS), "", 1.4)
        yield Row(f"{work}: times faiss's speed", times.ratio(FAISS, OURS), "", 2.5)
    else:
        yield Row(f"{work}: times torch float32's speed", times.ratio(FP32, OURS), "", 2.0)
        yield Row(f"{work}: times torch bfloat16's speed", times.ratio(BF16, OURS), "")
        yield Row(f"{work}: times faiss's speed", times.ratio(FAISS, OURS), "", 2.0)


def scans(folder: Path, width: int, rounds: int) -> Iterator[Row]:
    """Searches in this process, beside readers and peers."""
    table = open_table(folder)
    start = time.perf_counter()
    pages = table.pages()
    first = None if pages is None else as_tensor(pages)
    assert first is not None
    neighbours(first, torch.randn(width), K)
    yield Row("first query on a fresh mapping", 1000 * (time.perf_counter() - start), "ms")
    peers = Peers(first)
    yield from compared(one_query(first, peers, rounds), first, "1 query")
    yield from compared(many_queries(first, peers, 16, rounds), first, "16 queries")


def markdown(rows: list[Row], load: float) -> str:
    """The whole document."""
    library = native()
    path = "plain torch" if library is None else f"compiled kernels, {library.instruction_set}"
    lines = [
        "# Nearest rows of a table",
        "",
        f"`python -m benchmarks.near` on {machine()}; {path}. The machine is shared with other "
        f"work (load average {load:.1f} when this began), so believe the ratios.",
        "",
        "A table of 128,256 x 2,048 in bfloat16, mapped from its file. All that one row compares "
        "ran one after the other in every round; medians. Order and scores were compared with "
        "double precision before. gensim, faiss and torch float32 hold float32 copies, twice the "
        "bytes; torch bfloat16 rounds queries and scores to 8 bits and divides by no norm.",
        "",
        "| figure | value | to be | holds |",
        "|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(line_of, rows), ""])


def line_of(row: Row) -> str:
    """A row of the document."""
    return f"| {row.name} | {row.value:.4g} {row.unit} | {row.bound} | {row.verdict} |"


def renewed(text: str, rows: list[Row], load: float) -> str:
    """The document with these rows in place of those of the same names, and when they were made."""
    lines = text.partition(f"\n{RENEWED}")[0].splitlines()
    for row in rows:
        (place,) = (i for i, line in enumerate(lines) if line.startswith(f"| {row.name} |"))
        lines[place] = line_of(row)
    names = ", ".join(f'"{row.name}"' for row in rows)
    return "\n".join([*lines, "", f"{RENEWED} {names} (load average {load:.1f}).", ""])


def main() -> None:
    """Measure, print, write the results and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a fraction of the size; no files")
    parser.add_argument("--start", action="store_true", help="the processes alone")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    size = (3000, 256, 3, 1 << 20) if options.small else (128_256, 2048, 40, 1_000_000_000)
    rounds, done = (3 if options.small else 15), []
    with tempfile.TemporaryDirectory() as home:
        folder = write_sharded(Path(home) / "model", *size)
        done += list(processes(folder, 1 if options.small else 5))
        if not options.start:
            done += list(scans(folder, size[1], rounds))
    for row in done:
        print(f"{row.name:<62} {row.value:>10.4g} {row.unit:<5} {row.holds if row.reach else ''}")
    if not options.small:
        old = RESULT.read_text(encoding="utf-8") if options.start else ""
        RESULT.write_text(
            renewed(old, done, load) if options.start else markdown(done, load), encoding="utf-8"
        )
    print(closing_line("near", done, machine=machine()))


if __name__ == "__main__":
    main()
