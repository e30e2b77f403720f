"""What prompts need of a tokenizer, on top of any transformers tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ropewalk.errors import LengthError, MissingPartError, ModelFileError
from ropewalk.packing.table_rows import check_rows, has_rowless

_ANCHOR = "x"
"""Stands before a sentence that is counted: some tokenizers put a space before a text of their
own, which a sentence in the middle of one does not get."""
_AROUND = 12
"""Tokens on either side of one without a row that are shown with it."""
_COMPARED = 512
"""Items compared at once."""
_NEW_YEAR = """{%- macro strftime_now(format) -%}{{ format
| replace("%d", "01") | replace("%m", "01") | replace("%Y", "2025") | replace("%y", "25")
| replace("%b", "Jan") | replace("%B", "January") | replace("%A", "Wednesday")
| replace("%H", "00") | replace("%M", "00") | replace("%S", "00") }}{%- endmacro -%}"""
"""Put before a chat template that asks for the date: the same prompt on any day."""


class Tokens:
    """Counting and encoding with the model's own tokenizer.

    `tokenizer` is a transformers tokenizer. Token ids are plain ints.
    `inner(sentence)` is the number of tokens a sentence takes in the middle of a text. `opening`
    are the ids that it puts before every text, as the model was trained to see one begin: a BOS,
    mostly, and for many models none. `rows` are those of the model's table, None where none is
    known, as of a model at a server: ids without a row are never handed out.
    """

    def __init__(self, tokenizer: Any, rows: int | None = None) -> None:
        self._tokenizer = tokenizer
        # Most tokenizers fit their model, and then no text has to be looked at.
        self._rows = rows if rows is not None and has_rowless(tokenizer, rows) else None
        bare, full = (self._ids(_ANCHOR, special) for special in (False, True))
        self._anchor = len(bare)
        begins = _offset(full, bare)
        self.opening = tuple(full[:begins])
        self._closing = len(full) - len(bare) - begins
        self.inner: Callable[[str], int] = lru_cache(maxsize=65536)(self._inner)

    @property
    def may_lack_rows(self) -> bool:
        """Whether the tokenizer has ids that the model's table has no row for."""
        return self._rows is not None

    def encode(self, text: str, *, special: bool = True, where: str = "") -> list[int]:
        """The ids of a prompt that the model is to go on with.

        With `special`, with the special tokens that this tokenizer puts before a text, and
        without those that it puts after one: a closing token would end what must be continued.

        Raises RowError for an id that the model's table has no row for, before the model is asked
        anything. `where` names the text in it; the text around the token does where it is "".
        """
        ids = self._ids(text, special, where)
        return ids[: len(ids) - self._closing] if special else ids

    def continuation(self, prompt: str, value: str, *, special: bool) -> tuple[int, ...]:
        """The ids that `value` adds behind `prompt`.

        Raises LengthError when the tokenizer merges over the seam, so that the prompt's own ids
        would not be a beginning of the whole.
        """
        before = self.encode(prompt, special=special)
        whole = self.encode(prompt + value, special=special)
        if whole[: len(before)] != before:
            raise LengthError(
                f"this tokenizer merges {value!r} into the text before it, so a prompt cannot end "
                "there; use --chat"
            )
        return tuple(whole[len(before) :])

    def check(self, texts: Mapping[str, str]) -> None:
        """Raise RowError for the first of `texts`, by what each is called, with an id without a
        row; at no cost where the tokenizer has no such id.
        """
        if self._rows is not None:
            for where, text in texts.items():
                self._ids(text, special=False, where=where)

    def decode(self, ids: list[int], *, special: bool = False) -> str:
        """The text of ids; special tokens are left out without `special`."""
        return str(self._tokenizer.decode(ids, skip_special_tokens=not special))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """How the tokenizer spells each of some ids, special ones too."""
        return [str(piece) for piece in self._tokenizer.convert_ids_to_tokens(list(ids))]

    def chat(self, message: str) -> str:
        """The model's own chat template around one user message, up to where it answers.

        Templates that print the date are told a fixed one.

        Raises ModelFileError when the tokenizer has no template or the template fails.
        """
        if not getattr(self._tokenizer, "chat_template", None):
            raise ModelFileError("this model's tokenizer has no chat template; leave out --chat")
        try:
            from jinja2 import TemplateError
        except ImportError as error:
            raise MissingPartError(
                '--chat needs jinja2, which is not installed: pip install "ropewalk[prove]"'
            ) from error

        turns = [{"role": "user", "content": message}]
        try:
            template = str(self._tokenizer.get_chat_template())
            if "strftime_now" in template:
                template = _NEW_YEAR + template
            return str(
                self._tokenizer.apply_chat_template(
                    turns, chat_template=template, tokenize=False, add_generation_prompt=True
                )
            )
        except (TemplateError, TypeError, ValueError, KeyError) as error:
            raise ModelFileError(f"the model's chat template fails: {error}") from error

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids that end an answer."""
        end = self._tokenizer.eos_token_id
        return frozenset() if end is None else frozenset({int(end)})

    def fingerprint(self) -> str:
        """16 hex digits of everything that decides ids: vocabulary, merges, template."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        text = (
            backend.to_str()
            if backend is not None
            else repr(sorted(self._tokenizer.get_vocab().items()))
        )
        template = str(getattr(self._tokenizer, "chat_template", None))
        return hashlib.sha256(f"{text}\n{template}".encode()).hexdigest()[:16]

    def _inner(self, text: str) -> int:
        return len(self._ids(f"{_ANCHOR} {text}", special=False)) - self._anchor

    def _ids(self, text: str, special: bool, where: str = "") -> list[int]:
        ids = [int(i) for i in self._tokenizer(text, add_special_tokens=special)["input_ids"]]
        if self._rows is not None and max(ids, default=0) >= self._rows:
            check_rows(ids, self._rows, self._spell, where or self._around(ids, self._rows))
        return ids

    def _spell(self, token: int) -> str:
        return self.pieces([token])[0]

    def _around(self, ids: list[int], rows: int) -> str:
        """A text without a name, by what stands around its first id without a row."""
        at = next(i for i, token in enumerate(ids) if token >= rows)
        near = ids[max(0, at - _AROUND) : at + _AROUND + 1]
        return f"a prompt, which reads {self._tokenizer.decode(near)!r} there"


def _offset(full: list[int], bare: list[int]) -> int:
    """Where `bare` begins inside `full`; 0 when it is not in it."""
    for start in range(len(full) - len(bare) + 1):
        if full[start : start + len(bare)] == bare:
            return start
    return 0


def shared_start(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading items two sequences share."""
    shortest = min(len(left), len(right))
    begin = 0
    # Slices are compared far faster than items, and long prompts mostly agree.
    while begin < shortest:
        end = min(begin + _COMPARED, shortest)
        if list(left[begin:end]) != list(right[begin:end]):
            return next(i for i in range(begin, end) if left[i] != right[i])
        begin = end
    return shortest
