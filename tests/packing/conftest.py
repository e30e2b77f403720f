"""Tokenizers of several families for packing, none of which needs a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def backend(tiny_tokenizer: Callable[[str], Any]) -> Callable[[str], Any]:
    """backend(kind): a `tokenizers.Tokenizer`; kinds as `tiny_tokenizer`, and "wordpiece"."""

    def make(kind: str) -> Any:
        return _wordpiece() if kind == "wordpiece" else tiny_tokenizer(kind).backend_tokenizer

    return make


def _wordpiece() -> Any:
    """As BERT has it: blanks dropped, words of more than 100 letters unknown."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,'-"
    unknown = "[UNK]"
    words = [unknown, "the", "sea", "##ing", "whale", *letters, *(f"##{c}" for c in letters)]
    made = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made
