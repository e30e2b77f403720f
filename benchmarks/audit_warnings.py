"""Every warning of the audit on every published configuration of the tests, each read by eye.

    python -m benchmarks.audit_warnings

Prints a line for each warning and writes benchmarks/results/warnings.md. `audit_warnings.toml` has
what a person found who read the warning against the model's code or report: "right", or "false"
where a user who follows it gains nothing, each with the reason. A warning without a reading is
told as not read, and is counted for none of the two. The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError
from ropewalk.findings import audit

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "warnings.md"
READ = Path(__file__).with_suffix(".toml")
REACH = 0.02
"""Share of files that may have a false warning."""
UNREAD = ("not read", "")


class Row(NamedTuple):
    """A warning on a file, and what was found by reading it."""

    file: str
    code: str
    text: str
    verdict: str
    reason: str


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """The published configurations that the tests hold, reduced to their telling keys."""
    for name in ("configs", "further"):
        path = ROOT / f"tests/published/{name}.json"
        for case in json.loads(path.read_text(encoding="utf-8")):
            yield case["model"], case["config"]
    own = json.loads((ROOT / "tests/dialects/hf/own_keys.json").read_text(encoding="utf-8"))
    yield from own.items()


def readings() -> dict[tuple[str, str], tuple[str, str]]:
    """Verdict and reason by file and code. A file and a code are read once."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for each in tomllib.loads(READ.read_text(encoding="utf-8"))["read"]:
        key = each["file"], each["code"]
        if key in found or each["verdict"] not in ("right", "false") or not each["reason"]:
            raise ValueError(f"{READ.name}: {key} has no verdict with a reason, or has two")
        found[key] = each["verdict"], each["reason"]
    return found


def rows() -> tuple[int, list[Row], list[tuple[str, str]]]:
    """How many files, every warning on them, and readings of warnings that no longer come."""
    said, found, files = readings(), [], 0
    for name, config in configurations():
        files += 1
        try:
            told = audit(read_config(config)).findings
        except ConfigError as error:
            found.append(Row(name, "refused", str(error), *said.get((name, "refused"), UNREAD)))
            continue
        found += [
            Row(name, each.code, each.text, *said.get((name, each.code), UNREAD))
            for each in told
            if each.severity == "warning"
        ]
    left = sorted(set(said) - {(row.file, row.code) for row in found})
    return files, found, left


def main() -> int:
    """Audit all, print, write. Exit code 1 where more than 2 in 100 files have a false warning, a
    warning was not read, or a reading is left over.
    """
    files, found, left = rows()
    count = {verdict: sum(row.verdict == verdict for row in found) for verdict in
             ("right", "false", UNREAD[0])}  # fmt: skip
    for row in found:
        print(f"{row.file}: {row.code}: {row.verdict}: {row.text}")
    for file, code in left:
        print(f"{READ.name}: {file}: {code}: no such warning any more")
    told = ", ".join(f"{number} {verdict}" for verdict, number in count.items())
    head = ["# Warnings on published configurations", ""]
    head += [f"{files} files, {len(found)} warnings: {told}.", ""]
    head += ["| file | warning | says | read as | because |", "|---|---|---|---|---|"]
    lines = ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in found]
    RESULT.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")
    share = len({row.file for row in found if row.verdict == "false"}) / files
    holds = share <= REACH and not count[UNREAD[0]] and not left
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    value = {"name": "files with a false warning", "value": round(share, 4), "unit": "share",
             "reach": REACH, "holds": holds}  # fmt: skip
    print(json.dumps({"benchmark": "warnings", "machine": machine, "rows": [value]}))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
