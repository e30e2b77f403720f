"""What stands around a haystack: the first line before it, the question behind it."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.errors import ModelFileError
from ropewalk.proof.tasks.base import Problem
from ropewalk.proof.tokens import Tokens, shared_start
from ropewalk.short import short

_MARK = "<haystack>"


@short
@dataclass(frozen=True, slots=True)
class Frame:
    """The texts before and behind the haystack, and what they cost.

    `value_ids` follow the prompt. `special`: whether the tokenizer's own special tokens are put
    before the text. `tokens` counts everything that is not haystack: frame, and `budget` tokens
    of answer.
    """

    before: str
    after: str
    value_ids: tuple[int, ...]
    budget: int
    special: bool
    tokens: int


@short
@dataclass(frozen=True, slots=True)
class Framer:
    """Makes frames for one model. `answer_tokens` are kept free for a chat answer."""

    tokens: Tokens
    chat: bool
    answer_tokens: int

    def __call__(self, problem: Problem, introduction: str) -> Frame:
        """The frame of a problem.

        Raises ModelFileError when the chat template does not pass the question on as it is, and
        LengthError when the tokenizer merges over the seam before the value.
        """
        if self.chat:
            ask = (
                f"{introduction}\n\n{_MARK}\n\n{problem.question} Answer with the {problem.noun} "
                "only."
            )
            before, mark, after = self.tokens.chat(ask).partition(_MARK)
            if not mark or mark in after or problem.question not in after:
                raise ModelFileError(
                    "the model's chat template does not pass on what the user says as it was "
                    "said; leave out --chat"
                )
            # The template says itself which special tokens begin a turn.
            value, special = problem.value, False
        else:
            before = f"{introduction}\n\n"
            after = f"\n\nQuestion: {problem.question}\nAnswer: {problem.opening}"
            value, special = f" {problem.value}", True
        value_ids = self.tokens.continuation(before + after, value, special=special)
        budget = max(self.answer_tokens, len(value_ids)) if self.chat else len(value_ids)
        bare = len(self.tokens.encode(before + after, special=special))
        return Frame(before, after, value_ids, budget, special, bare + budget)

    def begins(self, frame: Frame, laid: list[str], index: int, ids: list[int]) -> int:
        """The place in `ids`, the whole prompt, of the first token of sentence `index`.

        A tokenizer may join the white space before a sentence with it, or with what stands
        before, depending on what follows. So another text is put in the sentence's place: up to
        there both have the same ids.
        """
        if index >= len(laid):
            return len(ids)
        head = frame.before + "".join(f"{sentence} " for sentence in laid[:index])
        lead = laid[index][0]
        # Of the same kind as what stands there: many tokenizers treat digits in their own way.
        same_kind = "01" if lead.isdigit() else "ZA"
        other = same_kind[1] if lead == same_kind[0] else same_kind[0]
        return shared_start(ids, self.tokens.encode(head + other, special=frame.special))
