"""What a refusal amounts to, by its shape, and whatever its words are."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from ropewalk.proof.endpoint.client import masked
from ropewalk.proof.endpoint.probe import stated_window
from ropewalk.proof.endpoint.refusals import (
    Consequence,
    Sent,
    is_rate,
    judge_refusal,
    named_parameters,
    read_refusal,
)

SENT = Sent(997, 24, 8)
BODY = {"model": "m", "prompt": "p", "temperature": 0, "seed": 0, "max_tokens": 24, "logprobs": 5}

SHAPES: list[Any] = [
    lambda text: {"error": {"message": text, "type": "invalid_request_error", "code": None}},
    lambda text: {"error": {"message": text, "code": 400, "status": "INVALID_ARGUMENT"}},
    lambda text: {"error": text},
    lambda text: {"error": text, "error_type": "validation"},
    lambda text: {"object": "error", "message": text, "type": "BadRequestError", "param": None},
    lambda text: {"detail": text},
    lambda text: {"detail": [{"loc": ["body", "prompt"], "msg": text, "type": "value_error"}]},
    lambda text: {"errors": [{"title": text}]},
    lambda text: {"error": {"message": "Provider returned error", "metadata": {"raw": text}}},
    lambda text: {"error": {"metadata": {"raw": json.dumps({"error": {"message": text}})}}},
    lambda text: text,
]
LONG = [
    "maximum prompt length is 700 but the request holds 997",
    "inputs must have fewer than 700 tokens, given 997",
    "inputs tokens + max_new_tokens must be <= 700. Given: 997 inputs and 24 new ones",
    "This model takes 700 tokens. You asked for 1,021 (997 in the messages, 24 in the completion).",
    "Die Eingabe hat 997 Token, erlaubt sind 700.",
    "输入长度 997 超过了 700",
    "997 > 700",
    "request (997 tokens) is beyond what is there (700 tokens)",
    "The decoder prompt (length 998) is longer than 700.",
]


def test_numbers_tell_a_length_in_any_words_shape_and_status() -> None:
    for said, shape, status in itertools.product(LONG, SHAPES, (400, 403, 404, 409, 413, 422, 500)):
        found = read_refusal(status, json.dumps(shape(said)))
        assert judge_refusal(found, SENT, BODY) is Consequence.TOO_LONG, (said, shape(said), status)


@pytest.mark.parametrize(
    "code",
    [
        "context_length_exceeded",
        "exceed_context_size_error",
        "string_above_max_length",
        "prompt_too_long",
        "InputTooLong",
        "request_too_large",
        "tokens_limit_reached",
        "context_window_overflow",
    ],
)
@pytest.mark.parametrize("status", [200, 400, 413, 422, 500])
def test_a_code_tells_a_length_without_numbers(code: str, status: int) -> None:
    for name in ("code", "type"):
        body = json.dumps({"error": {"message": "No.", name: code}})
        assert judge_refusal(read_refusal(status, body), SENT, BODY) is Consequence.TOO_LONG


@pytest.mark.parametrize(
    "said",
    [
        "Request too large on tokens per minute (TPM): Limit 700, Requested 997",
        "Rate limit reached: 700 tokens/min, this one has 997",
        "quota of 700 tokens a minute, 997 wanted",
        "You may send 700 tokens every minute and this request holds 1,021.",
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422, 429])
def test_a_rate_is_never_a_length_and_one_that_lets_nothing_through_is_told(
    said: str, status: int
) -> None:
    for shape in SHAPES:
        found = read_refusal(status, json.dumps(shape(said)))
        assert is_rate(found)
        assert judge_refusal(found, SENT, BODY) is Consequence.TOO_MUCH
        # One that is only busy now is waited for.
        assert judge_refusal(found, Sent(300, 24, 8), BODY) is Consequence.AGAIN


def test_a_code_or_a_wait_tells_a_rate_too() -> None:
    code = {"error": {"message": "too large: 997 of 700", "code": "rate_limit_exceeded"}}
    assert judge_refusal(read_refusal(413, json.dumps(code)), SENT) is Consequence.TOO_MUCH
    assert judge_refusal(read_refusal(413, "997 of 700", waits=True), SENT) is Consequence.TOO_MUCH
    assert judge_refusal(read_refusal(429, "context_length"), SENT) is Consequence.AGAIN
    length = {"error": {"message": "no", "code": "context_length_exceeded"}}
    assert judge_refusal(read_refusal(429, json.dumps(length)), SENT) is Consequence.TOO_LONG


@pytest.mark.parametrize(
    ("status", "said", "verdict"),
    [
        (400, "this is no valid request", Consequence.REJECTED),
        (400, "the request 8837 of 5 parts is wrong", Consequence.REJECTED),
        (400, "input length must be in [1, 700]", Consequence.REJECTED),
        (422, "unknown field", Consequence.REJECTED),
        (418, "", Consequence.REJECTED),
        (500, "", Consequence.REJECTED),
        (200, "something", Consequence.REJECTED),
        (401, "no key", Consequence.STOP),
        (403, "", Consequence.STOP),
        (404, "model not found", Consequence.STOP),
        (429, "You exceeded your current quota insufficient_quota", Consequence.STOP),
        (501, "", Consequence.STOP),
        (408, "", Consequence.AGAIN),
        (429, "slow down", Consequence.AGAIN),
        (502, "", Consequence.AGAIN),
        (503, "loading the model", Consequence.AGAIN),
        (529, "overloaded", Consequence.AGAIN),
    ],
)
def test_every_other_status_has_its_consequence(
    status: int, said: str, verdict: Consequence
) -> None:
    assert judge_refusal(read_refusal(status, said), SENT, BODY) is verdict


@pytest.mark.parametrize(
    ("error", "names"),
    [
        ({"message": "Unsupported value", "param": "temperature"}, ("temperature",)),
        ({"message": "max_tokens and seed are not taken"}, ("max_tokens", "seed")),
        ({"message": "max_tokens must be at most 16384", "param": "max_tokens"}, ("max_tokens",)),
        ({"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs"}]}, ("seed",)),
        ({"message": "only stream=true is served"}, ("stream",)),
        ({"message": "use `max_completion_tokens`, not `max_tokens`"}, ("max_tokens",)),
        ({"message": "the temperature of this text", "param": "prompt"}, ()),
        ({"message": "no"}, ()),
    ],
)
def test_parameters_are_found_by_name(error: dict[str, Any], names: tuple[str, ...]) -> None:
    found = read_refusal(400, json.dumps({"error": error}))
    assert named_parameters(found, BODY) == names
    verdict = Consequence.PARAMETER if names else Consequence.REJECTED
    assert judge_refusal(found, SENT, BODY) is verdict


def test_numbers_are_read_as_they_are_written() -> None:
    said = "1,048,576 or 1_000 or 2.048 or 128k or 0.7 or gpt-4 or 12,34 in [1, 700] 997."
    assert read_refusal(400, said).numbers == (
        1048576, 1000, 2048, 128000, 131072, 4, 1, 700, 997
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "key", "left"),
    [
        ("the maximum is exceeded", "x", "the maximum is exceeded"),
        ("a maximum context length", "length", "a maximum context length"),
        ("Incorrect API key provided: x.", "x", "Incorrect API key provided: [key]."),
        ("no such key 'none'", "none", "no such key '[key]'"),
        ("none of it", "none", "none of it"),
        (
            "token abc123 is unknown, abc1234 is not",
            "abc123",
            "token [key] is unknown, abc1234 is not",
        ),
        ("Bearer:sk-0123456789abcdef!", "sk-0123456789abcdef", "Bearer:[key]!"),
        ("xsk-0123456789abcdefx", "sk-0123456789abcdef", "x[key]x"),
        ("a message", "", "a message"),
    ],
)
def test_a_key_is_masked_and_every_word_keeps_its_letters(text: str, key: str, left: str) -> None:
    assert masked(text, key) == left


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"context_length": 700}, (700, "context_length")),
        ({"max_model_len": 8192}, (8192, "max_model_len")),
        ({"context_window": 131072, "max_completion_tokens": 700}, (131072, "context_window")),
        (
            {"max_context_length": 131072, "loaded_context_length": 4096},
            (4096, "loaded_context_length"),
        ),
        ({"inputTokenLimit": 1048576, "outputTokenLimit": 8192}, (1048576, "inputTokenLimit")),
        (
            {"context_length": 131072, "top_provider": {"context_length": 65536}},
            (65536, "context_length"),
        ),
        ({"meta": {"n_ctx_train": 8192, "n_vocab": 49152, "size": 98000000}}, (None, "")),
        ({"created": 1700000000, "id": "x", "context_length": None}, (None, "")),
        ({"max_output_tokens": 4096, "n_params": 135000000}, (None, "")),
    ],
)
def test_a_window_is_found_under_any_of_its_names(
    entry: dict[str, Any], found: tuple[int | None, str]
) -> None:
    assert stated_window(entry) == found
