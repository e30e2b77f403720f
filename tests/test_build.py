"""What an installation makes of a machine with a compiler, and of one without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "src" / "ropewalk" / "kernels" / "cpu"

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or shutil.which("ninja") is None,
    reason="building needs cmake and ninja, which pip would download",
)


def built(kind: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The build backend's own answer, in a build folder of its own."""
    code = f"""
import scikit_build_core.build as backend
settings = {{"build-dir": {str(folder / "build")!r}}}
print(backend.build_{kind}({str(folder)!r}, settings))
"""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ROPEWALK_REQUIRE_KERNELS": "0", **environment},
    )


def test_without_a_compiler_a_package_for_any_machine_is_built_and_the_reason_told(
    tmp_path: Path,
) -> None:
    done = built("wheel", tmp_path, CXX=str(tmp_path / "no-compiler"))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "ropewalk/kernels/reference.py" in names
    assert not [name for name in names if name.endswith((".so", ".cpp", ".h"))]
    assert "installed without its compiled kernels" in done.stdout + done.stderr


def test_where_kernels_are_required_a_missing_compiler_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-compiler")
    done = built("wheel", tmp_path, CXX=missing, ROPEWALK_REQUIRE_KERNELS="1")
    assert done.returncode != 0
    assert "no-compiler" in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_a_source_package_holds_all_that_kernels_are_built_from(tmp_path: Path) -> None:
    done = built("sdist", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in NATIVE.iterdir() if path.is_file()}
    assert {"CMakeLists.txt", "pyproject.toml", *sources} <= names
