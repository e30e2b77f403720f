"""A proof killed by SIGKILL at random moments and gone on with, beside one left alone.

A small model of random weights (SmolLM2's tokenizer) is proved by the command itself, as branches
with a short calibration. Every process is forked from one that has imported torch, so that moments
fall on the work rather than on imports; it loads the model and runs `ropewalk prove` as a shell would.
What is compared at the end: the kept answers, cell by cell (outcome, what was printed,
log-probability to 1e-4: after a kill other prompts stand side by side in a pass), and the table
that the command draws.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import resolve
from ropewalk.proof.cells import Cell, Row, Sharing
from ropewalk.proof.statistics.tally import summary_of
from ropewalk.proof.store import Store
from ropewalk.report.lines import text_lines
from ropewalk.report.proof_map import heat_map

GRID = "--lengths 160,320,640 --depths 5 --trials 4 --sharing branches --threshold absolute:0.5"


def small_model(folder: Path) -> None:
    """A llama of two layers and random weights, with SmolLM2's tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    device, dtype = check_device("cpu", "fp32")
    loaded = load(resolve("smollm2"), device=device, dtype=dtype)
    torch.manual_seed(0)
    config: Any = LlamaConfig(
        vocab_size=loaded.model.config.vocab_size,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.2,
        tie_word_embeddings=True,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)


def begin(model: Path, out: Path, log: Path) -> int:
    """Fork a process that runs the command; its id."""
    child = os.fork()
    if child:
        return child
    try:
        # A group of its own, and nothing on our terminal.
        with log.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.argv = ["ropewalk", "prove", str(model), *GRID.split(), "--out", str(out)]
        from ropewalk.cli.main import main as command

        command()
    finally:
        os._exit(1 if sys.exc_info()[0] not in (None, SystemExit) else 0)


def kept(folder: Path) -> list[Row]:
    """The answers of a run folder; none where there are none yet."""
    if not (folder / "results.sqlite").is_file():
        return []
    with Store.read(folder) as store:
        return store.rows()


def table(folder: Path) -> tuple[object, ...]:
    """What the run says in the end: the map as it is drawn, and every verdict in words."""
    with Store.read(folder) as store:
        facts = store.facts()
        found = summary_of(store.rows(), facts)
    verdicts = (found.columns, found.effective, found.controls, facts.calibration)
    return (text_lines([heat_map(found)], 80), *verdicts)


def through(model: Path, out: Path, log: Path) -> float:
    """Run the command to its end; the seconds it took."""
    begun = time.perf_counter()
    _, status = os.waitpid(begin(model, out, log), 0)
    assert os.WIFEXITED(status), status
    assert os.WEXITSTATUS(status) == 0, log.read_text()[-2000:]
    return time.perf_counter() - begun


def answers(rows: list[Row]) -> dict[tuple[Cell, Sharing], Row]:
    """Rows by what was asked; raises AssertionError for a cell that is there twice."""
    found = {(row.cell, row.sharing): row for row in rows}
    assert len(found) == len(rows), "a trial was kept twice"
    return found


def same(one: list[Row], other: list[Row]) -> None:
    """Assert that two runs hold the same answers."""
    left, right = answers(one), answers(other)
    assert left.keys() == right.keys(), "a trial was lost"
    for asked, row in left.items():
        beside = right[asked]
        assert (row.prompt_hash, row.answer.outcome, row.answer.printed) == (
            beside.prompt_hash,
            beside.answer.outcome,
            beside.answer.printed,
        )
        assert abs((row.answer.log_probability or 0) - (beside.answer.log_probability or 0)) < 1e-4


def killed(wanted: int, seed: int = 0) -> dict[str, object]:
    """Kill `wanted` times in as many runs as that takes, and compare each with one left alone."""
    import torch

    # A process that forks must have no threads of its own.
    torch.set_num_threads(1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    random = Random(seed)
    kills = runs = 0
    progress: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        model, log = folder / "model", folder / "log"
        small_model(model)
        seconds = through(model, folder / "alone", log)
        undisturbed = kept(folder / "alone")
        while kills < wanted:
            out, runs = folder / f"killed-{runs}", runs + 1
            while kills < wanted:
                child = begin(model, out, log)
                time.sleep(random.random() * seconds * 0.6)
                before = len(kept(out))
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                if not os.WIFSIGNALED(status):
                    break
                kills += 1
                now = kept(out)
                answers(now)
                assert len(now) >= before, "an answer that was kept is gone"
                stage = "before the first answer" if not now else "among the answers"
                progress["after the last" if len(now) == len(undisturbed) else stage] += 1
            through(model, out, log)
            same(kept(out), undisturbed)
            assert table(out) == table(folder / "alone")
    return {
        "kills": kills,
        "moments": dict(progress),
        "runs": runs,
        "answers a run": len(undisturbed),
        "seconds of a run left alone": round(seconds, 1),
        "equal": True,
    }
