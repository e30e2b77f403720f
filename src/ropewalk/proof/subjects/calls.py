"""A transformers model from token ids to logits in pieces that fit, and from logits to answers.

A text goes through in one call. It is cut into chunks only when the memory at hand would not
hold the activations of the whole, and again smaller when a device says it is out of memory.

The value is scored teacher-forced. Greedy decoding would print it exactly when each of its tokens
is the most likely one there, so nothing is decoded for the HIT of a base prompt. Anything else is
decoded from where the model leaves the value; so is a chat answer that goes on after it, because
it may yet name another value. The rules are the same for every subject.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.models.load import entry
from ropewalk.proof.cells import Answer, Outcome, Prompt
from ropewalk.proof.classify import LIST, classify, goes_on
from ropewalk.proof.tokens import shared_start
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.tokens import Tokens


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch is told by names, so that it need not be imported.

    torch raises OutOfMemoryError on accelerators, and on CPUs a RuntimeError of its
    DefaultCPUAllocator.
    """
    if isinstance(error, MemoryError):
        return True
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def free_memory(device: torch.device) -> int | None:
    """Free bytes on a device, None when this system does not say."""
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


def give_back() -> None:
    """Let go of what torch keeps for later on GPUs, after something did not fit."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


SMALLEST_CHUNK = 256
"""Tokens a call; below this a prompt that still does not fit is an OVERFLOW."""


class ModelCalls:
    """Forward passes of `model`. `chunk` bounds the tokens of one, None: as many as fit."""

    def __init__(self, model: Any, chunk: int | None = None) -> None:
        self.model = model
        self._chunk = chunk
        # transformers 5.24 renamed past_key_values; both names are in use among 5.x.
        self._named = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in self._named else "past_key_values"

    @property
    def device(self) -> torch.device:
        """Where token ids go in."""
        device: torch.device = entry(self.model)
        return device

    @property
    def end_ids(self) -> frozenset[int]:
        """The ids at which the model's own generation stops: chat models have several."""
        generation = getattr(self.model, "generation_config", None)
        end = getattr(generation, "eos_token_id", None)
        if end is None:
            return frozenset()
        return frozenset({int(end)} if isinstance(end, int) else map(int, end))

    def takes(self, argument: str) -> bool:
        """Whether the model's forward names an argument."""
        return argument in self._named

    def call(
        self, ids: torch.Tensor, cache: Any, keep: int | torch.Tensor, **more: Any
    ) -> tuple[torch.Tensor, Any]:
        """One pass: ids (1, length) behind `cache` to logits (kept, vocabulary), and the cache.

        `keep` is how many of the last tokens get logits, or the indices (kept,) of those that do.
        """
        past = {self._cache_name: cache}
        out = self.model(ids, use_cache=True, logits_to_keep=keep, **past, **more)
        logits = out.logits[0]
        if isinstance(keep, int):
            return logits[-keep:], getattr(out, self._cache_name)
        if len(logits) != len(keep):
            # A model that takes no indices gives every token's.
            logits = logits[keep.to(logits.device)]
        return logits, getattr(out, self._cache_name)

    def chunk(self, length: int) -> int:
        """As many tokens a call as half the free memory holds for a text of `length` tokens.

        At least SMALLEST_CHUNK; the whole text when that fits.
        """
        if self._chunk is not None:
            return self._chunk
        config = self.model.config.get_text_config()
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        # Gemma 3n gives one for each layer; one layer's activations are alive at a time.
        widest = max(inner) if isinstance(inner, (list, tuple)) else inner
        width = 3 * int(widest) + 10 * int(config.hidden_size)
        free = free_memory(self.device)
        if free is None:
            return length
        itemsize = int(self.model.dtype.itemsize)
        whole = free // 2 // (width * itemsize)
        if whole >= length:
            return length
        # A chunk behind others needs a mask over the whole text, once as it is and once as numbers.
        part = free // 2 // (width * itemsize + length * (1 + itemsize))
        return max(SMALLEST_CHUNK, int(part))

    def halve(self, chunk: int, length: int) -> int | None:
        """What to try where `chunk` did not fit `length` tokens, from now on; None: nothing less.

        To be called where nothing holds on to what the failed pass had computed.
        """
        if chunk <= SMALLEST_CHUNK:
            return None
        self._chunk = max(SMALLEST_CHUNK, min(chunk, length) // 2)
        give_back()
        return self._chunk


@short
@dataclass(frozen=True, slots=True)
class TeacherForced:
    """What one pass over prompt and value says.

    `log_probability` is the value's, `best` the most likely token at each place of the value and
    behind it, and the first `right` of them are the value's.
    """

    prompt: Prompt
    log_probability: float
    best: tuple[int, ...]
    right: int

    @property
    def surplus(self) -> int:
        """Tokens of the value that the model would not have said."""
        return len(self.prompt.value_ids) - self.right


class Judge:
    """Turns logits and decoded tokens into answers. `end_ids` end an answer."""

    def __init__(self, tokens: Tokens, end_ids: frozenset[int], *, chat: bool) -> None:
        self._tokens = tokens
        self._end_ids = end_ids
        self._chat = chat

    def teacher_forced(self, logits: torch.Tensor, prompt: Prompt) -> TeacherForced:
        """Score a value by its logits (len(value) + 1, vocabulary), in fp32."""
        import torch

        value = torch.tensor(prompt.value_ids, device=logits.device)
        logits = logits.float()
        each = logits[: len(value)].log_softmax(-1)
        score = float(each.gather(1, value[:, None]).sum())
        best = tuple(int(i) for i in logits.argmax(-1))
        return TeacherForced(prompt, score, best, shared_start(best, prompt.value_ids))

    def is_hit(self, forced: TeacherForced) -> bool:
        """Whether greedy decoding prints the value, whatever is decoded behind it."""
        several = LIST in forced.prompt.value
        return forced.surplus == 0 and self._ends(forced.best[forced.right], several)

    def greedy(self, forced: TeacherForced) -> Greedy:
        """What greedy decoding prints up to where it leaves the value; to be gone on with."""
        first = [*forced.prompt.value_ids[: forced.right], forced.best[forced.right]]
        # The value's last token never needs to be decoded from: one more shows what follows it.
        budget = max(forced.prompt.budget, len(forced.prompt.value_ids) + 1)
        return Greedy(first, budget, self._end_ids)

    def answer(self, forced: TeacherForced, greedy: Greedy | None, seconds: float) -> Answer:
        """The answer: `greedy` is what was decoded, None for a hit without decoding."""
        prompt = forced.prompt
        if greedy is None:
            return Answer(Outcome.HIT, forced.log_probability, prompt.value, seconds)
        said = greedy.said
        # Marks of thinking are special tokens in many tokenizers, and a chat answer has no others.
        printed = self._tokens.decode(said, special=self._chat)
        outcome = classify(
            printed,
            prompt.value,
            prompt.distractors,
            chat=self._chat,
            cut=len(said) == len(greedy.printed),
            before=prompt.text,
        )
        return Answer(outcome, forced.log_probability, printed, seconds)

    def _ends(self, token: int, several: bool) -> bool:
        """Whether the answer ends when `token` follows the value.

        A base answer is: the value must end where it ends, so anything ends it but a letter
        or a digit, and behind `several` values what a further one could begin with.
        """
        if token in self._end_ids:
            return True
        if self._chat:
            return False
        text = self._tokens.decode([token])
        if several and not text.startswith((".", "\n")):
            return False
        # Half of a letter is decoded as U+FFFD: which one it is, the next token says.
        return not text or not (goes_on(text[0]) or text[0] == "\ufffd")


@short
@dataclass(slots=True)
class Greedy:
    """Tokens printed so far, up to `budget` of them or the first of `end_ids`."""

    printed: list[int]
    budget: int
    end_ids: frozenset[int]

    @property
    def said(self) -> list[int]:
        """What was printed, without what ends it."""
        return self.printed[:-1] if self.printed[-1] in self.end_ids else self.printed

    @property
    def over(self) -> bool:
        """Whether nothing more is to be decoded."""
        return len(self.printed) >= self.budget or self.printed[-1] in self.end_ids

    def steps(self) -> Iterator[int]:
        """The token to decode from, as long as there is more to print; append what follows."""
        while not self.over:
            yield self.printed[-1]
