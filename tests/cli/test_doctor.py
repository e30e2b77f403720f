"""What `ropewalk doctor` says of whole and of bare installations."""

from __future__ import annotations

import importlib.metadata
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ropewalk.cli import doctor
from ropewalk.models import resolve

Run = Callable[..., subprocess.CompletedProcess[str]]


def fill(cache: Path) -> None:
    for name, size in (("aaaa-big", 3_200_000), ("bbbb-small", 4_100), (".making-x", 5_000_000)):
        folder = cache / "weights" / name
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes(size))


def test_versions_threads_models_and_caches_are_told(here: Run, tmp_path: Path) -> None:
    fill(tmp_path / "cache")
    done = here("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    for package in ("torch", "transformers", "gguf", "jinja2"):
        assert importlib.metadata.version(package) in done.stdout
    assert "threads, GPU: " in done.stdout
    assert "3 MB aaaa-big" in done.stdout
    assert "4 kB bbbb-small" in done.stdout
    said = " ".join(done.stdout.split())
    assert f"3 MB in {tmp_path / 'cache'} Whatever is deleted there is made again" in said
    assert "making" not in done.stdout


def test_the_path_that_kernels_take_is_told_with_the_reason(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ropewalk.kernels.cpu.library import Native, library

    found = library()
    said = " ".join(run("doctor").stdout.split())
    if isinstance(found, Native):
        assert " kernels compiled, " in said
        assert " threads of " in said
    else:
        assert f" kernels torch: {found.why}" in said
    monkeypatch.setenv("ROPEWALK_KERNELS", "torch")
    assert (
        "kernels   torch: ROPEWALK_KERNELS=torch selects the torch path\n" in run("doctor").stdout
    )


def test_an_empty_cache_is_no_error(here: Run, tmp_path: Path) -> None:
    assert f"0 MB in {tmp_path / 'cache'}" in " ".join(here("doctor").stdout.split())


def test_missing_parts_come_with_the_way_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real = importlib.metadata.version

    def version(package: str) -> str:
        if package in doctor.PARTS:
            raise importlib.metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(resolve, "KNOWN", {"toy": resolve.KnownModel("no_toy", "x", "pip i", "T")})
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path))
    doctor.doctor_command()
    said = capsys.readouterr().out
    assert said.count("missing  ") == len(doctor.PARTS)
    assert f'{len(doctor.PARTS)} missing; get them with: pip install "ropewalk[prove]"' in said
    assert "missing; get it with: pip i" in said
    # Without torch nothing of it can be told, and nothing heavy is imported.
    assert "threads" not in said


def test_a_torch_that_cannot_be_imported_is_said_to_be_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    monkeypatch.setenv("ROPEWALK_CACHE", str(tmp_path))
    doctor.doctor_command()
    assert "installed and cannot be imported" in capsys.readouterr().out


def test_every_optional_part_is_one_that_the_extra_installs_or_brings() -> None:
    wanted = importlib.metadata.requires("ropewalk") or []
    extra = {text.split(">")[0] for text in wanted if "prove" in text}
    # These two come with transformers.
    assert set(doctor.PARTS) - {"tokenizers", "huggingface_hub"} == extra
