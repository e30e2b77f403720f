import json
from typing import Any

import pytest

from ropewalk.proof.endpoint.replies import BadReplyError, read_reply

LLAMA_CPP: dict[str, Any] = {
    "choices": [
        {
            "text": " 1",
            "index": 0,
            "logprobs": {
                "content": [
                    {"token": " ", "logprob": -0.45, "top_logprobs": []},
                    {
                        "token": "1",
                        "logprob": -0.33,
                        "top_logprobs": [
                            {"token": "1", "logprob": -0.33},
                            {"token": "2", "logprob": -1.98},
                        ],
                    },
                ]
            },
            "finish_reason": "length",
        }
    ],
    "usage": {
        "completion_tokens": 2,
        "prompt_tokens": 19,
        "prompt_tokens_details": {"cached_tokens": 7},
    },
}
VLLM: dict[str, Any] = {
    "choices": [
        {
            "text": " 1",
            "logprobs": {
                "tokens": [" ", "1"],
                "token_logprobs": [-0.45, -0.33],
                "top_logprobs": [{" ": -0.45}, {"1": -0.33, "2": -1.98}],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 19, "completion_tokens": 2, "prompt_tokens_details": None},
}


def test_both_forms_of_log_probabilities_say_the_same() -> None:
    here, there = (read_reply(json.dumps(body), 1.5) for body in (LLAMA_CPP, VLLM))
    assert (here.text, here.finish, here.seconds) == (" 1", "length", 1.5)
    assert (here.prompt_tokens, here.cached_tokens, here.completion_tokens) == (19, 7, 2)
    assert there.cached_tokens is None
    for reply in (here, there):
        assert [token.log_probability for token in reply.tokens] == [-0.45, -0.33]
        assert reply.tokens[1].top == (("1", -0.33), ("2", -1.98))


def test_chat_has_its_text_in_a_message_and_may_have_none() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    reply = read_reply(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}))
    assert (reply.text, reply.refusal) == ("", "I can't help with that.")
    assert (reply.prompt_tokens, reply.tokens) == (None, ())


@pytest.mark.parametrize(
    "body",
    [
        "<html>Bad gateway</html>",
        "",
        "[]",
        "null",
        '{"choices": []}',
        '{"choices": "none"}',
        '{"choices": [{}]}',
        '{"choices": [{"text": 5}]}',
        json.dumps(LLAMA_CPP)[:-20],
    ],
)
def test_garbage_is_no_reply(body: str) -> None:
    with pytest.raises(BadReplyError):
        read_reply(body)


@pytest.mark.parametrize("count", [-1, True, "19", 1.5, None])
def test_a_count_that_is_none_is_not_believed(count: object) -> None:
    body = {"choices": [{"text": "1"}], "usage": {"prompt_tokens": count}}
    assert read_reply(json.dumps(body)).prompt_tokens is None
