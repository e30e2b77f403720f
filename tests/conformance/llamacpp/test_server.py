"""The server that the conformance tests stand on: it fails in words, and leaves nothing behind.

Skipped where the package xllamacpp cannot be loaded, as everything here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.model


def test_a_file_that_cannot_be_served_fails_with_the_servers_own_words(
    serve: Any, tmp_path: Path
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF, but not really")
    with pytest.raises(pytest.fail.Exception, match=r"(?s)before it listened.*failed to load"):
        serve(path, 256).__enter__()


def test_the_server_is_gone_after_its_block_even_after_an_error(
    serve: Any, model_file: Callable[..., Path], prompt: Callable[[int], list[int]]
) -> None:
    path = model_file("llama", {})

    def interrupted() -> None:
        with serve(path, 256) as ask:
            assert sum(ask(prompt(8)).values()) < 0.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    where = urlsplit(path.with_suffix(".address").read_text())
    assert where.hostname == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((where.hostname, where.port or 0), timeout=5.0)


def test_an_engine_that_cannot_be_loaded_is_a_reason_to_skip(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('no wheel for this machine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=r"cannot be loaded here.*no wheel for this"):
        serve(tmp_path / "model.gguf", 256).__enter__()
