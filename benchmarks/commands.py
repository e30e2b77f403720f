"""The README's commands and the demo's, typed one after another in one directory.

Each has to end with exit code 0. A proof is also made in a fresh directory, where it has to print
the same table: what else lies in a directory changes no answer.

    python -m benchmarks.commands [--short]

`--short` takes commands of seconds, on the embedded model, and is what the tests run; without it
the long ones on SmolLM2 follow, which takes most of an hour on two cores and rewrites
benchmarks/results/commands.txt. Needs ropewalk[prove,look]. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "commands.txt"

SHORT = """
audit tiny
audit tiny --engines
prove tiny --lengths 128,256 --trials 2
prove tiny --lengths 128,256,512 --trials 2
prove tiny --lengths 128,256 --trials 3
prove tiny --lengths 128,256 --trials 2
prove tiny --lengths 128,256 --trials 2 --rope yarn:2 --out scaled
prove tiny --lengths 128,256 --trials 2 --out shipped
prove diff shipped scaled
show shipped
convert tiny --to vllm
convert tiny --to llamacpp --rope yarn:2
trace tiny "The cat sat"
explain order
explain scale
explain encodings
explain join tiny
doctor
loss tiny --length 256 --window 128 --stride 64
extend tiny --to 512 --method yarn --out longer
pack texts --tokenizer tiny --length 256 --out rows.parquet
tune longer --data texts --steps 2 --rows 1 --length 256 --trials 1 --out tuned
table smollm2 near king --minus man --plus woman -k 2
table tiny
table tiny near the
table tiny similarity the of and
table tiny health
table tiny positions
table tiny clusters
table tiny map --html map.html
table tiny compare longer
table tiny context bank "the bank of the river" "money in the bank"
table tiny export --npy rows.npy
"""
"""As the README has them, with a model and sizes that take seconds."""

LONG = """
demo
demo --full
prove smollm2 --lengths 512,1024,2048,4096,8192,12288 --depths 5 --minutes 3.8 --calibrate off
"""
"""The demo, and the README's proofs as they stand there; what the demo prints to try next is added.
Left out: `extend smollm2` and `compare`, which have results and commands of their own."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has run: how it ended, in seconds, and what it printed on stdout."""

    command: str
    code: int
    seconds: float
    out: str
    err: str

    @property
    def table(self) -> list[str]:
        """What a proof printed of its answers: all before the facts, which also hold its pace."""
        lines = self.out.splitlines()
        facts = (number for number, line in enumerate(lines) if line.startswith("model:"))
        return lines[: next(facts, len(lines))]


def run(command: str, folder: Path) -> Ran:
    """Type a command in a folder."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ropewalk", *shlex.split(command)],
        cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return Ran(command, done.returncode, time.perf_counter() - begun, done.stdout, done.stderr)


def lines(text: str) -> list[str]:
    """The commands of a list."""
    return [line for line in text.splitlines() if line.strip()]


def next_to_try() -> list[str]:
    """What the demo prints under "What to try next", but for another model's path."""
    from ropewalk.cli.demo import NEXT

    commands = [command.removeprefix("ropewalk ") for command, _ in NEXT]
    return [command for command in commands if not command.endswith("PATH")]


def told(command: str) -> bool:
    """Whether a command prints a proof's table."""
    return command.startswith("prove ") and not command.startswith("prove diff")


def in_order(
    commands: list[str], folder: Path, run: Callable[[str, Path], Ran] = run
) -> tuple[list[Ran], list[str]]:
    """Run them all in `folder`; what ran, and what went wrong, in words."""
    ran, wrong = [], []
    fresh: dict[str, list[str]] = {}
    for command in commands:
        done = run(command, folder)
        ran.append(done)
        print(f"{done.seconds:7.1f} s  exit {done.code}  ropewalk {command}", flush=True)
        if done.code:
            wrong.append(f"ropewalk {command}: exit {done.code}\n{done.err}")
        elif told(command):
            if command not in fresh:
                with tempfile.TemporaryDirectory() as empty:
                    fresh[command] = run(command, Path(empty)).table
            if done.table != fresh[command]:
                both = "\n".join(["here:", *done.table, "in a fresh directory:", *fresh[command]])
                wrong.append(f"ropewalk {command}: another table than a fresh directory's\n{both}")
    return ran, wrong


def prepare(folder: Path) -> None:
    """Texts to pack and to train on."""
    from random import Random

    from ropewalk.proof.haystack import GeneratedHaystack

    (folder / "texts").mkdir()
    for number in range(3):
        sentences = GeneratedHaystack(Random(number)).sentences()
        text = " ".join(next(sentences) for _ in range(60))
        (folder / "texts" / f"{number}.txt").write_text(text, encoding="utf-8")


def main() -> int:
    """Run the commands, print them, and the JSON line. Exit code 1 where one went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="commands of seconds; no file")
    options = parser.parse_args()
    commands = lines(SHORT)
    if not options.short:
        commands += dict.fromkeys([*lines(LONG), *next_to_try()])
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        ran, wrong = in_order(commands, Path(folder))
    for sentence in wrong:
        print(sentence)
    rows = [
        {"name": f"ropewalk {each.command}", "value": round(each.seconds, 1), "unit": "s",
         "reach": None, "holds": each.code == 0}
        for each in ran
    ]  # fmt: skip
    proofs = sum(told(each.command) for each in ran)
    rows.append(
        {"name": "proofs with the table of a fresh directory", "value": proofs - sum(
            "another table" in sentence for sentence in wrong
        ), "unit": "proofs", "reach": proofs, "holds": not wrong}
    )  # fmt: skip
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    closing = json.dumps({"benchmark": "commands", "machine": machine, "rows": rows})
    print(closing)
    if not options.short and not wrong:
        table = [
            f"{each.seconds:7.1f} s  exit {each.code}  ropewalk {each.command}" for each in ran
        ]
        RESULT.write_text("\n".join([*table, closing, ""]), encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
