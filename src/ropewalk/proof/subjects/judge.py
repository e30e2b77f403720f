"""What a model said to a prompt, from the logits behind it: the same rules for every subject.

The value is scored teacher-forced. Greedy decoding would print it exactly when each of its tokens
is the most likely one there, so nothing is decoded for the HIT of a base prompt. Anything else is
decoded from where the model leaves the value; so is a chat answer that goes on after it, because
it may yet name another value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.proof.cells import Answer, Outcome, Prompt
from ropewalk.proof.classify import LIST, classify
from ropewalk.proof.naming import goes_on
from ropewalk.proof.tokens import shared_start
from ropewalk.short import short

if TYPE_CHECKING:
    import torch

    from ropewalk.proof.tokens import Tokens


@short
@dataclass(frozen=True, slots=True)
class Told:
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

    def hear(self, logits: torch.Tensor, prompt: Prompt) -> Told:
        """Score a value by its logits (len(value) + 1, vocabulary), in fp32."""
        import torch

        value = torch.tensor(prompt.value_ids, device=logits.device)
        logits = logits.float()
        told = logits[: len(value)].log_softmax(-1)
        score = float(told.gather(1, value[:, None]).sum())
        best = tuple(int(i) for i in logits.argmax(-1))
        return Told(prompt, score, best, shared_start(best, prompt.value_ids))

    def settled(self, told: Told) -> bool:
        """Whether the value was said and nothing decoded could change that."""
        several = LIST in told.prompt.value
        return told.surplus == 0 and self._ends(told.best[told.right], several)

    def saying(self, told: Told) -> Saying:
        """What has been printed so far where it is not settled; to be gone on with."""
        first = [*told.prompt.value_ids[: told.right], told.best[told.right]]
        # The value's last token never needs to be decoded from: one more shows what follows it.
        budget = max(told.prompt.budget, len(told.prompt.value_ids) + 1)
        return Saying(first, budget, self._end_ids)

    def answer(self, told: Told, saying: Saying | None, seconds: float) -> Answer:
        """The answer: `saying` is what was decoded, None where it is settled."""
        prompt = told.prompt
        if saying is None:
            return Answer(Outcome.HIT, told.log_probability, prompt.value, seconds)
        printed = self._tokens.decode(saying.printed)
        outcome = classify(printed, prompt.value, prompt.distractors, chat=self._chat)
        return Answer(outcome, told.log_probability, printed, seconds)

    def _ends(self, token: int, several: bool) -> bool:
        """Whether the answer is settled when `token` follows the value.

        A base answer is: the value must end where it ends, so anything settles it but a letter
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
class Saying:
    """Tokens printed so far, up to `budget` of them or the first of `end_ids`."""

    printed: list[int]
    budget: int
    end_ids: frozenset[int]

    @property
    def over(self) -> bool:
        """Whether nothing more is to be decoded."""
        return len(self.printed) >= self.budget or self.printed[-1] in self.end_ids

    def steps(self) -> Iterator[int]:
        """The token to decode from, as long as there is more to print; append what follows."""
        while not self.over:
            yield self.printed[-1]
