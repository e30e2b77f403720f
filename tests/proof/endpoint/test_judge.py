from dataclasses import replace

import pytest

from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt
from ropewalk.proof.endpoint.judging import is_refusal, judge
from ropewalk.proof.endpoint.replies import Reply, ScoredToken

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


def judged(reply: Reply, *, chat: bool = True, before: str = "text") -> Answer:
    return judge(reply, replace(PROMPT, text=before), 90, chat=chat, most=24)


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply("It is 98909."), Outcome.HIT),
        (Reply("It is 12121."), Outcome.WRONG),
        (Reply("It is 98908."), Outcome.MISS),
        (Reply(""), Outcome.EMPTY),
        (Reply(" \n", finish="length", completion_tokens=24), Outcome.EMPTY),
        (Reply("<think>It may be 98909", finish="length"), Outcome.THINKING),
        (Reply("", thought="It may be 98909", finish="length"), Outcome.THINKING),
        (Reply("", thought="It is 98909.", finish="stop"), Outcome.EMPTY),
        (Reply("98909", thought="Or is it 12121?"), Outcome.HIT),
        (Reply("<think>12121?</think> 98909"), Outcome.HIT),
        (Reply("I'm sorry, but I can't help with that."), Outcome.REFUSED),
        (Reply("", refusal="No."), Outcome.REFUSED),
        (Reply("", finish="content_filter"), Outcome.REFUSED),
        (Reply("I cannot find a pass key in the report."), Outcome.MISS),
        (Reply("98", finish="length", completion_tokens=2), Outcome.OVERFLOW),
        (Reply("98909", finish="length", completion_tokens=5), Outcome.HIT),
    ],
)
def test_every_reply_has_its_class(reply: Reply, outcome: Outcome) -> None:
    assert judged(reply).outcome is outcome


def test_what_a_cut_prompt_got_for_an_answer_is_none() -> None:
    for text in ("98909", "12121", "", "<think>"):
        found = judge(Reply(text), PROMPT, 90, chat=True, most=24, cut=True)
        assert found.outcome is Outcome.TRUNCATED


def test_thinking_that_the_template_opened_is_none_of_the_answer() -> None:
    opened = "Which?<|im_end|>\n<|im_start|>assistant\n<think>\n"
    cut = Reply("The report says 98909", finish="length")
    assert judged(cut, before=opened).outcome is Outcome.THINKING
    assert judged(Reply("12121?</think>98909"), before=opened).outcome is Outcome.HIT
    # A server that hands thinking over apart has closed it.
    assert judged(Reply("98909", thought="So."), before=opened).outcome is Outcome.HIT


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
