"""`benchmarks/gpu.sh`, as far as a machine without a GPU goes: it must not fail on the one with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHON": sys.executable} | changes,
    )


@pytest.mark.heavy
def test_a_rehearsal_runs_every_part_and_claims_no_time(tmp_path: Path) -> None:
    done = run("--rehearse", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    checks = [row for row in result["rows"] if row["value"] is not None]
    assert len(checks) == 4
    assert all(row["holds"] for row in checks)
    timed = " ".join(row["name"] for row in result["rows"] if row["value"] is None)
    for part in ("interleaved", "in place", "backward", "transformers", "lookup", "ALiBi"):
        assert part in timed
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_a_sentence_and_fails() -> None:
    done = run()
    assert done.returncode != 0
    assert done.stderr.startswith("No GPU is usable here")
    assert done.stderr.count("\n") == 1


def test_without_torch_it_says_what_is_missing(tmp_path: Path) -> None:
    script = tmp_path / "benchmarks" / "gpu.sh"
    script.parent.mkdir()
    script.write_bytes(SCRIPT.read_bytes())
    bare = {"PATH": "/usr/bin:/bin", "PYTHON": "/bin/false"}
    # An empty folder as home of the packages: whichever Python is found has none.
    done = subprocess.run(
        ["sh", str(script)], capture_output=True, text=True, check=False,
        env=bare | {"PYTHONHOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "no Python of 3.11 or newer with torch and triton was found" in done.stderr
