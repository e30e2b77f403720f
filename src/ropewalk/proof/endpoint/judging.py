"""From a reply to the answer that it is.

A reply to a prompt that the server cut is TRUNCATED whatever it says, one that did not come to its
answer is THINKING whatever it quotes. A refusal is one that declines to act; "I cannot find it in
the text" is an answer, and a wrong one.
"""

from __future__ import annotations

import json
import re

from ropewalk.proof.cells import Answer, Outcome, Prompt
from ropewalk.proof.classify import classify
from ropewalk.proof.endpoint.replies import Reply
from ropewalk.proof.thinking import spoken

OPENINGS = (
    "i can't",
    "i cannot",
    "i can not",
    "i am unable to",
    "i'm unable to",
    "i am not able to",
    "i'm not able to",
    "i won't",
    "i will not",
    "i must decline",
    "as an ai",
)
"""How a refusal begins, after an apology if there is one."""

ACTS = """answer assist comply continue disclose discuss do engage fulfil fulfill give help provide
reveal say share tell""".split()
"""What is declined, directly behind the opening; what comes after tells nothing more."""

_APOLOGY = re.compile(
    r"(i'?m (very |so |really )?sorry|i am (very )?sorry|sorry|i apologi[sz]e|unfortunately)"
    r"[,.!;:]*\s+((but|however),?\s+)?"
)


def is_refusal(text: str) -> bool:
    """Whether an answer declines: OPENINGS, and behind most of them one of ACTS."""
    plain = " ".join(text.replace("’", "'").lower().split())
    plain = _APOLOGY.sub("", plain, count=1) if _APOLOGY.match(plain) else plain
    for opening in OPENINGS:
        if plain.startswith(opening):
            rest = plain[len(opening) :].split()
            return opening in ("as an ai", "i must decline") or (
                bool(rest) and rest[0].strip(",.;:!") in ACTS
            )
    return False


def judge(
    reply: Reply, prompt: Prompt, expected: int, *, chat: bool, most: int, cut: bool = False
) -> Answer:
    """The answer that a reply is.

    `most` is the number of tokens that it was allowed (0: as many as it likes), `expected` how many
    the server should have read; `cut`: the server cut the prompt.
    A reply that the end of the window cut short, and that is no HIT so far, is an
    OVERFLOW: its answer did not fit.
    """
    ended = reply.finish == "length"
    # What a server took out of the text was opened in the prompt and closed again.
    before = "" if reply.thought or not chat else prompt.text
    said = spoken(reply.text, cut=ended, before=before, chat=chat)
    outcome = classify(
        reply.text, prompt.value, prompt.distractors, chat=chat, cut=ended, before=before
    )
    if cut:
        outcome = Outcome.TRUNCATED
    elif reply.refusal is not None or reply.finish == "content_filter":
        outcome = Outcome.REFUSED
    elif outcome in (Outcome.MISS, Outcome.WRONG) and _window_ended(reply, most):
        outcome = Outcome.OVERFLOW
    elif not said.answer and outcome is not Outcome.THINKING:
        outcome = Outcome.THINKING if reply.thought and ended else Outcome.EMPTY
    elif outcome is Outcome.MISS and is_refusal(said.answer):
        outcome = Outcome.REFUSED
    score = _score(reply, prompt.value, chat=chat) if outcome is Outcome.HIT else None
    printed = reply.text or reply.refusal or reply.thought
    return Answer(outcome, score, printed, reply.seconds, _details(reply, expected))


def _window_ended(reply: Reply, most: int) -> bool:
    """Whether the answer was cut though it had not used up what it was allowed."""
    # Nought of an answer is no count.
    made = reply.completion_tokens or most
    return reply.finish == "length" and made < most


def _score(reply: Reply, value: str, *, chat: bool) -> float | None:
    """The log-probability of the tokens in which the value was said, None where not told.

    In chat, of those that hold some of it; a base answer begins with it, and with white space
    that belongs to it.
    """
    start = "".join(token.text for token in reply.tokens).find(value)
    if start < 0:
        return None
    first = start if chat else 0
    total, at = 0.0, 0
    for token in reply.tokens:
        if at < start + len(value) and at + len(token.text) > first:
            total += token.log_probability
        at += len(token.text)
    return total


def _details(reply: Reply, expected: int) -> str:
    """What is kept beside the answer; numbers to four places."""
    kept: dict[str, object] = {
        "prompt_tokens": reply.prompt_tokens,
        "expected_prompt_tokens": expected,
        "cached_tokens": reply.cached_tokens,
        "completion_tokens": reply.completion_tokens,
        "finish_reason": reply.finish or None,
    }
    if reply.tokens:
        kept["tokens"] = [
            [each.text, _short(each.log_probability), {t: _short(p) for t, p in each.top}]
            for each in reply.tokens
        ]
    return json.dumps({name: value for name, value in kept.items() if value is not None})


def _short(number: float) -> float | str:
    return round(number, 4) if number > float("-inf") else "-inf"
