"""Every warning of the audit on every published configuration of the tests, to be read by eye.

    python -m benchmarks.audit_warnings

Prints a line for each warning and writes benchmarks/results/warnings.md. A warning is false where a
user who follows it gains nothing; `FALSE` lists those that were found so, each with its reason.
The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError
from ropewalk.findings import audit

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "warnings.md"

FALSE: dict[tuple[str, str], str] = {}
"""Warnings that were read and found false: file and code, with the reason."""


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """The published configurations that the tests hold."""
    for case in json.loads((ROOT / "tests/published/configs.json").read_text(encoding="utf-8")):
        yield case["model"], case["config"]
    own = json.loads((ROOT / "tests/dialects/hf/own_keys.json").read_text(encoding="utf-8"))
    yield from own.items()


def main() -> int:
    """Audit all, print, write. Exit code 1 where more than 2 in 100 files have a false warning."""
    rows, files = [], 0
    for name, config in configurations():
        files += 1
        try:
            found = audit(read_config(config)).findings
        except ConfigError as error:
            rows.append((name, "refused", str(error)))
            continue
        rows += [(name, each.code, each.text) for each in found if each.severity == "warning"]
    false = [row for row in rows if row[:2] in FALSE]
    for name, code, text in rows:
        print(f"{name}: {code}: {text}")
    said = f"{files} files, {len(rows)} warnings, {len(false)} of them false."
    head = ["# Warnings on published configurations", "", said, ""]
    head += ["| file | warning | says | read as |"]
    lines = [
        f"| {name} | {code} | {text.replace('|', '/')} | {FALSE.get((name, code), 'right')} |"
        for name, code, text in rows
    ]
    RESULT.write_text("\n".join([*head, "|---|---|---|---|", *lines, ""]), encoding="utf-8")
    share = len({name for name, _, _ in false}) / files
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs"
    row = {"name": "files with a false warning", "value": round(share, 4), "unit": "share",
           "reach": 0.02, "holds": share <= 0.02}  # fmt: skip
    print(json.dumps({"benchmark": "warnings", "machine": machine, "rows": [row]}))
    return 0 if share <= 0.02 else 1


if __name__ == "__main__":
    sys.exit(main())
