"""What can be given wrongly: one sentence, an exit code, no traceback.

What ends before any work is given to `main`, and some of each kind to a real process as well.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

USAGE, FAILURE = 2, 1
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors: int, keys: int, rest: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


ARCHITECTURE = text("general.architecture") + struct.pack("<I", 8) + text("llama")

GGUFS = {
    "empty.gguf": b"",
    "not.gguf": b"PK\x03\x04 something else altogether",
    "truncated.gguf": gguf(1, 2, ARCHITECTURE[:30]),
    "short.gguf": gguf(0, 5, ARCHITECTURE),
    "corrupt.gguf": gguf(1, 1, bytes(range(256)) * 4),
    "many-keys.gguf": gguf(0, 1 << 60, ARCHITECTURE),
    "many-tensors.gguf": gguf(1 << 60, 1, ARCHITECTURE),
    "long-text.gguf": gguf(0, 1, struct.pack("<Q", 1 << 62) + b"general.architecture"),
    "long-array.gguf": gguf(
        0, 1, text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 1 << 61) + text("a")
    ),
    "version.gguf": b"GGUF" + struct.pack("<IQQ", 77, 0, 0),
}


REMOTE = {"auto_map": {"AutoConfig": "code.StrangeConfig", "AutoModelForCausalLM": "code.Strange"}}
ABSENT = object()

CONFIGS: dict[str, dict[str, object] | str] = {
    "no-heads": {"hidden_size": ABSENT, "num_attention_heads": ABSENT, "head_dim": ABSENT},
    "null-heads": {"num_attention_heads": None, "head_dim": None},
    "text-base": {"rope_theta": "ten thousand"},
    "null-layers": {"num_hidden_layers": None},
    "negative-head": {"head_dim": -16},
    "negative-base": {"rope_theta": -1.0},
    "negative-length": {"max_position_embeddings": -4096},
    "text-length": {"max_position_embeddings": "4096"},
    "odd-head": {"head_dim": 15},
    "no-factor": {"rope_scaling": {"rope_type": "linear"}},
    "null-factor": {"rope_scaling": {**YARN, "factor": None}},
    "text-factor": {"rope_scaling": {**YARN, "factor": "four"}},
    "negative-factor": {"rope_scaling": {**YARN, "factor": -4.0}},
    "scaling-list": {"rope_scaling": [1, 2]},
    "scaling-unknown": {"rope_scaling": {"rope_type": "sideways", "factor": 2.0}},
    "remote": {"model_type": "strange", **REMOTE},
    "broken": '{"model_type": "llama", ',
    "list": "[1, 2, 3]",
    "number": "7",
    "nothing": "",
    "yarn": {"rope_scaling": YARN},
    "good": {},
}


def changed(config: dict[str, Any], changes: dict[str, object]) -> str:
    return json.dumps({k: v for k, v in {**config, **changes}.items() if v is not ABSENT})


@pytest.fixture
def place(tmp_path: Path, llama_config: dict[str, Any]) -> Path:
    """A folder with everything that the rows below name."""
    for name, content in GGUFS.items():
        (tmp_path / name).write_bytes(content)
    for name, changes in CONFIGS.items():
        (tmp_path / name).mkdir()
        words = changes if isinstance(changes, str) else changed(llama_config, changes)
        (tmp_path / name / "config.json").write_text(words)
    (tmp_path / "remote" / "code.py").write_text("open('ran', 'w')")
    (tmp_path / "void").mkdir()
    (tmp_path / "two").mkdir()
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / "two" / name).write_bytes(b"GGUF")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x01" * 10)
    (tmp_path / "blank.txt").write_text(" \n ")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "results.sqlite").write_bytes(b"not a database at all" * 50)
    return tmp_path


def everything(folder: Path) -> set[str]:
    found = {str(p.relative_to(folder)) for p in folder.rglob("*")}
    return {name for name in found if not name.startswith("cache")}


def check(
    run: Run, place: Path, arguments: tuple[str, ...], code: int, words: str, **options: object
) -> None:
    before = everything(place)
    done = run(*arguments, **options)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    *progress, sentence = done.stderr.splitlines()
    assert sentence.startswith("ropewalk: ")
    assert words in sentence
    assert not [line for line in progress if not line.endswith(" ...")], done.stderr
    assert everything(place) == before


AUDITS = [
    (("nosuch",), USAGE, "there is no model 'nosuch'"),
    (("void",), FAILURE, "has no config.json"),
    (("two",), FAILURE, "name one of them"),
    (("file",), FAILURE, "not valid JSON"),
    (("a\x1b[31mb\n",), USAGE, "a\\x1b[31mb"),
    (("x" * 5000,), USAGE, "File name too long"),
    (("file/below/it",), USAGE, "there is no model"),
    *(((name,), FAILURE, name) for name in GGUFS),
    (("text-base",), FAILURE, "ten thousand"),
    (("negative-head",), FAILURE, "head_dim"),
    (("negative-base",), FAILURE, "rope_theta"),
    (("negative-length",), FAILURE, "max_position_embeddings"),
    (("text-length",), FAILURE, "max_position_embeddings"),
    (("odd-head",), FAILURE, "head_dim"),
    (("no-factor",), FAILURE, "factor"),
    (("text-factor",), FAILURE, "factor"),
    (("negative-factor",), FAILURE, "factor"),
    (("scaling-list",), FAILURE, "rope_scaling"),
    (("broken",), FAILURE, "line 1"),
    (("list",), FAILURE, "list"),
    (("number",), FAILURE, "number"),
    (("nothing",), FAILURE, "nothing"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), AUDITS, ids=lambda v: repr(v)[:40])
def test_an_audit_of_what_is_no_model_is_one_sentence(
    here: Run, place: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    check(here, place, ("audit", *arguments), code, words)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no-heads", "leaves out head_dim"),
        ("null-heads", "leaves out head_dim"),
        ("null-factor", "factor"),
        ("scaling-unknown", "sideways"),
    ],
)
def test_an_audit_says_what_it_can_and_names_what_a_configuration_leaves_open(
    here: Run, name: str, words: str
) -> None:
    done = here("audit", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout


PROOFS = [
    (("--lengths", "abc"), USAGE, "'abc'"),
    (("--lengths", ""), USAGE, "not understood"),
    (("--lengths", "0"), USAGE, "impossible"),
    (("--lengths=-5",), USAGE, "'-5'"),
    (("--lengths", "1e3"), USAGE, "'1e3'"),
    (("--lengths", "2048,2048"), USAGE, "twice"),
    (("--lengths", "2k,2048"), USAGE, "twice"),
    (("--lengths", "9999999999"), USAGE, "impossible"),
    (("--depths", "1"), USAGE, "50%"),
    (("--depths", "0,150"), USAGE, "150"),
    (("--depths=-10,50",), USAGE, "-10"),
    (("--depths", "top"), USAGE, "'top'"),
    (("--depths", "50,50"), USAGE, "twice"),
    (("--trials", "0"), USAGE, "0 trials"),
    (("--trials", "-3"), USAGE, "-3 trials"),
    (("--controls", "-1"), USAGE, "control"),
    (("--threshold", "high"), USAGE, "'high'"),
    (("--threshold", "1.5"), USAGE, "between 0 and 1"),
    (("--threshold", "absolute:0"), USAGE, "between 0 and 1"),
    (("--threshold", "nan"), USAGE, "'nan'"),
    (("--rope", "sideways:2"), USAGE, "yarn:FACTOR"),
    (("--rope", "yarn"), USAGE, "yarn:FACTOR"),
    (("--rope", "yarn:two"), USAGE, "yarn:FACTOR"),
    (("--rope", "linear:0.5"), USAGE, "above 1"),
    (("--rope", "base:inf"), USAGE, "above 1"),
    (("--haystack", "missing.txt"), USAGE, "missing.txt"),
    (("--haystack", "binary.txt"), USAGE, "not UTF-8"),
    (("--haystack", "blank.txt"), USAGE, "no text"),
    (("--haystack", "void"), USAGE, "no text"),
    (("--distractors", "-1"), USAGE, "-1 distractors"),
    (("--answer-tokens", "0"), USAGE, "--answer-tokens of 0 tokens"),
    (("--minutes", "0"), USAGE, "--minutes 0"),
    (("--minutes", "nan"), USAGE, "--minutes nan"),
    (("--out", "file"), USAGE, "is a file"),
    (("--out", "file/below"), USAGE, "is a file"),
    (("--out", "/dev/null/below"), USAGE, "/dev/null is a file"),
    (("--csv", "void"), USAGE, "is a folder"),
    (("--csv", "nowhere/a.csv"), USAGE, "there is no folder nowhere"),
    (("--csv", "file/a.csv"), USAGE, "file"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), PROOFS, ids=lambda v: repr(v)[:40])
def test_a_proof_asked_for_wrongly_is_one_sentence_before_any_work(
    here: Run, place: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    check(here, place, ("prove", "good", *arguments), code, words)


OTHERS = [
    (("prove", "nosuch"), USAGE, "there is no model"),
    (("prove", "void"), FAILURE, "has no config.json"),
    (("prove", "truncated.gguf"), FAILURE, "truncated.gguf"),
    (("prove", "yarn", "--rope", "yarn:2"), USAGE, "--rope none"),
    (("show", "nowhere"), FAILURE, "holds no results"),
    (("show", "void"), FAILURE, "holds no results"),
    (("show", "file"), FAILURE, "holds no results"),
    (("show", "damaged"), FAILURE, "damaged"),
    (("show", "void", "--threshold", "high"), USAGE, "'high'"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), OTHERS, ids=lambda v: repr(v)[:40])
def test_other_bad_input_is_one_sentence(
    here: Run, place: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    check(here, place, arguments, code, words)


@pytest.mark.parametrize(
    "arguments",
    [
        ("walk",),
        ("audit",),
        ("audit", "good", "--weights"),
        ("audit", "good", "--pairs", "some"),
        ("audit", "good", "good"),
        ("prove", "good", "--trials", "many"),
        ("prove", "good", "--lengths"),
        ("show",),
        ("doctor", "--cell", "1"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_told_how_it_is_used(
    here: Run, arguments: tuple[str, ...]
) -> None:
    done = here(*arguments)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert done.stderr.splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.stderr


IN_PROCESSES = [
    ("audit", "text-length"),
    ("audit", "no-heads"),
    ("audit", "a\x1b[31mb\n"),
    ("prove", "good", "--lengths", "abc"),
    ("show", "damaged"),
    ("walk",),
]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("arguments", IN_PROCESSES)
def test_a_process_of_its_own_says_and_ends_alike(
    run: Run, here: Run, arguments: tuple[str, ...]
) -> None:
    apart, inside = run(*arguments), here(*arguments)
    assert (apart.returncode, apart.stdout, apart.stderr) == (
        inside.returncode,
        inside.stdout,
        inside.stderr,
    )


def test_without_a_network_a_name_on_the_hub_is_one_sentence(run: Run, place: Path) -> None:
    check(run, place, ("audit", "owner/nosuch"), USAGE, "HF_HUB_OFFLINE")


def test_code_of_a_model_is_never_run_and_the_audit_says_so(run: Run, place: Path) -> None:
    done = run("audit", "remote")
    assert "auto_map" in done.stdout + done.stderr
    assert not (place / "ran").exists()


WITH_TORCH: list[tuple[tuple[str, ...], int, str]] = [
    (("--dtype", "int8"), USAGE, "'int8'"),
    (("--device", "abacus"), USAGE, "'abacus'"),
    (("--lengths", "20", "--out", "run"), USAGE, "the shortest is "),
    (("--lengths", "400", "--out", "/proc/run"), FAILURE, "/proc/run"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WITH_TORCH, ids=lambda v: repr(v)[:40])
def test_what_only_the_loaded_parts_can_tell_is_one_sentence_too(
    here: Run, tmp_path: Path, tiny_model: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    check(here, tmp_path, ("prove", str(tiny_model), *arguments), code, words)


def test_a_gpu_that_is_not_there_is_said_to_be_missing(
    run: Run, tmp_path: Path, tiny_model: Path
) -> None:
    hidden: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": ""}
    arguments = ("prove", str(tiny_model), "--device", "cuda")
    check(run, tmp_path, arguments, USAGE, "'cuda' cannot be used", env=hidden)


def test_a_proof_never_runs_code_of_a_model(
    run: Run, tmp_path: Path, tiny_model: Path, llama_config: dict[str, Any]
) -> None:
    folder = tmp_path / "remote"
    shutil.copytree(tiny_model, folder)
    (folder / "config.json").write_text(
        json.dumps({**llama_config, "model_type": "strange", **REMOTE})
    )
    (folder / "code.py").write_text("open('ran', 'w')")
    check(run, tmp_path, ("prove", "remote", "--lengths", "400"), FAILURE, "remote")


def test_without_torch_a_proof_says_how_to_get_it(place: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; import ropewalk.cli.main as m; m.main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "prove", "good", "--lengths", "400"],
        capture_output=True,
        text=True,
        cwd=place,
        check=False,
    )
    assert (done.returncode, done.stdout) == (FAILURE, "")
    assert done.stderr.splitlines()[-1] == (
        "ropewalk: running a model needs torch, which is not installed: "
        'pip install "ropewalk[prove]"'
    )
