"""Sends requests to one server through the official client: the one place where it is retried.

The client's own retries are off. Rates, pauses and another try are decided here, so that all of
it is one policy. The key is the client's business: it reads OPENAI_API_KEY, and every text that
leaves here has it taken out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any
from urllib.parse import urlsplit

from ropewalk.errors import EndpointError, MissingPartError, UsageError
from ropewalk.proof.endpoint.policy import (
    BUSY,
    LONGEST_OBEYED,
    TRIES,
    RequestGate,
    backoff,
    retry_after,
)
from ropewalk.proof.endpoint.refusals import (
    Consequence,
    Refusal,
    Sent,
    is_rate,
    judge_refusal,
    named_parameters,
    read_refusal,
)
from ropewalk.proof.endpoint.replies import BadReplyError, ErrorInsideError, Reply, read_reply

KEY = "OPENAI_API_KEY"
_NO_KEY = "none"
"""Sent where no key is set: servers of one's own ask for none, and the client insists on one."""


class PromptTooLongError(Exception):
    """The server says that the prompt does not fit; its words."""


class ThrottledError(Exception):
    """The server's rate does not let one such prompt through; its words."""


class ParameterRefusedError(Exception):
    """A parameter is not taken: `names` of ours that `refusal` names."""

    def __init__(self, told: str, names: Sequence[str], refusal: Refusal) -> None:
        super().__init__(told)
        self.names, self.refusal = names, refusal


class RejectedError(Exception):
    """A request that never brought an answer, though the server is there; why.

    `unexplained`: it was refused, and may be for its length. `early`: not all tries were made.
    """

    def __init__(self, told: str, *, unexplained: bool = False, early: bool = False) -> None:
        super().__init__(told)
        self.unexplained, self.early = unexplained, early


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

    def ask(
        self,
        api: str,
        body: Mapping[str, Any],
        sent: Sent,
        tries: int = TRIES,
        *,
        doubt: bool = False,
    ) -> Reply:
        """Send `body` to "completions" or "chat/completions" until it is answered.

        `sent` is what the request counts against the rate of tokens. With `doubt` it is longer
        than any that was answered, so that a refusal may be about its length: then one more try
        is all that is made of what the server does not explain.

        Raises EndpointError for what would befall every request, PromptTooLongError,
        ThrottledError, ParameterRefusedError, ServerGoneError when nothing can be reached, and
        RejectedError for everything else.
        """
        return self._again(lambda: self._send(api, body), body, sent, tries, doubt=doubt)

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
        return masked(text, os.environ.get(KEY, ""))

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
        # Of its own parameters the client would refuse some, and hand a stream over unread.
        named = {name: body[name] for name in _NAMED if name in body}
        rest = {name: value for name, value in body.items() if name not in named}
        response = raw.create(**named, extra_body=rest)
        return read_reply(str(response.text), time.perf_counter() - begun)

    def _aside(self, send: Callable[[], Any]) -> Any:
        """A question about the server: a refusal or garbage is an answer too."""
        openai = self._openai
        for tries in range(1, TRIES + 1):
            try:
                return send()
            except openai.APIStatusError as error:
                if error.status_code not in BUSY or tries == 3:
                    return None
            except openai.APIConnectionError as error:
                if tries == 3:
                    raise ServerGoneError(self._connection(error)) from error
            except (openai.OpenAIError, ValueError):
                return None
            self._pause(backoff(tries, self._random))
        return None

    def _again(
        self,
        send: Callable[[], Reply],
        body: Mapping[str, Any],
        sent: Sent,
        most: int,
        *,
        doubt: bool,
    ) -> Reply:
        openai = self._openai
        gone, last, verdict = False, "", Consequence.AGAIN
        for tries in range(1, most + 1):
            self._gate.enter(sent.tokens + sent.most)
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
                pause = retry_after(error.response.headers)
                refusal = read_refusal(
                    int(error.status_code), str(error.response.text), waits=pause is not None
                )
                gone, last = False, self._refused(refusal, body, sent, tries, doubt=doubt)
                if is_rate(refusal):
                    verdict = Consequence.TOO_MUCH if refusal.status != 429 else Consequence.AGAIN
                    self._gate.close(min(pause or 0.0, LONGEST_OBEYED))
            except ErrorInsideError as error:
                gone, last = False, self._refused(error.refusal, body, sent, tries, doubt=doubt)
            except BadReplyError as error:
                gone, last = False, self.clean(str(error))
            if tries < most:
                self._pause(pause if pause is not None else backoff(tries, self._random))
        if self._gate.stop.is_set():
            raise RejectedError("the run was stopped")
        if verdict is Consequence.TOO_MUCH:
            raise ThrottledError(last)
        raise (ServerGoneError if gone else RejectedError)(last)

    def _pause(self, seconds: float) -> None:
        """Wait; a server that asks for it holds back every request to come."""
        if seconds > LONGEST_OBEYED:
            raise EndpointError(
                f"{self.url} asks to wait {seconds:,.0f} s before the next request; what was "
                "answered is kept, and the same command goes on later"
            )
        self._gate.sleep(seconds)

    def _refused(
        self, refusal: Refusal, body: Mapping[str, Any], sent: Sent, tries: int, *, doubt: bool
    ) -> str:
        """Why to send again. Raises what ends the request, or the run."""
        status = refusal.status
        verdict = judge_refusal(refusal, sent, body)
        told = self.clean(f"{self.url} says {status}: {refusal.said[:300]}")
        # What a server breaks on may pass by itself, once.
        broke = status >= 500 or status == 200
        if verdict is Consequence.TOO_LONG and (tries > 1 or not broke):
            raise PromptTooLongError(told)
        if verdict is Consequence.TOO_MUCH:
            raise ThrottledError(told)
        if verdict is Consequence.PARAMETER:
            raise ParameterRefusedError(told, named_parameters(refusal, body), refusal)
        if verdict is Consequence.STOP and not (doubt and status in _DOUBTFUL):
            self._stop(refusal, told)
        if verdict in (Consequence.REJECTED, Consequence.STOP) and not (
            broke and (tries == 1 or not doubt)
        ):
            raise RejectedError(told, unexplained=True, early=broke or verdict is Consequence.STOP)
        return told

    def _stop(self, refusal: Refusal, told: str) -> None:
        """Raise what ends the run."""
        status = refusal.status
        if status in (401, 403):
            # What a server says about a wrong key may hold a part of it.
            raise EndpointError(f"{self.url} says {status}: {_REASONS[status]}")
        kind = NoSuchPlaceError if status in (404, 405, 501) else EndpointError
        raise kind(f"{told}; {_REASONS[status]}")

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


_NAMED = ("model", "prompt", "messages")
_DOUBTFUL = frozenset({403, 404, 405, 501})
"""Statuses that end a run, unless shorter prompts were answered at the same place."""
_SECRET = 16
"""Characters from which on no word of a message is as long as the key by chance."""


def masked(text: str, key: str) -> str:
    """The text without the key, and with all of its words.

    A short key is masked where it stands by itself, and one that may be a word only where a key is
    spoken of: in quotes, or behind "key", "token", "bearer" or a colon.
    """
    if not key:
        return text
    if len(key) >= _SECRET:
        return text.replace(key, "[key]")
    alone = rf"(?<![^\W_]){re.escape(key)}(?![^\W_])"
    if not key.isalpha():
        return re.sub(alone, "[key]", text)
    spoken_of = (
        rf"(?i:(\b(?:key|token|bearer)\b[\s:=]*(?:is |was |provided[:\s]*)?|[:=]\s*))(?-i:{alone})"
    )
    quoted = rf"([\"'`]){alone}(?=[\"'`])"
    return re.sub(quoted, r"\1[key]", re.sub(spoken_of, r"\1[key]", text))


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
