"""New tokens in a tokenizer's files: the entries that they get, and the pieces that they were.

Entries are added to the files' own JSON, so that everything else in them stays as it was written;
the package tokenizers reads them before and after.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ropewalk.dialects.hf import load_json
from ropewalk.errors import UsageError
from ropewalk.tables.vocabulary import Vocabulary
from ropewalk.tables.words import package

_TOKENIZER, _SETTINGS = "tokenizer.json", "tokenizer_config.json"


class NewTokens:
    """The tokenizer's files before and after; `added` are the new tokens by id.

    Raises UsageError for tokens that cannot be added.
    """

    def __init__(
        self, folder: Path, vocabulary: Vocabulary | None, add: Sequence[str], *, special: bool
    ) -> None:
        self._folder, self._special = folder, special
        self.tokens = None if vocabulary is None else len(vocabulary)
        self.added: tuple[tuple[int, str], ...] = ()
        if not add:
            return
        if self.tokens is None or not (folder / _TOKENIZER).is_file():
            raise UsageError(
                f"{folder} has no tokenizer.json to add tokens to; save the tokenizer there with "
                "save_pretrained, or give the number of rows alone with --rows"
            )
        held = package("tokenizers").Tokenizer.from_file(str(folder / _TOKENIZER))
        for token in add:
            known = held.token_to_id(token)
            if known is not None:
                raise UsageError(f"{token!r} is token {known} of this tokenizer already")
        self.added = tuple(enumerate(add, self.tokens))

    def files(self) -> dict[str, dict[str, Any]]:
        """The files that say which tokens there are, by name, as they are to be."""
        if not self.added:
            return {}
        held: dict[str, Any] = dict(load_json(self._folder / _TOKENIZER))
        entries = {
            row: {
                "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": self._special,
            }
            for row, token in self.added
        }  # fmt: skip
        listed = [{"id": row, **entry} for row, entry in entries.items()]
        held["added_tokens"] = [*(held.get("added_tokens") or []), *listed]
        files = {_TOKENIZER: held}
        settings = self._folder / _SETTINGS
        if settings.is_file():
            said: dict[str, Any] = dict(load_json(settings))
            known = said.get("added_tokens_decoder")
            if isinstance(known, dict):
                both = sorted({str(row) for row, _ in self.added} & set(known))
                if both:
                    raise UsageError(
                        f"{settings} has a token {both[0]} that tokenizer.json lacks; save the "
                        "tokenizer again with save_pretrained, so that its files agree"
                    )
                said["added_tokens_decoder"] = known | {str(r): e for r, e in entries.items()}
                files[_SETTINGS] = said
        return files

    def pieces(self, rows: int) -> dict[int, list[int]]:
        """For each token without a row among `rows`, the ids of the pieces that it was before."""
        path = self._folder / _TOKENIZER
        if not path.is_file():
            raise UsageError(
                f"{self._folder} has no tokenizer.json that could cut new tokens into pieces; "
                "choose mean or covariance"
            )
        held: dict[str, Any] = dict(load_json(path))
        listed = held.get("added_tokens") or []
        held["added_tokens"] = [each for each in listed if each["id"] < rows]
        before = package("tokenizers").Tokenizer.from_str(json.dumps(held))
        late = [(each["id"], each["content"]) for each in listed if each["id"] >= rows]
        return {
            row: before.encode(text, add_special_tokens=False).ids
            for row, text in (*late, *self.added)
        }
