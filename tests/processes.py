"""Commands as processes of their own, forked from an interpreter that has imported torch.

`tests.warm` is that interpreter, one for each process of the tests. A command whose interpreter is
what is tested (its environment at start, its imports) is started by `subprocess` instead.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import IO

from tests.warm import STREAMS

ROOT = Path(__file__).parents[1]


class Started:
    """A command that was started: as much of `subprocess.Popen` as the tests need."""

    def __init__(self, arguments: list[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start `ropewalk ARGUMENTS` in `folder`, with pipes for what it prints."""
        out, err = os.pipe(), os.pipe()
        self._end, end = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        asked = {
            "arguments": [str(word) for word in arguments],
            "folder": str(folder),
            "environment": dict(environment),
        }
        channel = _warm()
        theirs = [nothing, out[1], err[1], end]
        assert len(theirs) == STREAMS + 1
        socket.send_fds(channel, [json.dumps(asked).encode()], theirs)
        for each in theirs:
            os.close(each)
        self.pid = int.from_bytes(channel.recv(8), "little")
        assert self.pid, "the interpreter that commands are forked from has ended"
        self.stdout: IO[str] = os.fdopen(out[0], encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err[0], encoding="utf-8")
        self.returncode: int | None = None

    def poll(self, seconds: float = 0.0) -> int | None:
        """The exit code (negative: by that signal), or None while it runs after that time."""
        if self.returncode is None and select.select([self._end], [], [], seconds)[0]:
            self.returncode = int.from_bytes(os.read(self._end, 8), "little", signed=True)
            os.close(self._end)
        return self.returncode

    def wait(self, timeout: float = 240.0) -> int:
        """The exit code, once it has ended; what it printed and nobody read is gone."""
        code = self._ended(timeout)
        self.stdout.close()
        self.stderr.close()
        return code

    def communicate(self, timeout: float = 240.0) -> tuple[str, str]:
        """All that it printed on both streams, once it has ended."""
        said: dict[str, str] = {}

        def listen(name: str, stream: IO[str]) -> None:
            with stream:
                said[name] = stream.read()

        ears = [
            Thread(target=listen, args=(name, stream), daemon=True)
            for name, stream in (("out", self.stdout), ("err", self.stderr))
        ]
        for ear in ears:
            ear.start()
        self._ended(timeout)
        for ear in ears:
            ear.join(timeout)
        return said["out"], said["err"]

    def _ended(self, timeout: float) -> int:
        """The exit code; kills what takes longer."""
        code = self.poll(timeout)
        if code is None:
            self.kill()
            self.poll(60.0)
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it without a word to it."""
        self.send_signal(signal.SIGKILL)


def ran(
    arguments: list[str], folder: Path, environment: Mapping[str, str], timeout: float = 240.0
) -> subprocess.CompletedProcess[str]:
    """Run `ropewalk ARGUMENTS` in `folder` to its end."""
    process = Started(arguments, folder, environment)
    out, err = process.communicate(timeout)
    assert process.returncode is not None
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


@functools.cache
def _warm() -> socket.socket:
    """The way to the interpreter that forks, started when the first command is."""
    ours, theirs = socket.socketpair()
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm"], stdin=theirs.fileno(), cwd=ROOT, env=surroundings
    )
    theirs.close()

    def end() -> None:
        ours.close()
        server.wait(timeout=60)

    atexit.register(end)
    return ours
