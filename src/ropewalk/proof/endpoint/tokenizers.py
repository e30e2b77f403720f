"""Tokenizers for `ropewalk.proof.tokens.Tokens` where there is no file of the model's own.

`ServerTokenizer` asks the server's tokenizer, as llama.cpp and vLLM offer it; `Estimate` cuts
text into pieces of about a token each, to be calibrated against what the server counts. Both
have just the names of a transformers tokenizer that `Tokens` uses.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ropewalk.errors import EndpointError
from ropewalk.proof.endpoint.client import Client

_SAMPLE = "A sample: 0123456789 (of) what a tokenizer makes of text.\n\tÄnderung, déjà vu, 東京!"
"""What two tokenizers are told apart by."""

_AS_IT_IS = "{{ messages[0]['content'] }}"
"""A template that adds nothing: what the server's own adds is found by calibration."""

_PIECE = re.compile(r" ?[A-Za-z]{1,5}| ?[0-9]| ?[^\sA-Za-z0-9]|\s")


class ServerTokenizer:
    """The server's own tokenizer, over HTTP; every text is asked once.

    `openai_words` says which of the two forms the server has: vLLM's, with the names of the
    OpenAI API ("prompt"), or llama.cpp's ("content"). Raises EndpointError when it stops
    answering.
    """

    eos_token_id = None

    def __init__(self, client: Client, model: str, *, openai_words: bool) -> None:
        self._client = client
        self._model = model
        self._openai_words = openai_words
        self.chat_template = _AS_IT_IS
        self._ids = lru_cache(maxsize=4096)(self._asked)

    @classmethod
    def find(cls, client: Client, model: str) -> ServerTokenizer | None:
        """The tokenizer of a server, None when it offers none."""
        for openai_words in (False, True):
            found = cls(client, model, openai_words=openai_words)
            if found._request(_SAMPLE, False) is not None:
                found._find_template()
                return found
        return None

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """The ids of a text, as a transformers tokenizer gives them."""
        return {"input_ids": list(self._ids(text, add_special_tokens))}

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:  # noqa: ARG002
        """The text of ids."""
        said = self._client.post("/detokenize", {"model": self._model, "tokens": list(ids)})
        text = said.get("prompt", said.get("content")) if isinstance(said, dict) else None
        if not isinstance(text, str):
            raise EndpointError(f"{self._client.url} has no /detokenize; give --tokenizer")
        return text

    def get_vocab(self) -> dict[str, int]:
        """Stands for the vocabulary where tokenizers are told apart: ids of a fixed sample."""
        return {str(i): token for i, token in enumerate(self._ids(_SAMPLE, True))}

    def get_chat_template(self) -> str:
        """The template, or what stands for it."""
        return self.chat_template

    def apply_chat_template(
        self,
        turns: Sequence[Mapping[str, str]],
        **_: object,
    ) -> str:
        """The turns as the server's own template writes them; as they are where it is not told."""
        if self.chat_template == _AS_IT_IS:
            return turns[0]["content"]
        said = self._client.post("/apply-template", {"messages": [dict(turn) for turn in turns]})
        text = said.get("prompt") if isinstance(said, dict) else None
        if not isinstance(text, str):
            raise EndpointError(f"{self._client.url} does not answer /apply-template any more")
        return text

    def _find_template(self) -> None:
        turns = [{"role": "user", "content": "x"}]
        said = self._client.post("/apply-template", {"messages": turns})
        if isinstance(said, dict) and isinstance(said.get("prompt"), str):
            self.chat_template = said["prompt"]

    def _asked(self, text: str, special: bool) -> tuple[int, ...]:
        found = self._request(text, special)
        if found is None:
            raise EndpointError(f"{self._client.url} does not answer /tokenize any more")
        return found

    def _request(self, text: str, special: bool) -> tuple[int, ...] | None:
        body: dict[str, object] = {"content": text, "add_special": special}
        if self._openai_words:
            body = {"model": self._model, "prompt": text, "add_special_tokens": special}
        said = self._client.post("/tokenize", body)
        ids = said.get("tokens") if isinstance(said, dict) else None
        if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
            return None
        return tuple(ids)


class Estimate:
    """Pieces of about a token each: at most five letters, one digit, one sign, or one space.

    Equal pieces have equal ids, on any machine. How many tokens a piece really is, on average,
    is for `calibration` to find.
    """

    eos_token_id = None
    chat_template = _AS_IT_IS

    def __init__(self) -> None:
        self._pieces: dict[int, str] = {}

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:  # noqa: ARG002
        """The ids of a text."""
        return {"input_ids": [self._id(piece) for piece in _PIECE.findall(text)]}

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:  # noqa: ARG002
        """The text of ids that this object has given out."""
        return "".join(self._pieces[i] for i in ids)

    def get_vocab(self) -> dict[str, int]:
        """Stands for the vocabulary where tokenizers are told apart."""
        return {_PIECE.pattern: 0}

    def get_chat_template(self) -> str:
        """A template that adds nothing."""
        return self.chat_template

    def apply_chat_template(self, turns: Sequence[Mapping[str, str]], **_: Any) -> str:
        """What the turn says."""
        return turns[0]["content"]

    def _id(self, piece: str) -> int:
        number = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=6).digest(), "big")
        self._pieces[number] = piece
        return number
