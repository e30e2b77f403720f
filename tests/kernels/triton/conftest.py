"""Triton's kernels on the CPU, under its interpreter, in this folder alone.

Whether a kernel is interpreted is settled when its module is imported, so the modules are
imported once more under TRITON_INTERPRET and taken out again: other tests, and what they
compile, see neither these copies nor the variable.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

import pytest

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

ROOM = "ropewalk.kernels.triton"


def taken_out() -> dict[str, ModuleType]:
    """The kernels' modules, no longer known to the interpreter of Python."""
    names = [name for name in sys.modules if name == ROOM or name.startswith(f"{ROOM}.")]
    return {name: sys.modules.pop(name) for name in names}


@pytest.fixture(scope="session")
def interpreted() -> dict[str, ModuleType]:
    """The modules `rotate` and `lookup`, interpreted, by name."""
    before = taken_out()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "TRITON_INTERPRET", "1")
        made = {name: importlib.import_module(f"{ROOM}.{name}") for name in ("rotate", "lookup")}
    taken_out()
    sys.modules.update(before)
    return made


@pytest.fixture(scope="session")
def rotate(interpreted: dict[str, ModuleType]) -> ModuleType:
    return interpreted["rotate"]


@pytest.fixture(scope="session")
def lookup(interpreted: dict[str, ModuleType]) -> ModuleType:
    return interpreted["lookup"]
