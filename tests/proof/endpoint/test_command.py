"""`ropewalk prove openai:NAME` as a command: what it refuses, hides and survives."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import StoreError, UsageError
from ropewalk.proof.cells import Calibrate, Sharing
from ropewalk.proof.endpoint.client import checked_url
from ropewalk.proof.endpoint.subject import EndpointSettings, endpoint_settings
from ropewalk.proof.prove import prove
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.store import Store
from tests.processes import Started

GRID = ProofSettings(
    "openai:smol",
    lengths=(150, 220),
    depths=(0.0, 1.0),
    trials=2,
    controls=0,
    sharing=Sharing.NONE,
)
KEY = "sk-verysecret-0123456789"
MakeProxy = Callable[..., Any]


def started(folder: Path, *words: str, **surroundings: str) -> Started:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    return Started(["prove", "openai:smol", *words], folder, {**environment, **surroundings})


def ran(folder: Path, *words: str, **surroundings: str) -> tuple[int, str, str]:
    process = started(folder, *words, **surroundings)
    out, err = process.communicate(timeout=120)
    assert process.returncode is not None
    return process.returncode, out, err


def kept(folder: Path) -> dict[str, tuple[Any, ...]]:
    with Store.read(folder) as store:
        return {
            row.prompt_hash: (row.cell, row.answer.outcome, row.answer.printed)
            for row in store.rows()
        }


def kept_so_far(folder: Path) -> int:
    try:
        return len(kept(folder))
    except StoreError as error:
        assert "holds no results" in str(error)  # noqa: PT017 - nor is anything else allowed
        return 0


def test_nothing_at_the_address_is_one_sentence_with_the_address(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    code, out, err = ran(tmp_path, "--base-url", url, "--lengths", "150", "--out", "run")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith(f"ropewalk: {url} cannot be reached")
    assert "Connection refused" in err
    assert "Traceback" not in err
    assert not (tmp_path / "run").exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"base_urls": ()}, "needs --base-url"),
    ({"base_urls": ("localhost:8080",)}, "is no address"),
    ({"base_urls": ("http://h/v1", "http://h/v1")}, "given twice"),
    ({"api": "telepathy"}, "auto, completions, chat"),
    ({"concurrency": 0}, "1 to 256"),
    ({"requests_per_minute": 0.0}, "--requests-per-minute 0"),
    ({"tokens_per_minute": float("nan")}, "--tokens-per-minute nan"),
    ({"timeout": -1.0}, "--timeout -1"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_manners_that_cannot_be_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        EndpointSettings(**({"base_urls": ("http://h/v1",)} | changes))


@pytest.mark.parametrize("url", [f"http://me:{KEY}@h/v1", f"http://h/v1?key={KEY}", f"x://{KEY}"])
def test_a_secret_in_an_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as error:
        checked_url(url)
    assert KEY not in str(error.value) or url.startswith("x")


@pytest.mark.model
def test_the_key_is_sent_and_is_nowhere_else(proxy: MakeProxy, tmp_path: Path) -> None:
    through = proxy("ok", "ok", "ok", "ok", "ok", "500")
    words = ("--lengths", "150", "--depths", "0,100", "--trials", "1", "--controls", "0")
    where = ("--sharing", "none", "--base-url", through.url, "--out", "run", "--csv", "rows.csv")
    code, out, err = ran(tmp_path, *words, *where, OPENAI_API_KEY=KEY)
    assert code == 0, err
    assert all(f"Bearer {KEY}" in headers for headers in through.headers)
    assert KEY not in out + err
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
    assert "in it (" in out
    assert "prompt tokens were in it" in (tmp_path / "run" / "report.html").read_text()

    denied = proxy("401")
    code, out, err = ran(tmp_path, *words, "--base-url", denied.url, OPENAI_API_KEY=KEY)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"ropewalk: {denied.url} says 401: the key was not accepted: set OPENAI_API_KEY in the "
        "environment"
    )
    assert len(denied.bodies) == 1


@pytest.mark.model
@pytest.mark.skipif(sys.platform == "win32", reason="kills by a POSIX signal")
def test_a_killed_run_ends_with_the_table_of_one_that_was_not(
    proxy: MakeProxy, tmp_path: Path
) -> None:
    grid = "--lengths 150,220 --depths 0,100 --trials 2 --controls 0 --sharing none"
    words = grid.split()
    slow = proxy(*("delay",) * 40)
    process = started(tmp_path, *words, "--base-url", slow.url, "--out", "run")
    deadline = time.monotonic() + 120
    while kept_so_far(tmp_path / "run") < 3:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.communicate(timeout=60)
    before = kept(tmp_path / "run")
    assert 3 <= len(before) < 8
    code, out, err = ran(tmp_path, *words, "--base-url", slow.url, "--out", "run", "--json")
    assert code == 0, err
    after = kept(tmp_path / "run")
    assert {key: after[key] for key in before} == before
    assert len(json.loads(out)["rows"]) == len(after) == 8
    settings = replace(GRID, out=tmp_path / "other", endpoint=EndpointSettings((proxy().url,)))
    whole = prove(settings)
    assert kept(whole.folder) == after


@pytest.mark.parametrize(
    ("manners", "option"),
    [({"salt": True}, "--salt"), ({"api": "chat"}, "--api"), ({"timeout": 5.0}, "--timeout")],
)
def test_manners_without_a_server_are_not_dropped_in_silence(
    manners: dict[str, Any], option: str
) -> None:
    assert endpoint_settings("smollm2", None, timeout=600.0) is None
    with pytest.raises(UsageError, match=f"{option} goes with a model at a server"):
        endpoint_settings("smollm2", None, **manners)
    with pytest.raises(UsageError, match="--base-url goes with"):
        endpoint_settings("smollm2", ["http://h/v1"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"rope": "yarn:2"}, "--rope cannot change a model at a server"),
        ({"dtype": "bf16"}, "--device and --dtype are the server's"),
        ({"endpoint": None}, "say where, with --base-url"),
        ({"device_map": "auto"}, "--device-map is for a model that is run here"),
        (
            {"sharing": None, "calibrate": Calibrate.FULL},
            "--calibrate full is for a model that is run here",
        ),
        (
            {"chat": True, "endpoint": EndpointSettings(("http://h/v1",), api="completions")},
            "exclude each other",
        ),
    ],
)
def test_what_a_server_cannot_be_told_is_refused_before_it_is_asked(
    changes: dict[str, Any], sentence: str
) -> None:
    settings = replace(GRID, **({"endpoint": EndpointSettings(("http://h/v1",))} | changes))
    with pytest.raises(UsageError, match=sentence):
        prove(settings)
