"""`benchmarks/gpu_tune.sh`, as far as a machine without a GPU goes."""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_parts as parts
from benchmarks.gpu_plan import LEAST_STEPS, Probe, Shape, planned, unfit
from benchmarks.gpu_tune import END, MINUTES, PART_BYTES, PROBE_SECONDS, probed

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "benchmarks" / "gpu_tune.sh"

SMOLLM2 = Shape(134_515_008, 30, 576)
FIT = Probe("a card", 139.0, 780.0, 4096, 0.1, 6.0, SMOLLM2)


def _sent(folder: Path, number: int, target: Path) -> None:
    """A part on its way to the other machine."""
    name = f"part-{number:02}"
    (target / name).write_bytes((folder / name).read_bytes())


def test_parts_are_small_and_together_are_what_was_cut(tmp_path: Path) -> None:
    whole, here, there = tmp_path / "whole.bin", tmp_path / "here", tmp_path / "there"
    whole.write_bytes(bytes(range(256)) * 40 + b"rest")
    there.mkdir()
    made = parts.split(whole, here, 3000)
    assert [part.stat().st_size for part in made] == [3000, 3000, 3000, 1244]
    (there / parts.MANIFEST).write_bytes((here / parts.MANIFEST).read_bytes())
    for number in (2, 0, 3):
        _sent(here, number, there)
    assert parts.missing(there) == ["part-01"]
    with pytest.raises(parts.PartsError, match="part-01 of 4 parts are not in"):
        parts.join(there, tmp_path / "joined.bin")
    assert not list(tmp_path.glob("*joined*"))
    _sent(here, 1, there)
    assert parts.missing(there) == []
    assert parts.join(there, tmp_path / "joined.bin").read_bytes() == whole.read_bytes()


def test_a_part_that_was_damaged_or_is_of_another_archive_is_named(tmp_path: Path) -> None:
    whole, here = tmp_path / "whole.bin", tmp_path / "here"
    whole.write_bytes(b"a" * 50 + b"b" * 50)
    _, second = parts.split(whole, here, 50)
    second.write_bytes(b"b" * 49)
    with pytest.raises(parts.PartsError, match=r"part-01 of 2 parts .* damaged; send them again"):
        parts.join(here, tmp_path / "joined.bin")
    # Parts that fit their own checksums, under the whole of another archive.
    second.write_bytes(b"b" * 50)
    about = json.loads((here / parts.MANIFEST).read_text())
    (here / parts.MANIFEST).write_text(json.dumps(about | {"sha256": "0" * 64}))
    with pytest.raises(parts.PartsError, match=r"together are not whole\.bin"):
        parts.join(here, tmp_path / "joined.bin")
    (here / parts.MANIFEST).write_text(json.dumps(about | {"name": "../../etc"}))
    with pytest.raises(parts.PartsError, match="names files outside its folder"):
        parts.join(here, tmp_path / "joined.bin")
    (here / parts.MANIFEST).unlink()
    with pytest.raises(parts.PartsError, match="send it with the first part"):
        parts.missing(here)
    # Fewer parts than before: the old ones go.
    parts.split(whole, here, 100)
    assert sorted(path.name for path in here.iterdir()) == ["part-00", parts.MANIFEST]


def test_the_archive_holds_a_model_texts_and_packages_that_can_be_imported(tmp_path: Path) -> None:
    model, texts = tmp_path / "a.gguf", tmp_path / "texts.jsonl"
    model.write_bytes(b"GGUF")
    texts.write_text('{"text": "x"}\n')
    parts.pack_up(model, texts, tmp_path / "all.tar.gz")
    with tarfile.open(tmp_path / "all.tar.gz") as archive:
        names = archive.getnames()
    assert not [name for name in names if ".pyc" in name or ".." in name]
    inside = parts.unpacked(tmp_path / "all.tar.gz", tmp_path / "inside")
    assert (inside / "model" / "a.gguf").read_bytes() == b"GGUF"
    for package in ("gguf", "platformdirs"):
        assert (inside / "packages" / package / "__init__.py").is_file()
    for package in parts.PACKAGES:
        assert list((inside / "packages").glob(f"{package}-*.dist-info/METADATA"))


def test_the_plan_fits_into_nine_minutes_and_the_parts_under_sixty_megabytes() -> None:
    assert PART_BYTES < 60e6
    whole = 60 * MINUTES - END
    plan = planned(FIT, 32_768, whole, spent=PROBE_SECONDS, rows=4, steps=None)
    # 8 tokens for one at a time; the pairs of tokens, 64 for one.
    linear, pairs = 8 * SMOLLM2.parameters * 4096, 4 * 30 * 576 * 4096**2
    assert plan.row_seconds == pytest.approx(0.1 * (8 * linear + 64 * pairs) / (linear + pairs))
    took = PROBE_SECONDS + plan.steps * 4 * plan.row_seconds + 2 * plan.proof + plan.writing
    assert took <= whole
    assert took + END <= 540
    assert plan.steps > LEAST_STEPS
    assert unfit(FIT, plan, 32_768) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tflops": 7.5}, "multiplies bf16 matrices at 7.5 TFLOP/s, and 20 are needed"),
        ({"memory": 23.0}, "has 23 GiB, and a row of 32,768 tokens would take about 48"),
        ({"seconds": 2.0}, "only 1 steps of 4 rows fit into"),
    ],
)
def test_a_gpu_that_will_not_do_is_told_why(changes: dict[str, float], words: str) -> None:
    probe = replace(FIT, **changes)  # type: ignore[arg-type]
    plan = planned(probe, 32_768, 525, spent=PROBE_SECONDS, rows=4, steps=None)
    assert words in str(unfit(probe, plan, 32_768))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_how_to_rehearse() -> None:
    with pytest.raises(SystemExit, match="no GPU can be used here, so nothing was done; --device"):
        probed("cuda")


def test_the_script_is_a_script_that_any_shell_can_run() -> None:
    assert SCRIPT.stat().st_mode & 0o111
    checked = subprocess.run(["sh", "-n", str(SCRIPT)], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
