"""Sends requests to one server through the official client: the one place where it is retried.

The client's own retries are off. Rates, pauses and another try are decided here, so that all of
it is one policy. The key is the client's business: it reads OPENAI_API_KEY, and every text that
leaves here has it taken out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from urllib.parse import urlsplit

from ropewalk.errors import EndpointError, MissingPartError, UsageError
from ropewalk.proof.endpoint.policy import (
    LONGEST_OBEYED,
    TRIES,
    RequestGate,
    Retry,
    backoff,
    judge_status,
    retry_after,
)
from ropewalk.proof.endpoint.replies import BadReplyError, Reply, read_reply

KEY = "OPENAI_API_KEY"
_NO_KEY = "none"
"""Sent where no key is set: servers of one's own ask for none, and the client insists on one."""


class PromptTooLongError(Exception):
    """The server says that the prompt does not fit; its words."""


class RejectedError(Exception):
    """A request that never brought an answer, though the server is there; why."""


class NoSuchPlaceError(EndpointError):
    """The server has nothing at this address, or does not know the model."""


class ServerGoneError(Exception):
    """Nothing answers at this address any more; why."""


class Client:
    """One server. Safe between threads.

    `url` is its base URL as given, usually ending in /v1; `timeout` is in seconds, for one
    request; `gate` is where all requests of the run pass. Raises UsageError for a URL that is
    none or that holds a password, MissingPartError without the package openai.
    """

    def __init__(
        self, url: str, gate: RequestGate, *, timeout: float = 600.0, random: Random | None = None
    ) -> None:
        self.url = checked_url(url)
        self._gate = gate
        self._random = random or Random()
        try:
            import openai
        except ImportError as error:
            raise MissingPartError(
                "asking a server needs the package openai, which is not installed: "
                'pip install "ropewalk[endpoint]"'
            ) from error
        self._openai = openai
        # Organisation, project and webhook secrets would be read from the environment as well.
        self._client = openai.OpenAI(
            base_url=self.url,
            api_key=os.environ.get(KEY) or _NO_KEY,
            max_retries=0,
            timeout=timeout,
        )

    def ask(self, api: str, body: Mapping[str, Any], tokens: int, tries: int = TRIES) -> Reply:
        """Send `body` to "completions" or "chat/completions" until it is answered.

        `tokens` is what the request counts against the rate of tokens. Raises EndpointError for
        what would befall every request, PromptTooLongError, ServerGoneError when nothing can be
        reached, and RejectedError for everything else.
        """
        return self._again(lambda: self._send(api, body), tokens, tries)

    def get(self, path: str) -> Any:
        """What a GET of `path`, below the base URL, or below the server for "/...", says.

        None where the server has no such place or says no JSON. Raises EndpointError and
        ServerGoneError as `ask`.
        """
        return self._aside(lambda: self._client.get(self._place(path), cast_to=object))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What a POST of `body` says; else as `get`."""
        return self._aside(
            lambda: self._client.post(self._place(path), cast_to=object, body=dict(body))
        )

    def close(self) -> None:
        """End every request that is under way."""
        self._client.close()

    def clean(self, text: str) -> str:
        """The text without the key."""
        key = os.environ.get(KEY, "")
        return text.replace(key, "[key]") if key else text

    def _place(self, path: str) -> str:
        if not path.startswith("/"):
            return f"{self.url.rstrip('/')}/{path}"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _send(self, api: str, body: Mapping[str, Any]) -> Reply:
        raw = self._client.completions.with_raw_response
        if api == "chat/completions":
            raw = self._client.chat.completions.with_raw_response  # type: ignore[assignment]
        begun = time.perf_counter()
        response = raw.create(**body)
        return read_reply(str(response.text), time.perf_counter() - begun)

    def _aside(self, send: Callable[[], Any]) -> Any:
        """A question about the server: a refusal or garbage is an answer too."""
        openai = self._openai
        for tries in range(1, TRIES + 1):
            try:
                return send()
            except openai.APIStatusError as error:
                if judge_status(error.status_code, "") is not Retry.AGAIN or tries == 3:
                    return None
            except openai.APIConnectionError as error:
                if tries == 3:
                    raise ServerGoneError(self._connection(error)) from error
            except (openai.OpenAIError, ValueError):
                return None
            self._pause(backoff(tries, self._random))
        return None

    def _again(self, send: Callable[[], Reply], tokens: int, most: int) -> Reply:
        openai = self._openai
        gone, last = False, ""
        for tries in range(1, most + 1):
            self._gate.enter(tokens)
            if self._gate.stop.is_set():
                break
            pause: float | None = None
            try:
                return send()
            except openai.APITimeoutError:
                gone, last = False, "it did not answer in time (--timeout)"
            except openai.APIConnectionError as error:
                gone, last = True, self._connection(error)
            except openai.APIStatusError as error:
                gone, last = False, self._status(error)
                pause = retry_after(error.response.headers)
            except BadReplyError as error:
                gone, last = False, self.clean(str(error))
            if tries < most:
                self._pause(pause if pause is not None else backoff(tries, self._random))
        if self._gate.stop.is_set():
            raise RejectedError("the run was stopped")
        raise (ServerGoneError if gone else RejectedError)(last)

    def _pause(self, seconds: float) -> None:
        """Wait; a server that asks for it holds back every request to come."""
        if seconds > LONGEST_OBEYED:
            raise EndpointError(
                f"{self.url} asks to wait {seconds:,.0f} s before the next request; what was "
                "answered is kept, and the same command goes on later"
            )
        self._gate.sleep(seconds)

    def _status(self, error: Any) -> str:
        """Why to send again. Raises what ends the request, or the run."""
        said = _words(error)
        status = int(error.status_code)
        verdict = judge_status(status, said)
        told = self.clean(f"{self.url} says {status}: {said[:300]}")
        if verdict is Retry.TOO_LONG:
            raise PromptTooLongError(told) from error
        if verdict is Retry.STOP:
            if status in (401, 403):
                # What a server says about a wrong key may hold a part of it.
                raise EndpointError(f"{self.url} says {status}: {_REASONS[status]}") from error
            kind = NoSuchPlaceError if status in (404, 405, 501) else EndpointError
            raise kind(f"{told}; {_REASONS[status]}") from error
        if verdict is Retry.REJECTED:
            raise RejectedError(told) from error
        if status == 429:
            self._gate.close(min(retry_after(error.response.headers) or 0.0, LONGEST_OBEYED))
        return told

    def _connection(self, error: BaseException) -> str:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        return self.clean(f"{self.url} cannot be reached ({cause or type(cause).__name__})")


_REASONS = {
    401: f"the key was not accepted: set {KEY} in the environment",
    402: "the account has no credit",
    403: f"the key does not allow this: check {KEY} in the environment",
    404: "check --base-url, which usually ends in /v1, and the model's name",
    405: "check --base-url, which usually ends in /v1",
    429: "the account's quota is used up",
    501: "this server cannot do that",
}


def _words(error: Any) -> str:
    """What the body of an error says, on one line."""
    body = error.body
    if isinstance(body, dict):
        parts = [str(body[name]) for name in ("message", "type", "code") if body.get(name)]
        if parts:
            return " ".join(" ".join(parts).split())
    return " ".join(str(body or error.message).split())


def checked_url(url: str) -> str:
    """A base URL that is one. Raises UsageError, without repeating a password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(
            f"--base-url {url!r} is no address: write it like http://127.0.0.1:8080/v1"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"--base-url for {host} must hold no name, password or question mark: a key belongs "
            f"in the environment, as {KEY}"
        )
    return url
