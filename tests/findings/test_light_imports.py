"""The audit imports nothing heavy, seen from a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

MODULES = "ropewalk.findings", "ropewalk.findings.live", "ropewalk.report.audit"


def heavy_after(code: str) -> str:
    program = f"{code}\nimport sys\nprint([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", MODULES)
def test_importing_the_audit_imports_neither_torch_nor_numpy(module: str) -> None:
    assert heavy_after(f"import {module}") == "[]"


def test_the_check_itself_can_fail() -> None:
    assert heavy_after("import numpy") == "['numpy']"
