"""A transformers model on this machine, asked one prompt at a time.

One pass over prompt and value together scores the value teacher-forced: logits are computed
only where its tokens are predicted. What has to be decoded is decoded from the same key-value
cache, which is the model's own, cut back to where the model leaves the value. So this works for
every model, also for one whose state cannot be shared between prompts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ropewalk.proof.cells import Answer, Prompt
from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.proof.subjects.judge import Judge, Saying, Told
from ropewalk.proof.subjects.memory import is_out_of_memory

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.tokens import Tokens


class LocalSubject:
    """Asks a causal language model of transformers.

    `set_length(tokens)` is called before each prompt with its length, so that schedules which
    depend on it can be put in place. `position_limit` is the number of positions the model can
    take at all (the rows of a learned table), None when there is no such limit.
    """

    def __init__(
        self,
        model: Any,
        tokens: Tokens,
        *,
        chat: bool = False,
        set_length: Callable[[int], None] | None = None,
        position_limit: int | None = None,
        chunk: int | None = None,
    ) -> None:
        self._calls = ModelCalls(model, chunk)
        self._judge = Judge(tokens, tokens.end_ids | self._calls.end_ids, chat=chat)
        self._set_length = set_length or (lambda _: None)
        self._limit = position_limit

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be asked at all, or None when it can."""
        return exceeded(self._limit, length)

    def answer(self, prompt: Prompt) -> Answer:
        """Score and, where the value is not what the model says, decode.

        Raises what the model raises, out of memory only when even small chunks do not fit.
        """
        import torch

        begun = time.perf_counter()
        self._set_length(prompt.length)
        with torch.inference_mode():
            logits, cache = self._read((*prompt.token_ids, *prompt.value_ids), prompt)
            told = self._judge.hear(logits, prompt)
            saying = None if self._judge.settled(told) else self._decode(told, cache)
        return self._judge.answer(told, saying, time.perf_counter() - begun)

    def _read(self, ids: tuple[int, ...], prompt: Prompt) -> tuple[torch.Tensor, Any]:
        """Logits (len(value) + 1, vocabulary) of the last tokens of `ids`; the cache."""
        import torch

        tensor = torch.tensor([ids], device=self._calls.device)
        keep = len(prompt.value_ids) + 1
        chunk: int | None = self._calls.chunk(len(ids))
        while chunk is not None:
            try:
                return self._forward(tensor, keep, chunk)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = error.with_traceback(None)
            # Out here nothing holds what the failed pass had computed any more.
            chunk = self._calls.halve(chunk, len(ids))
        raise failed

    def _forward(self, ids: torch.Tensor, keep: int, chunk: int) -> tuple[torch.Tensor, Any]:
        total = ids.shape[1]
        cache: Any = None
        done = 0
        while total - done > max(chunk, keep):
            # The last call keeps at least `keep` tokens, so that all logits come from one call.
            step = min(chunk, total - done - keep)
            _, cache = self._calls.call(ids[:, done : done + step], cache, 1)
            done += step
        return self._calls.call(ids[:, done:], cache, keep)

    def _decode(self, told: Told, cache: Any) -> Saying:
        """What greedy decoding prints behind the prompt, up to the prompt's budget."""
        import torch

        saying = self._judge.saying(told)
        cache = self._cut(told, cache)
        for token in saying.steps():
            step = torch.tensor([[token]], device=self._calls.device)
            logits, cache = self._calls.call(step, cache, 1)
            saying.printed.append(int(logits[-1].argmax()))
        return saying

    def _cut(self, told: Told, cache: Any) -> Any:
        """The cache holding the prompt and what the model says of the value, no more."""
        if told.surplus == 0:
            return cache
        try:
            cache.crop(-told.surplus)
        except (RuntimeError, ValueError, AttributeError, NotImplementedError):
            # Sliding layers that have dropped tokens, and recurrent states, cannot go back:
            # read the prompt again.
            prompt = told.prompt
            _, cache = self._read((*prompt.token_ids, *prompt.value_ids[: told.right]), prompt)
        return cache


def exceeded(limit: int | None, length: int) -> str | None:
    """Why a model of `limit` positions cannot take a prompt of `length` tokens, or None."""
    if limit is not None and length > limit:
        return f"the model has {limit} positions, the prompt needs {length}"
    return None
