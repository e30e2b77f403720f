"""A server that reads nothing, counts words, and answers what its prompt says: for planted faults.

It finds the fact that is asked for in what it kept of the prompt, so that its answers are those of
a perfect model with a window of so many tokens. A `Fault` may change what it says.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PIECE = re.compile(r" ?[A-Za-z]+| ?\d| ?[^\sA-Za-z\d]|\s")
_ASKED = re.compile(
    r"Question: .*\nAnswer: (?P<base>.+)\Z|What is (?P<chat>the [^?]+)\?[^?]*\Z", re.S
)

Answer = tuple[int, Any]
"""A status, and a body: a value for JSON, or a text as it is."""


@dataclass(slots=True)
class Asked:
    """A request: what was asked, its pieces, what the server kept of them, and the plain answer."""

    body: dict[str, Any]
    pieces: list[str]
    kept: list[str]
    said: str
    chat: bool
    earlier: int
    """Requests for this very prompt before."""
    cached: int
    """Pieces at the beginning of what was read that an earlier prompt began with."""

    @property
    def most(self) -> int:
        """The tokens that the answer may have."""
        given = self.body.get("max_tokens", self.body.get("max_completion_tokens", 1 << 30))
        return int(given)


@dataclass(slots=True)
class Fake:
    """`window` in tokens of prompt and answer; a longer prompt gets `too_long`, or is cut by `cut`.

    `fault(asked, answer)` has the last word. `tokenizer`: whether it offers its own. `says` are
    fields of its model's entry. `bodies`: what it was asked.
    """

    window: int = 700
    too_long: Callable[[Asked], Answer] | None = None
    cut: Callable[[list[str], int], list[str]] | None = None
    fault: Callable[[Asked, dict[str, Any]], Any] | None = None
    tokenizer: bool = True
    says: Mapping[str, Any] = field(default_factory=dict)
    apis: Sequence[str] = ("completions", "chat/completions")
    added: int = 0
    chat_added: int = 6
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    _ids: dict[str, int] = field(default_factory=dict)
    _asked: list[list[str]] = field(default_factory=list)
    _read: list[list[str]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def __enter__(self) -> Fake:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                fake._send(self, *fake._get(self.path))

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                fake._send(self, *fake._post(self.path, json.loads(self.rfile.read(length))))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def answers(self) -> list[dict[str, Any]]:
        """What it was asked for more than a token of."""
        return [b for b in self.bodies if max(b.get(n, 2) for n in ("max_tokens", "n")) > 1]

    def encode(self, text: str) -> list[int]:
        with self._lock:
            return [self._ids.setdefault(p, len(self._ids) + 5) for p in _PIECE.findall(text)]

    def _get(self, path: str) -> Answer:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": "fake", "object": "model", **self.says}]}
        return 404, {"error": "not found"}

    def _post(self, path: str, body: dict[str, Any]) -> Answer:
        if path == "/tokenize" and self.tokenizer and "prompt" in body:
            return 200, {"tokens": self.encode(body["prompt"])}
        if path == "/detokenize" and self.tokenizer:
            return 200, {"prompt": self._decode(body["tokens"])}
        api = path.removeprefix("/v1/")
        if api in self.apis:
            return self._answer(body, chat=api == "chat/completions")
        return 404, {"error": "not found"}

    def _decode(self, ids: Sequence[int]) -> str:
        by_id = {number: piece for piece, number in self._ids.items()}
        return "".join(by_id.get(i, "?") for i in ids)

    def _answer(self, body: dict[str, Any], *, chat: bool) -> Answer:
        prompt = body["messages"][0]["content"] if chat else body["prompt"]
        text = prompt if isinstance(prompt, str) else self._decode(prompt)
        added = self.chat_added if chat else self.added
        pieces = ["<|t|>"] * added + _PIECE.findall(text)
        with self._lock:
            earlier = self._asked.count(pieces)
            self._asked.append(pieces)
            self.bodies.append(body)
        asked = Asked(body, pieces, pieces, "", chat or bool(self.added), earlier, 0)
        if len(pieces) + (0 if asked.most == 1 << 30 else asked.most) > self.window:
            if self.too_long is not None:
                return self.too_long(asked)
            if self.cut is not None and len(pieces) > self.window:
                asked.kept = self.cut(pieces, self.window)
        with self._lock:
            asked.cached = max((_common(asked.kept, each) for each in self._read), default=0)
            self._read.append(asked.kept)
        asked.said = found(asked.kept, chat=asked.chat)
        document = self.document(asked)
        changed = document if self.fault is None else self.fault(asked, document)
        return changed if isinstance(changed, tuple) else (200, changed)

    def document(self, asked: Asked) -> dict[str, Any]:
        """A reply as the OpenAI API has it."""
        said = _PIECE.findall(asked.said)
        text = "".join(said[: asked.most])
        finish = "length" if len(said) >= asked.most else "stop"
        chat = "messages" in asked.body
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
        choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage = {
            "prompt_tokens": len(asked.kept),
            "completion_tokens": min(len(said), asked.most),
        }
        return {"object": "completion", "choices": [choice], "usage": usage}

    def _send(self, request: BaseHTTPRequestHandler, status: int, said: Any) -> None:
        data = said.encode() if isinstance(said, str) else json.dumps(said).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def found(kept: Sequence[str], *, chat: bool) -> str:
    """What a model says that reads all of what it is given, and can do nothing else."""
    text = "".join(kept)
    asked = _ASKED.search(text)
    if asked is None:
        return " The report goes on about the weather in the valley."
    opening = asked["base"] or f"The {asked['chat'].removeprefix('the ')} is"
    fact = re.search(rf"{re.escape(opening)} (.+?)\.(?=\s|\Z)", text[: asked.start()], re.I)
    if fact is None:
        return "I do not see it." if chat else " 00000 and so on."
    return f"{opening} {fact[1]}." if chat else f" {fact[1]}. And so on."


def length_error(status: int, body: Callable[[int, int], Any]) -> Callable[[Asked], Answer]:
    """A refusal whose words know the window (700) and the prompt's tokens."""
    return lambda asked: (status, body(700, len(asked.pieces)))


def keep_tail(pieces: list[str], window: int) -> list[str]:
    """As Ollama cuts: the beginning is lost."""
    return pieces[-window:]


def keep_head(pieces: list[str], window: int) -> list[str]:
    """The end is lost, and the question with it."""
    return pieces[:window]


def keep_ends(pieces: list[str], window: int) -> list[str]:
    """As LM Studio cuts: the middle is lost."""
    half = window // 2
    return pieces[:half] + pieces[-(window - half) :]
