"""The transcripts of the README and of docs/, printed by the commands that stand above them.

A block that begins with `$ ropewalk ...` holds what that command prints, in a directory of its
own and 80 columns wide. An HTML comment above it says how much of it is shown and whether it takes
minutes:

    <!-- from "depth"; until "Fields:"; slow -->

The output is shown from the first line that begins with the one, up to the next that begins with
the other.

    python -m benchmarks.readme [--quick]

rewrites the blocks, and keeps the slow commands' whole output in
benchmarks/results/readme.txt. `--quick` leaves the slow ones as they are. The slow ones take
a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCUMENTS = ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))
RESULT = Path(__file__).parent / "results" / "readme.txt"
BLOCK = re.compile(
    r"(?P<head>(?:<!-- (?P<how>[^>]*) -->\n)?```text\n)\$ (?P<command>ropewalk [^\n]*)\n"
    r"(?P<body>.*?)(?P<tail>```)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Transcript:
    """One block: the command as it is typed, what is shown of it, and how it is cut."""

    command: str
    body: str
    since: str | None
    until: str | None
    slow: bool


def transcripts(text: str) -> list[Transcript]:
    """Every block of a document that begins with a command of ours."""
    return [_read(found) for found in BLOCK.finditer(text)]


def _read(found: re.Match[str]) -> Transcript:
    how = found["how"] or ""
    since, until = (re.search(rf'{word} "([^"]+)"', how) for word in ("from", "until"))
    return Transcript(
        found["command"],
        found["body"],
        since[1] if since else None,
        until[1] if until else None,
        "slow" in how.split("; "),
    )


def printed(command: str) -> str:
    """What a command prints on stdout, 80 columns wide; RuntimeError where it fails."""
    words = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def shown(output: str, block: Transcript) -> str:
    """The part of a command's output that a block holds."""
    lines = output.splitlines()
    if block.since is not None:
        lines = lines[_first(lines, block.since) :]
    if block.until is not None:
        lines = lines[: _first(lines, block.until)]
    while lines and not lines[-1].strip():
        lines.pop()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _first(lines: list[str], words: str) -> int:
    found = (n for n, line in enumerate(lines) if line.lstrip().startswith(words))
    return next(found, len(lines))


def main() -> None:
    """Rewrite the blocks of the README and of docs/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="leave what takes minutes as it is")
    options = parser.parse_args()
    kept: list[str] = []

    def again(found: re.Match[str]) -> str:
        block = _read(found)
        if block.slow and options.quick:
            return found[0]
        print(f"$ {block.command}", flush=True)
        output = printed(block.command)
        if block.slow:
            kept.append(f"$ {block.command}\n{output}")
        return f"{found['head']}$ {block.command}\n{shown(output, block)}{found['tail']}"

    for document in DOCUMENTS:
        before = document.read_text(encoding="utf-8")
        after = BLOCK.sub(again, before)
        if after != before:
            document.write_text(after, encoding="utf-8")
    if not options.quick:
        RESULT.write_text("\n".join(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
