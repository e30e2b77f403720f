"""The heat maps of the README: SmolLM2-135M within and beyond the length it claims.

Three nested proofs with the same seed, four documents each: as shipped, with YaRN by 2, and with
linear interpolation by 2, the latter two without any training. They read about 160,000 tokens;
interrupted, the same command goes on. The maps are written as they come out of `ropewalk prove`.

    python benchmarks/smollm2_maps.py [--runs FOLDER] [--write]

`--write` keeps the result as benchmarks/results/smollm2_maps.txt. The last line is one JSON
object: the share of HITs of each length, and whether it reaches what the schedule promises.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from ropewalk.cli.prove import run_with_progress
from ropewalk.proof.calibration import Calibrate
from ropewalk.proof.cells import Sharing
from ropewalk.proof.prove import Proof, ProofSettings
from ropewalk.report.prove_text import proof_lines

DOCUMENTS = 4
"""Enough to see where facts are found and where not; ten would make a length certain."""
RESULT = Path(__file__).parent / "results" / "smollm2_maps.txt"


@dataclass(frozen=True, slots=True)
class Run:
    """One proof. `expected` gives for a length whether its share of HITs is at least or at most."""

    name: str
    rope: str | None
    lengths: tuple[int, ...]
    expected: dict[int, tuple[str, float]]


RUNS = (
    Run(
        "as-shipped",
        None,
        (2048, 8000, 12000),
        {2048: (">=", 0.9), 8000: (">=", 0.9), 12000: ("<=", 0.25)},
    ),
    Run("yarn-2", "yarn:2", (2048, 12000), {2048: (">=", 0.9), 12000: (">=", 0.5)}),
    Run("linear-2", "linear:2", (2048, 12000), {12000: ("<=", 0.25)}),
)


def prove_one(run: Run, runs: Path) -> Proof:
    """Run one proof, or go on with it."""
    lengths = ",".join(map(str, run.lengths))
    command = f"ropewalk prove smollm2 --lengths {lengths} --trials {DOCUMENTS} --calibrate off"
    return run_with_progress(
        ProofSettings(
            model="smollm2",
            lengths=run.lengths,
            trials=DOCUMENTS,
            sharing=Sharing.NESTED,
            calibrate=Calibrate.OFF,
            rope=run.rope,
            out=runs / run.name,
            command=command + (f" --rope {run.rope}" if run.rope else ""),
        )
    )


def rows_of(run: Run, proof: Proof) -> list[dict[str, object]]:
    """The share of HITs of each length beside what is expected of it."""
    rows: list[dict[str, object]] = []
    for column in proof.summary.columns:
        value = column.pooled.value
        sign, reach = run.expected.get(column.length, ("", None))
        holds = None
        if reach is not None and value is not None:
            holds = value >= reach if sign == ">=" else value <= reach
        rows.append(
            {
                "name": f"{run.name}, {column.length} tokens, share of HITs",
                "value": value,
                "unit": f"of {column.pooled.judged} answers",
                "reach": reach if reach is None else f"{sign} {reach}",
                "holds": holds,
            }
        )
    return rows


def main() -> None:
    """Prove, print the maps and the JSON line, keep them when asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=Path, default=Path("ropewalk-runs/smollm2-maps"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines: list[str] = []
    rows: list[dict[str, object]] = []
    for run in RUNS:
        proof = prove_one(run, options.runs)
        lines += [f"$ {proof.summary.facts['command']}", *proof_lines(proof.summary), ""]
        rows += rows_of(run, proof)
        if proof.result.remaining:
            raise SystemExit(f"{run.name}: {proof.result.remaining} prompts are left; run it again")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    last = json.dumps({"benchmark": "smollm2_maps", "machine": machine, "rows": rows})
    text = "\n".join([*lines, last])
    print(text)
    if options.write:
        RESULT.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
