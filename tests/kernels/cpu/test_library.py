"""The compiled library: that it is there where it must be, and what is said where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ropewalk.errors import UsageError
from ropewalk.kernels.cpu import library as found
from ropewalk.kernels.cpu.library import INSTRUCTION_SETS, Absent, Native, library


@pytest.mark.skipif(
    os.environ.get("ROPEWALK_REQUIRE_KERNELS", "0") in ("", "0"),
    reason="an installation without a compiler has no kernels, which is allowed elsewhere",
)
def test_where_kernels_are_required_they_run() -> None:
    assert isinstance(library(), Native)


def loaded(**environment: str) -> str:
    """What a fresh interpreter finds, printed."""
    code = "from ropewalk.kernels.cpu.library import library; print(library())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_the_environment_selects_the_torch_path() -> None:
    assert loaded(ROPEWALK_KERNELS="torch").startswith("Absent(why='ROPEWALK_KERNELS=torch")


def test_a_choice_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROPEWALK_KERNELS", "cuda")
    with pytest.raises(UsageError, match=r"ROPEWALK_KERNELS is 'cuda'; it may be 'torch'"):
        library.__wrapped__()


def test_an_installation_without_a_library_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ROPEWALK_KERNELS", raising=False)
    monkeypatch.setattr(found, "_path", lambda: None)
    assert library.__wrapped__() == Absent(
        "no compiled kernels were built at installation; install a C++ compiler, then ropewalk "
        "again with: pip install --force-reinstall --no-deps -v ropewalk"
    )


def test_a_library_that_cannot_be_loaded_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "_native.so"
    broken.write_bytes(b"no library")
    monkeypatch.delenv("ROPEWALK_KERNELS", raising=False)
    monkeypatch.setattr(found, "_path", lambda: broken)
    absent = library.__wrapped__()
    assert isinstance(absent, Absent)
    assert absent.why.startswith(f"{broken} cannot be loaded: ")


def test_a_library_of_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(library(), Native):
        pytest.skip("no compiled kernels here")
    monkeypatch.delenv("ROPEWALK_KERNELS", raising=False)
    monkeypatch.setattr(found, "ABI", -7)
    absent = library.__wrapped__()
    assert isinstance(absent, Absent)
    assert "and not -7; install ropewalk again" in absent.why


def test_a_wider_instruction_set_than_the_processor_has_is_not_taken() -> None:
    native = library()
    if not isinstance(native, Native):
        pytest.skip("no compiled kernels here")
    widest = native.instruction_set
    try:
        for name in INSTRUCTION_SETS:
            assert INSTRUCTION_SETS.index(native.use_instruction_set(name)) <= min(
                INSTRUCTION_SETS.index(name), INSTRUCTION_SETS.index(widest)
            )
    finally:
        native.use_instruction_set(widest)


def test_before_torch_is_imported_threads_are_the_librarys_own_and_afterwards_torchs() -> None:
    code = """
import sys
from ropewalk.kernels.cpu.library import library, loaded, threads
before = loaded(), threads(), "torch" in sys.modules
import torch
torch.set_num_threads(2)
after = loaded()
print(getattr(before[0], "openmp", None), *before[1:], after == library(), threads())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "3,2"},
    )
    assert done.stdout.split() == ["None", "3", "False", "True", "2"]


def test_threads_are_those_that_torch_runs_on() -> None:
    import torch

    native = library()
    if not isinstance(native, Native) or "OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("no compiled kernels here, or a torch without OpenMP")
    assert native.openmp is not None
    maps = Path("/proc/self/maps")
    if maps.exists():
        # In a process of its own: other packages bring runtimes of theirs, sentencepiece one.
        ours = "import torch; from ropewalk.kernels.cpu.library import library; library()"
        program = f"{ours}; print(open('/proc/self/maps').read())"
        shown = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
        runtimes = {line.split()[-1] for line in shown.splitlines() if "gomp" in line}
        # Once, not twice: a second runtime would fight with the first for the cores.
        assert runtimes == {str(native.openmp)}
