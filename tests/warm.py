"""An interpreter that has imported torch, transformers and us, and forks for each command asked.

The imports take seven seconds and most commands of the tests one. What a forked process does from
there on is its own: arguments, folder, environment, files, signals and the way it ends. Started by
`tests.processes`, with a socket as its standard input.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from typing import NoReturn

# What commands import. What comes of importing ropewalk alone is tested by `subprocess`.
HEAVY = (
    "torch",
    "transformers",
    "transformers.models.auto.modeling_auto",
    "transformers.models.llama.modeling_llama",
    "transformers.generation",
    "accelerate",
    "gguf",
    "openai",
    "pyarrow",
    "pydantic",
    "rich.progress",
    "safetensors.torch",
    "scipy.stats",
    "typer",
    "ropewalk.cli.main",
    "ropewalk.cli.prove",
    "ropewalk.verbs.proving",
    "ropewalk.verbs.running",
    "ropewalk.proof.prove",
    "ropewalk.proof.local",
    "ropewalk.report.prompts",
)
STREAMS = 3


@dataclass(frozen=True, slots=True)
class Asked:
    """A command to run, with the files of its three streams."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


def serve(channel: socket.socket) -> Asked:
    """Fork for whatever is asked; returns in the forked process alone."""
    awake, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Ctrl-C at the terminal is for the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), awake], [], [])
        if awake in ready:
            os.read(awake, 1000)
            _tell_of_ended(ends)
        if channel.fileno() not in ready:
            continue
        message, files, _, _ = socket.recv_fds(channel, 1 << 20, STREAMS + 1)
        if not message:
            _exit(0)
        *streams, end = files
        asked = Asked(**json.loads(message), streams=streams)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for each in (channel.fileno(), awake, wake, end, *ends.values()):
                os.close(each)
            return asked
        for each in streams:
            os.close(each)
        ends[pid] = end
        channel.sendall(pid.to_bytes(8, "little"))


def _tell_of_ended(ends: dict[int, int]) -> None:
    """Write how each ended process ended into its pipe."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        end = ends.pop(pid)
        os.write(end, os.waitstatus_to_exitcode(status).to_bytes(8, "little", signed=True))
        os.close(end)


def become(asked: Asked) -> None:
    """Take on a command's folder, environment, arguments and streams."""
    for number, file in enumerate(asked.streams):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - lives as long as we do
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    os.chdir(asked.folder)
    os.environ.clear()
    os.environ.update(asked.environment)
    # As `python -m` has it: the folder is the first place to import from.
    sys.path[0] = asked.folder
    sys.argv = ["ropewalk", *asked.arguments]


def _exit(code: int) -> NoReturn:
    """End as an interpreter does, but for taking down thousands of imported modules one by one."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def main() -> None:
    """Import what is heavy, serve, and run the command in the forked process."""
    for name in HEAVY:
        importlib.import_module(name)
    gc.collect()
    # Whatever is here now is never looked at again, and its pages stay shared.
    gc.freeze()
    become(serve(socket.socket(fileno=os.dup(0))))
    try:
        runpy.run_module("ropewalk", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            _exit(ended.code or 0)
        raise
    _exit(0)


if __name__ == "__main__":
    main()
