from random import Random

import pytest

from ropewalk.proof.endpoint.policy import Retry, backoff, judge_status, retry_after

TOO_LONG = [
    "request (5001 tokens) exceeds the available context size (4096 tokens), try increasing it "
    "exceed_context_size_error",
    "This model's maximum context length is 4096 tokens. However, you requested 5010 tokens (5000 "
    "in the messages, 10 in the completion). context_length_exceeded",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Requested token count exceeds the model's maximum context length of 4096 tokens.",
]
"""llama.cpp's, OpenAI's, vLLM's, TGI's, Anthropic's and SGLang's words."""


@pytest.mark.parametrize("said", TOO_LONG)
def test_a_prompt_that_does_not_fit_is_told_from_a_wrong_request(said: str) -> None:
    assert judge_status(400, said) is Retry.TOO_LONG
    assert judge_status(500, said) is Retry.AGAIN


@pytest.mark.parametrize(
    ("status", "said", "verdict"),
    [
        (400, "temperature must be a number", Retry.REJECTED),
        (422, "unknown field", Retry.REJECTED),
        (401, "no key", Retry.STOP),
        (403, "", Retry.STOP),
        (404, "model not found", Retry.STOP),
        (408, "", Retry.AGAIN),
        (429, "slow down", Retry.AGAIN),
        (429, "You exceeded your current quota insufficient_quota", Retry.STOP),
        (500, "", Retry.AGAIN),
        (501, "", Retry.STOP),
        (503, "loading the model", Retry.AGAIN),
    ],
)
def test_every_status_has_its_consequence(status: int, said: str, verdict: Retry) -> None:
    assert judge_status(status, said) is verdict


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}, 60),
        ({"retry-after": "Fri, 31 Dec 1999 00:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_both_forms_of_its_standard(
    headers: dict[str, str], seconds: float | None
) -> None:
    """The date is the example of RFC 9110, section 10.2.3."""
    assert retry_after(headers, now=946684799.0 - 60) == seconds


def test_pauses_grow_and_are_drawn_between_nothing_and_their_end() -> None:
    random = Random(0)
    for tries, end in ((1, 1.0), (3, 4.0), (20, 30.0)):
        drawn = [backoff(tries, random) for _ in range(400)]
        assert 0 <= min(drawn) < 0.1 * end
        assert 0.9 * end < max(drawn) <= end
