"""Two real processes over gloo, as torchrun starts them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

LEAVE = """
import os, sys
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
"""
"""The end of a worker: gloo's threads outlive the group, and one that drops a tensor while the
interpreter is taken down aborts the process, in 2 of 300 runs.
"""


def two_ranks(worker: str, *arguments: object, seconds: float) -> list[str]:
    """Run the text of a program as ranks 0 and 1, and wait for both; what each printed.

    One that fails is an error.
    """
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", worker + LEAVE, *map(str, arguments)],
            cwd=ROOT,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=seconds) for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert [process.returncode for process in started] == [0, 0], said
    return [stdout for stdout, _ in said]


def free_port() -> str:
    """A port that nobody listens on now."""
    with socket.socket() as at:
        at.bind(("127.0.0.1", 0))
        return str(at.getsockname()[1])
