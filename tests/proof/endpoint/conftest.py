"""A real llama.cpp server with SmolLM2, and a proxy before it that spoils what it passes on."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

SERVE = Path(__file__).parents[2] / "conformance" / "llamacpp" / "serve.py"
NO_ENGINE = 77
WINDOW = 512


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory, smollm2_gguf: Path) -> Iterator[str]:
    """The base URL of llama.cpp serving SmolLM2 with a window of 512 tokens, on one thread."""
    folder = tmp_path_factory.mktemp("llama")
    address, log = folder / "address", folder / "log"
    command = [sys.executable, str(SERVE), str(smollm2_gguf), str(WINDOW), str(address), "{}"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + 120
        while not address.exists():
            if process.poll() == NO_ENGINE:
                pytest.skip("llama.cpp cannot be loaded here: pip install xllamacpp")
            if process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"llama.cpp's server did not listen: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        with pytest.MonkeyPatch.context() as patch:
            # Shorter ones do as well, and take a quarter of the time.
            patch.setattr("ropewalk.proof.endpoint.meeting.PROBES", (1, 60, 120))
            yield address.read_text().strip() + "/v1"
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.kill()
        process.wait()


Change = Callable[[dict[str, Any]], dict[str, Any]]


class Proxy:
    """Passes requests on, and spoils answers.

    Each new question takes the next of `faults`, what befalls its tries one after the other, like
    "drop 500"; afterwards, and when none is left, all is well. `change` may change what is
    asked. `bodies` and `headers` are what came in for answers.
    """

    def __init__(self, target: str, faults: Sequence[str] = (), change: Change | None = None):
        self.target = urlsplit(target)
        self.faults = [each.split() for each in faults]
        self.ahead: dict[str, list[str]] = {}
        self.change = change
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.lock = threading.Lock()
        self.down = False
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                proxy.serve(self)

            def do_POST(self) -> None:
                proxy.serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        fault = "ok"
        if "completions" in request.path:
            with self.lock:
                asked = json.loads(body)
                self.bodies.append(asked)
                self.headers.append(str(request.headers))
                if str(asked) not in self.ahead:
                    self.ahead[str(asked)] = self.faults.pop(0) if self.faults else []
                tries = self.ahead[str(asked)]
                fault = tries.pop(0) if tries else "ok"
            if self.change is not None:
                body = json.dumps(self.change(asked)).encode()
        if self.down or fault == "drop":
            request.close_connection = True
            return
        self.reply(request, fault, body)

    def reply(self, request: BaseHTTPRequestHandler, fault: str, body: bytes) -> None:
        if fault.isdigit():
            said = json.dumps({"error": {"message": f"fault {fault}"}}).encode()
            self.send(request, int(fault), said, len(said))
            return
        if fault == "garbage":
            page = b"<html>Bad gateway, but with a smile</html>"
            self.send(request, 200, page, len(page))
            return
        if fault == "delay":
            time.sleep(0.5)
        status, said = self.passed_on(request, body)
        if fault == "half":
            self.send(request, status, said[: len(said) // 2], len(said))
        elif fault == "short":
            self.send(request, status, said[: len(said) // 2], len(said) // 2)
        else:
            self.send(request, status, said, len(said))

    def passed_on(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        assert self.target.hostname is not None
        upstream = http.client.HTTPConnection(self.target.hostname, self.target.port, timeout=120)
        upstream.request(
            request.command, request.path, body or None, {"Content-Type": "application/json"}
        )
        answer = upstream.getresponse()
        said = answer.read()
        upstream.close()
        return answer.status, said

    def send(self, request: BaseHTTPRequestHandler, status: int, said: bytes, length: int) -> None:
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(length))
        if status == 429:
            request.send_header("Retry-After", "1")
        request.send_header("Connection", "close")
        request.end_headers()
        with contextlib.suppress(OSError):
            request.wfile.write(said)
        request.close_connection = True


@pytest.fixture
def proxy(llama: str) -> Iterator[Callable[..., Proxy]]:
    """proxy(*faults, change=None): a proxy in front of llama.cpp, gone after the test."""
    made = []

    def make(*faults: str, change: Change | None = None) -> Proxy:
        made.append(Proxy(llama, faults, change))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def fast_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses of milliseconds between tries."""
    monkeypatch.setattr("ropewalk.proof.endpoint.policy.FIRST_PAUSE", 0.005)
