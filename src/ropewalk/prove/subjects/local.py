"""A transformers model on this machine, asked one prompt at a time.

One pass over prompt and value together scores the value teacher-forced: logits are computed
only where its tokens are predicted. Greedy decoding would print the value exactly when each of
its tokens is the most likely one there, so nothing is decoded for the HIT of a base prompt.
Anything else is decoded from the same key-value cache, cut back to where the model leaves the
value; so is a chat answer that goes on after it, because it may yet name another value.

The prompt goes through in one call. It is cut into chunks only when the memory at hand would
not hold the activations of the whole, and again smaller when a device says it is out of memory.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ropewalk.prove.cells import Answer, Outcome, Prompt
from ropewalk.prove.classify import classify
from ropewalk.prove.tokens import shared_start

if TYPE_CHECKING:
    import torch

    from ropewalk.prove.tokens import Tokens

SMALLEST_CHUNK = 256
"""Tokens a call; below this a prompt that still does not fit is an OVERFLOW."""


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
        self._model = model
        self._tokens = tokens
        self._chat = chat
        self._set_length = set_length or (lambda _: None)
        self._limit = position_limit
        self._chunk = chunk
        # transformers 5.24 renamed past_key_values; both names are in use among 5.x.
        named = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in named else "past_key_values"
        self._end_ids = tokens.end_ids | _end_ids(model)

    def fits(self, length: int) -> str | None:
        """Why a prompt of `length` tokens cannot be asked at all, or None when it can."""
        if self._limit is not None and length > self._limit:
            return f"the model has {self._limit} positions, the prompt needs {length}"
        return None

    def answer(self, prompt: Prompt) -> Answer:
        """Score and, where the value is not what the model says, decode.

        Raises torch.OutOfMemoryError or MemoryError when even small chunks do not fit.
        """
        import torch

        begun = time.perf_counter()
        self._set_length(prompt.length)
        with torch.inference_mode():
            logits, cache = self._prefill(prompt)
            value = torch.tensor(prompt.value_ids, device=logits.device)
            told = logits[: len(value)].log_softmax(-1)
            score = float(told.gather(1, value[:, None]).sum())
            best = [int(i) for i in logits.argmax(-1)]
            right = shared_start(best, prompt.value_ids)
            if right == len(value) and self._ends(best[right]):
                outcome, printed = Outcome.HIT, prompt.value
            else:
                printed = self._decode(prompt, best, right, cache)
                outcome = classify(printed, prompt.value, prompt.distractors, chat=self._chat)
        return Answer(outcome, score, printed, time.perf_counter() - begun)

    def _ends(self, token: int) -> bool:
        """Whether the answer is settled when `token` follows the value.

        A base answer is: the value must end where it ends, so anything but a digit settles it.
        """
        if token in self._end_ids:
            return True
        return not self._chat and not self._tokens.decode([token])[:1].isdigit()

    def _prefill(self, prompt: Prompt) -> tuple[torch.Tensor, Any]:
        """Logits (len(value) + 1, vocabulary) fp32, from the last prompt token on; the cache."""
        import torch

        ids = torch.tensor([[*prompt.token_ids, *prompt.value_ids]], device=self._model.device)
        keep = len(prompt.value_ids) + 1
        chunk = self._chunk or self._chunk_for(ids.shape[1])
        while True:
            try:
                return self._forward(ids, keep, chunk)
            except torch.OutOfMemoryError:
                if chunk <= SMALLEST_CHUNK:
                    raise
            # Out here nothing holds what the failed pass had computed any more.
            chunk = self._chunk = max(SMALLEST_CHUNK, min(chunk, ids.shape[1]) // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def _forward(self, ids: torch.Tensor, keep: int, chunk: int) -> tuple[torch.Tensor, Any]:
        total = ids.shape[1]
        cache: Any = None
        done = 0
        while total - done > max(chunk, keep):
            # The last call keeps at least `keep` tokens, so that all logits come from one call.
            step = min(chunk, total - done - keep)
            _, cache = self._call(ids[:, done : done + step], cache, 1)
            done += step
        logits, cache = self._call(ids[:, done:], cache, keep)
        return logits.float(), cache

    def _call(self, ids: torch.Tensor, cache: Any, keep: int) -> tuple[torch.Tensor, Any]:
        """One forward pass: ids (1, length) to the last `keep` logits (keep, vocabulary)."""
        past = {self._cache_name: cache}
        out = self._model(ids, use_cache=True, logits_to_keep=keep, **past)
        return out.logits[0, -keep:], getattr(out, self._cache_name)

    def _chunk_for(self, length: int) -> int:
        """As many tokens a call as half the free memory holds; the whole prompt when it can."""
        config = self._model.config.get_text_config()
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        # Gemma 3n gives one for each layer; one layer's activations are alive at a time.
        widest = max(inner) if isinstance(inner, (list, tuple)) else inner
        width = 3 * int(widest) + 10 * int(config.hidden_size)
        free = _free_memory(self._model.device)
        if free is None:
            return length
        fitting = free // 2 // (width * self._model.dtype.itemsize)
        return length if fitting >= length else max(SMALLEST_CHUNK, int(fitting))

    def _decode(self, prompt: Prompt, best: Sequence[int], right: int, cache: Any) -> str:
        """What greedy decoding prints behind the prompt, up to the prompt's budget.

        The first `right` tokens are the value's; best[right] is where the model leaves it.
        """
        import torch

        printed = [*prompt.value_ids[:right], best[right]]
        # The value's last token never needs to be decoded from: one more shows what follows it.
        budget = max(prompt.budget, len(prompt.value_ids) + 1)
        cache = self._cut(prompt, cache, right)
        while len(printed) < budget and printed[-1] not in self._end_ids:
            step = torch.tensor([[printed[-1]]], device=self._model.device)
            logits, cache = self._call(step, cache, 1)
            printed.append(int(logits[-1].argmax()))
        return self._tokens.decode(printed)

    def _cut(self, prompt: Prompt, cache: Any, right: int) -> Any:
        """The cache holding the prompt and the first `right` tokens of the value, no more."""
        surplus = len(prompt.value_ids) - right
        if surplus == 0:
            return cache
        try:
            cache.crop(-surplus)
        except (RuntimeError, ValueError, AttributeError, NotImplementedError):
            # Sliding layers that have dropped tokens, and recurrent states, cannot go back:
            # read the prompt again.
            import torch

            ids = [*prompt.token_ids, *prompt.value_ids[:right]]
            tensor = torch.tensor([ids], device=self._model.device)
            _, cache = self._forward(tensor, 1, self._chunk or self._chunk_for(len(ids)))
        return cache


def _end_ids(model: Any) -> frozenset[int]:
    """The ids at which the model's own generation stops: chat models have several."""
    generation = getattr(model, "generation_config", None)
    end = getattr(generation, "eos_token_id", None)
    if end is None:
        return frozenset()
    return frozenset({int(end)} if isinstance(end, int) else map(int, end))


def _free_memory(device: torch.device) -> int | None:
    """Free bytes where the model lives, None when this system does not say."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - not a real file
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None
