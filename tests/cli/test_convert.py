"""`convert` and `audit --engines` as a user runs them: one line out, whole files, one sentence."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.gguf import read_gguf
from ropewalk.dialects.hf import read_config
from ropewalk.dialects.vllm import read_overrides
from ropewalk.rope.frequencies import schedule
from ropewalk.rope.schedules import Yarn
from ropewalk.rope.spec import RotarySpec
from tests.configurations import source

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path, llama_config: dict[str, Any]) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(llama_config))
    return made


def scaling_of(spec: Any) -> object:
    (_, rotary) = next(spec.rotary_groups())
    assert isinstance(rotary, RotarySpec)
    return rotary.scaling


def test_vllm_gets_one_line_and_stderr_says_whose_rules(
    run: Run, folder: Path, llama_config: dict[str, Any]
) -> None:
    done = run("convert", folder, "--to", "vllm", "--rope", "yarn:2")
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    found = read_overrides(done.stdout, source(llama_config))
    assert (found.claimed.tokens, scaling_of(found)) == (8192, Yarn(2.0, 4096))
    assert "rules as of vLLM 0.32" in done.stderr
    assert "claimed length 8192" in done.stderr


def test_llamacpp_gets_one_line(run: Run, smollm2_gguf: Path) -> None:
    done = run("convert", smollm2_gguf, "--to", "llamacpp", "--rope", "yarn:2")
    assert done.stdout == (
        "--rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 8192 --rope-freq-base 100000 "
        "--ctx-size 16384 --override-kv llama.context_length=int:16384\n"
    )


@pytest.mark.parametrize("rope", [(), ("linear:2",), ("ntk:2",), ("base:300000",)])
def test_llamacpp_is_told_a_length_beyond_the_files_own(
    run: Run, smollm2_gguf: Path, rope: tuple[str, ...]
) -> None:
    """Its server stops at the 8192 tokens that the file claims, whatever --ctx-size says."""
    schedules = [word for each in rope for word in ("--rope", each)]
    asked = ("convert", smollm2_gguf, "--to", "llamacpp", *schedules, "--length")
    limit = "--override-kv llama.context_length=int:16384"
    assert run(*asked, "16384").stdout.endswith(f"--ctx-size 16384 {limit}\n")
    assert "--override-kv" not in run(*asked, "8192").stdout


def test_a_schedule_starts_from_the_length_that_is_given_or_that_its_publisher_has(
    run: Run, folder: Path, llama_config: dict[str, Any]
) -> None:
    qwen3 = {**llama_config, "model_type": "qwen3", "max_position_embeddings": 40960}
    (folder / "config.json").write_text(json.dumps(qwen3))
    asked = ("convert", folder, "--to", "vllm", "--rope", "yarn:4")
    found = {}
    for original in (None, "40960", "16k"):
        done = run(*asked, *(() if original is None else ("--original", original)))
        spec = read_overrides(done.stdout, source(qwen3))
        found[original] = (spec.claimed.tokens, scaling_of(spec))
        assert ("by Qwen3's cards" in done.stderr) == (original is None)
    # Qwen3's own card: factor 4.0, original_max_position_embeddings 32768, --max-model-len 131072.
    assert found[None] == (131072, Yarn(4.0, 32768))
    assert found["40960"] == (163840, Yarn(4.0, 40960))
    assert found["16k"] == (65536, Yarn(4.0, 16384))
    alone = run("convert", folder, "--to", "vllm", "--original", "16k")
    assert alone.returncode == 2
    assert "--original goes with --rope" in alone.stderr


def test_both_spellings_of_hugging_face_are_written_or_printed(run: Run, folder: Path) -> None:
    printed = run("convert", folder, "--to", "hf5", "--rope", "linear:2")
    assert json.loads(printed.stdout)["rope_parameters"]["factor"] == 2.0
    done = run("convert", folder, "--to", "hf4", "--rope", "linear:2", "--out", "new.json")
    assert (done.returncode, done.stdout) == (0, "")
    written = json.loads((folder.parent / "new.json").read_text())
    assert written["rope_scaling"] == {"rope_type": "linear", "factor": 2.0}
    assert read_config(written).claimed.tokens == 8192


def test_a_copy_of_a_gguf_reads_as_asked(run: Run, tmp_path: Path, smollm2_gguf: Path) -> None:
    before = hashlib.sha256(smollm2_gguf.read_bytes()).hexdigest()
    done = run("convert", smollm2_gguf, "--to", "gguf", "--rope", "yarn:2", "--out", "copy.gguf")
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(smollm2_gguf.read_bytes()).hexdigest() == before
    found = read_gguf(tmp_path / "copy.gguf")
    assert (found.claimed.tokens, scaling_of(found)) == (16384, Yarn(2.0, 8192))


def test_a_folders_schedule_goes_into_the_file_that_was_converted_from_it(
    run: Run, tmp_path: Path, smollm2_gguf: Path
) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "max_position_embeddings": 16384,
        "rope_theta": 100000,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 2.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    }
    (tmp_path / "longer").mkdir()
    (tmp_path / "longer" / "config.json").write_text(json.dumps(config))
    asked = ("convert", "longer", "--to", "gguf", "--weights", smollm2_gguf, "--out", "new.gguf")
    done = run(*asked)
    assert done.returncode == 0, done.stderr
    found = read_gguf(tmp_path / "new.gguf")
    assert found.claimed.tokens == 16384
    (_, turned), *_ = found.rotary_groups()
    wanted = schedule(next(read_config(config).rotary_groups())[1], 16384)
    assert schedule(turned, 16384).inv_freq == pytest.approx(wanted.inv_freq, rel=1e-6)
    # Another model's weights are no weights of this one.
    (tmp_path / "longer" / "config.json").write_text(json.dumps({**config, "hidden_size": 1152}))
    done = run(*asked, "--force")
    assert (done.returncode, "is of another model" in done.stderr) == (2, True)


BAD: list[tuple[list[str], int, str]] = [
    (["--to", "klingon"], 2, "klingon"),
    ([], 2, "--to"),
    (["--to", "hf5", "--rope", "spiral:2"], 2, "names no schedule"),
    (["--to", "gguf"], 2, "--weights FILE.gguf"),
    (["--to", "gguf", "--weights", "model", "--out", "x.gguf"], 2, "is no GGUF file"),
    (["--to", "hf5", "--weights", "x.gguf"], 2, "--weights goes with --to gguf"),
    (["--to", "hf5", "--out", "nowhere/config.json"], 1, "cannot be written"),
    (["--to", "hf5", "--out", "model/config.json", "--force"], 2, "is the model's own file"),
    (["--to", "hf5", "--out", "model"], 2, "is the model's own file"),
    (["--to", "hf5", "--out", "taken.json"], 2, "exists"),
    (["--to", "vllm", "--length", "99999"], 2, "above the claimed length"),
    (["--to", "vllm", "--length", "0"], 2, "length"),
]


@pytest.mark.parametrize(("arguments", "code", "said"), BAD, ids=[" ".join(b[0]) for b in BAD])
def test_what_cannot_be_is_one_sentence(
    run: Run, folder: Path, arguments: list[str], code: int, said: str
) -> None:
    taken = folder.parent / "taken.json"
    taken.write_text("mine")
    own = (folder / "config.json").read_bytes()
    done = run("convert", folder, *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert taken.read_text() == "mine"
    assert (folder / "config.json").read_bytes() == own
    assert not list(folder.parent.rglob("*.part"))


@pytest.mark.skipif(os.name != "posix", reason="limits on file sizes are POSIX")
def test_a_disk_that_fills_up_leaves_no_half_a_file(run: Run, folder: Path) -> None:
    def limit() -> None:
        # Writing past the limit is an OSError, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    bare = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = run("convert", folder, "--to", "hf5", "--out", "new.json", before=limit, env=bare)
    assert (done.returncode, "nothing is left of it" in done.stderr) == (1, True)
    assert not list(folder.parent.glob("*new.json*"))


def test_force_writes_over_another_file(run: Run, folder: Path) -> None:
    taken = folder.parent / "taken.json"
    taken.write_text("mine")
    assert run("convert", folder, "--to", "hf5", "--out", "taken.json", "--force").returncode == 0
    assert "rope_parameters" in json.loads(taken.read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "hf5"], "has no config.json to write into"),
        (["--to", "vllm"], "has no config.json to override"),
        (["--to", "gguf"], "needs --out FILE"),
        (["--to", "gguf", "--out", "nowhere/copy.gguf"], "cannot be written"),
    ],
)
def test_a_gguf_file_is_no_configuration(
    run: Run, smollm2_gguf: Path, arguments: list[str], said: str
) -> None:
    done = run("convert", smollm2_gguf, *arguments)
    assert done.returncode in (1, 2)
    assert said in done.stderr


def test_audit_prints_the_engines_and_has_them_in_json(run: Run, folder: Path) -> None:
    shown = run("audit", folder, "--engines")
    assert "Engines, all layers: served for 4096 tokens" in shown.stdout
    document = json.loads(run("audit", folder, "--engines", "--json").stdout)
    assert {view["engine"] for view in document["engines"]["views"]} >= {"llama.cpp", "mlx-lm"}
    assert "engines" not in json.loads(run("audit", folder, "--json").stdout)
