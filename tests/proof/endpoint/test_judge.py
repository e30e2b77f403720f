from dataclasses import replace

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt
from ropewalk.proof.endpoint.probe import Counting
from ropewalk.proof.endpoint.replies import Reply, ScoredToken
from ropewalk.proof.endpoint.subject import is_refusal, judge

PROMPT = Prompt(
    cell=Cell(100, 0.5, 0),
    token_ids=tuple(range(90)),
    value_ids=(1, 2, 3),
    needle_start=40,
    depth=0.5,
    key="Torn",
    value="98909",
    distractors=("12121",),
    text="text",
    budget=24,
)


def judged(reply: Reply, *, chat: bool = True) -> Answer:
    whole = replace(reply, prompt_tokens=reply.prompt_tokens or 90)
    return judge(whole, PROMPT, Counting(), chat=chat, most=24, own=90)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply("It is 98909."), Outcome.HIT),
        (Reply("It is 12121."), Outcome.WRONG),
        (Reply("It is 98908."), Outcome.MISS),
        (Reply(""), Outcome.EMPTY),
        (Reply(" \n", finish="length", completion_tokens=24), Outcome.EMPTY),
        (Reply("<think>It may be 98909", finish="length"), Outcome.EMPTY),
        (Reply("<think>12121?</think> 98909"), Outcome.HIT),
        (Reply("I'm sorry, but I can't help with that."), Outcome.REFUSED),
        (Reply("", refusal="No."), Outcome.REFUSED),
        (Reply("", finish="content_filter"), Outcome.REFUSED),
        (Reply("I cannot find a pass key in the report."), Outcome.MISS),
        (Reply("98909", prompt_tokens=50), Outcome.TRUNCATED),
        (Reply("", prompt_tokens=50, cached_tokens=48), Outcome.TRUNCATED),
        (Reply("98", finish="length", completion_tokens=2), Outcome.OVERFLOW),
        (Reply("98909", finish="length", completion_tokens=5), Outcome.HIT),
    ],
)
def test_every_reply_has_its_class(reply: Reply, outcome: Outcome) -> None:
    assert judged(reply).outcome is outcome


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I can't assist with that request.", True),
        ("Sorry, but I cannot provide pass keys.", True),
        ("I’m unable to share that.", True),
        ("I apologize, but I won't disclose it.", True),
        ("As an AI, I have no access to keys.", True),
        ("Unfortunately, I am not able to answer.", True),
        ("I cannot see it anywhere.", False),
        ("I'm sorry, the report does not mention it.", False),
        ("Sorry! 98908", False),
        ("The report says: I can't help it.", False),
        ("I can't", False),
    ],
)
def test_a_refusal_declines_to_act_and_not_to_find(text: str, refused: bool) -> None:
    assert is_refusal(text) is refused


def test_the_score_is_that_of_the_values_tokens() -> None:
    said = (("It is ", -1.0), ("98", -0.25), ("909", -0.5), (".", -2.0))
    tokens = tuple(ScoredToken(text, score, ((text, score),)) for text, score in said)
    chat = judged(Reply("It is 98909.", tokens=tokens))
    assert chat.log_probability == -0.75
    base = judged(Reply(" 98909.", tokens=(ScoredToken(" ", -0.125), *tokens[1:])), chat=False)
    assert base.log_probability == -0.875
    assert judged(Reply("98909")).log_probability is None
    assert '"tokens": [["It is ", -1.0, {"It is ": -1.0}]' in chat.details
