"""Faults of servers, planted: each is named as what it is, and none counts as MISS or as HIT.

The server has a window of 700 tokens, or of 2,000 where the fault has nothing to do with length,
and is asked at 500 and 1,000. It finds every fact that it has kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import RopewalkError
from ropewalk.listener import Listener
from ropewalk.proof.cells import Outcome, Sharing
from ropewalk.proof.endpoint.subject import EndpointSettings
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.summary import LengthVerdict
from tests.proof.endpoint.fake import (
    Answer,
    Asked,
    Fake,
    keep_ends,
    keep_head,
    keep_tail,
    length_error,
)

GRID = ProofSettings(
    "openai:fake",
    lengths=(500, 1000),
    depths=(0.0, 0.5, 1.0),
    trials=1,
    controls=0,
    sharing=Sharing.NONE,
)
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.proof.endpoint.policy.FIRST_PAUSE", 0.002)


@dataclass
class Ran:
    """A proof, what was noted on the way, and what it came to at each length."""

    proof: Proof
    notes: list[str]

    def at(self, length: int) -> set[Outcome]:
        return {row.answer.outcome for row in self.proof.rows if row.cell.length == length}

    @property
    def sentence(self) -> str:
        return self.proof.summary.effective.sentence


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """run(fake, **changes): a proof of the fake; `api` and other manners go to the endpoint."""

    def made(fake: Fake, api: str = "auto", **changes: Any) -> Ran:
        notes: list[str] = []
        where = EndpointSettings((fake.url,), api=api)
        out = tmp_path / f"run-{changes.get('seed', 0)}"
        settings = replace(GRID, out=out, endpoint=where, **changes)
        return Ran(prove(settings, Listener(note=notes.append)), notes)

    return made


def error(**fields: Any) -> Document:
    return {"error": fields}


TOO_LONG: list[Callable[[Asked], Answer]] = [
    length_error(400, lambda n, m: error(message=f"the longest is {n}, and this one holds {m}")),
    length_error(422, lambda n, m: f"inputs must have fewer than {n} tokens, given {m}"),
    length_error(400, lambda n, _: error(message=f"input length must be in [1, {n}]")),
    length_error(400, lambda n, _: error(message=f"input length must be in [1,{n}]")),
    length_error(500, lambda *_: error(message="no room", type="exceed_context_size_error")),
    length_error(200, lambda n, m: {"error": f"a prompt of {m} is more than {n}"}),
    length_error(200, lambda *_: {"error": "Der Text ist zu lang"}),
    length_error(200, lambda *_: {"error": {"message": "长", "code": 400}, "choices": []}),
    length_error(400, lambda *_: ""),
    length_error(403, lambda *_: {"detail": "Nicht so viel auf einmal"}),
    length_error(404, lambda *_: "<html>what?</html>"),
    length_error(409, lambda n, m: error(message=f"{m} > {n}")),
    length_error(413, lambda *_: {"message": "Payload Too Large"}),
    length_error(500, lambda *_: "Internal Server Error"),
    length_error(400, lambda n, _: error(message=f"prompt + max_tokens must be below {n}")),
    length_error(400, lambda *_: error(message="seed of doubt", param="seed")),
]
"""With numbers, with a code, and with nothing at all to go by."""


@pytest.mark.parametrize(
    ("refusal", "tokenizer"), [*((each, False) for each in TOO_LONG), (TOO_LONG[0], True)]
)
def test_a_length_that_is_refused_in_any_way_overflows_and_the_map_is_whole(
    refusal: Callable[[Asked], Answer], tokenizer: bool, run: Run
) -> None:
    with Fake(too_long=refusal, tokenizer=tokenizer) as fake:
        ran = run(fake, depths=(0.0, 1.0))
    assert ran.at(500) == {Outcome.HIT}
    assert ran.at(1000) == {Outcome.OVERFLOW}
    assert "1,000 tokens did not fit" in ran.sentence
    # Two prompts, each once more where the server broke, and two texts to make sure.
    assert sum(len(str(b)) > 3000 for b in fake.bodies) <= 10
    assert not any("did not take" in note for note in ran.notes)


def test_a_refusal_that_is_not_of_length_is_an_error(run: Run) -> None:
    def filtered(asked: Asked, document: Document) -> Any:
        if "pass key" in "".join(asked.pieces) and len(asked.pieces) > 700:
            return 400, error(message="the content management policy forbids this")
        return document

    with Fake(2000, fault=filtered) as fake:
        ran = run(fake, depths=(0.5,))
    assert ran.at(500) == {Outcome.HIT}
    assert ran.at(1000) == {Outcome.ERROR}
    assert any("forbids this" in row.answer.printed for row in ran.proof.rows)


RATES: list[Callable[[Asked], Answer]] = [
    length_error(
        413,
        lambda n, m: error(
            message=f"request too large: tokens per minute: limit {n}, requested {m}",
            code="rate_limit_exceeded",
        ),
    ),
    length_error(
        429,
        lambda n, m: error(
            message=f"Request too large on tokens per min (TPM): Limit {n}, Requested {m}",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    length_error(400, lambda n, m: {"detail": f"rate limit: {m} of {n} tokens a minute"}),
    length_error(413, lambda *_: error(message="slow down", code="RateLimitReached")),
]


@pytest.mark.parametrize("refusal", RATES)
def test_a_rate_is_no_window_and_fails_no_length(
    refusal: Callable[[Asked], Answer], run: Run
) -> None:
    with Fake(too_long=refusal) as fake:
        ran = run(fake, depths=(0.0, 1.0))
        assert ran.at(500) == {Outcome.HIT}
        assert ran.at(1000) == {Outcome.THROTTLED}
        assert ran.proof.summary.columns[1].verdict is LengthVerdict.UNDECIDED
        assert "more than the server's rate lets through" in ran.sentence
        long = next(row for row in ran.proof.rows if row.cell.length == 1000)
        assert "wait, or ask for shorter lengths" in long.answer.printed
        # It is no answer: the same command asks again.
        fake.too_long, fake.window = None, 2000
        assert run(fake, depths=(0.0, 1.0)).at(1000) == {Outcome.HIT}


@pytest.mark.parametrize(
    "said",
    [
        {"code": 502, "message": "upstream"},
        {"message": "Provider disconnected"},
        "something broke",
        None,
    ],
)
def test_a_reply_that_broke_off_is_asked_again_and_an_error_if_it_always_does(
    said: Any, run: Run
) -> None:
    lasting = False

    def broken(asked: Asked, document: Document) -> Document:
        if asked.most > 1 and (asked.earlier == 0 or lasting):
            document["choices"][0] |= {"finish_reason": "error", "error": said}
        return document

    with Fake(2000, fault=broken) as fake:
        ran = run(fake)
        assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
        lasting = True
        with pytest.raises(RopewalkError, match="3 prompts in a row ended in an error"):
            run(fake, seed=1)


def uncached(asked: Asked, document: Document) -> Document:
    document["usage"]["prompt_tokens"] -= asked.cached
    return document


def uncached_and_told(asked: Asked, document: Document) -> Document:
    document["usage"]["prompt_tokens_details"] = {"cached_tokens": asked.cached}
    return uncached(asked, document)


def uncached_when_long(asked: Asked, document: Document) -> Document:
    """OpenAI's cache begins at 1,024 tokens."""
    return uncached(asked, document) if asked.cached > 180 else document


@pytest.mark.parametrize("tokenizer", [True, False])
@pytest.mark.parametrize(
    ("fault", "salted"),
    [(uncached, True), (uncached_and_told, False), (uncached_when_long, True)],
)
def test_a_count_without_what_was_cached_is_no_cut(
    fault: Callable[..., Document], salted: bool, tokenizer: bool, run: Run
) -> None:
    with Fake(2000, fault=fault, tokenizer=tokenizer) as fake:
        ran = run(fake, sharing=Sharing.PREFIX)
        assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
        said = [note for note in ran.notes if "as with --salt" in note]
        assert len(said) == salted
        # And a server that cuts, too, is still found out.
        fake.window, fake.cut = 700, keep_tail
        ran = run(fake, sharing=Sharing.PREFIX, seed=1)
        assert ran.at(500) == {Outcome.HIT}
        assert ran.at(1000) == {Outcome.TRUNCATED}


@pytest.mark.parametrize("count", [0, None, -1, "many"])
def test_a_count_of_nothing_is_none(count: Any, run: Run) -> None:
    def fault(_: Asked, document: Document) -> Document:
        document["usage"]["prompt_tokens"] = count
        return document

    with Fake(2000, fault=fault) as fake:
        ran = run(fake)
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
    assert "not told by the server" in ran.proof.summary.facts["lengths counted"]


@pytest.mark.parametrize("tokenizer", [True, False])
@pytest.mark.parametrize("count", [lambda _: 7, lambda n: n // 3 if n > 600 else n])
def test_a_wrong_count_is_no_cut_where_all_was_read(
    count: Callable[[int], int], tokenizer: bool, run: Run
) -> None:
    def fault(_: Asked, document: Document) -> Document:
        document["usage"]["prompt_tokens"] = count(document["usage"]["prompt_tokens"])
        return document

    with Fake(2000, fault=fault, tokenizer=tokenizer) as fake:
        ran = run(fake)
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}


@pytest.mark.parametrize("cut", [keep_tail, keep_head, keep_ends])
@pytest.mark.parametrize("chat", [False, True])
def test_a_cut_is_told_by_what_is_found_on_either_side_of_it(
    cut: Callable[..., list[str]], chat: bool, run: Run
) -> None:
    with Fake(cut=cut) as fake:
        ran = run(fake, chat=chat)
    assert ran.at(500) == {Outcome.HIT}
    assert ran.at(1000) == {Outcome.TRUNCATED}


@pytest.mark.parametrize("kind", ["text", "output_text", "split", "plain", "value"])
def test_content_in_blocks_is_joined_and_its_thinking_is_none_of_it(kind: str, run: Run) -> None:
    def fault(_: Asked, document: Document) -> Document:
        said = document["choices"][0]["message"]["content"]
        blocks: list[Any] = [{"type": "thinking", "thinking": [{"type": "text", "text": "11111?"}]}]
        forms: dict[str, list[Any]] = {
            "text": [{"type": "text", "text": said}],
            "output_text": [{"type": "output_text", "text": said, "annotations": []}],
            "split": [{"type": "text", "text": said[:9]}, {"type": "text", "text": said[9:]}],
            "plain": [said],
            "value": [{"type": "text", "text": {"value": said}}],
        }
        blocks += forms[kind]
        document["choices"][0]["message"]["content"] = blocks
        return document

    with Fake(2000, fault=fault) as fake:
        ran = run(fake, chat=True)
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
    assert not any("11111" in row.answer.printed for row in ran.proof.rows)


def refuses(status: int, *names: str, told: str = "param") -> Callable[..., Any]:
    """A server that does not take some parameters, and names the first, all, or none."""

    def fault(asked: Asked, document: Document) -> Any:
        bad = [name for name in names if name in asked.body]
        if not bad:
            return document
        param = bad[0] if told == "param" else None
        words = {"param": "Unsupported value", "words": f"not taken: {' and '.join(bad)}"}
        return status, error(message=words.get(told, "bad request"), param=param)

    return fault


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("told", ["param", "words", "none"])
@pytest.mark.parametrize(
    "names",
    [
        ("temperature",),
        ("seed", "temperature"),
        ("max_tokens", "seed"),
        ("max_tokens", "logprobs"),
        ("max_tokens", "max_completion_tokens", "temperature"),
    ],
)
def test_parameters_that_are_refused_are_dropped_and_that_is_said(
    names: tuple[str, ...], told: str, chat: bool, run: Run
) -> None:
    with Fake(2000, fault=refuses(400, *names, told=told)) as fake:
        ran = run(fake, chat=chat, depths=(0.5,))
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
    asked_by = ran.proof.summary.facts["asked by"]
    for name in {"seed", "temperature"} & set(names):
        assert name in asked_by.partition("without")[2]


@pytest.mark.parametrize("limit", [16, 20])
def test_a_limit_of_the_answer_is_lowered_to_what_is_allowed(limit: int, run: Run) -> None:
    def fault(asked: Asked, document: Document) -> Any:
        if asked.most > limit:
            said = f"max_tokens must be at most {limit}, you asked for {asked.most}"
            return 400, error(message=said, param="max_tokens")
        return document

    with Fake(2000, fault=fault) as fake:
        ran = run(fake, chat=True)
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
    assert {body["max_tokens"] for body in fake.bodies} == {1, 24, limit}
    assert any(f"answers of {limit} tokens at most" in note for note in ran.notes)


@pytest.mark.parametrize("chat", [False, True])
def test_a_server_that_only_streams_is_read_in_pieces(chat: bool, run: Run) -> None:
    import json

    def fault(asked: Asked, document: Document) -> Any:
        if not asked.body.get("stream"):
            return 400, error(message="stream must be true", param="stream")
        choice = document["choices"][0]
        text = choice["message"]["content"] if chat else choice["text"]
        events: list[Any] = []
        for piece in (text[:5], text[5:]):
            delta: Document = {"delta": {"content": piece}} if chat else {"text": piece}
            events.append({"choices": [{"index": 0, "finish_reason": None} | delta]})
        last: Document = {"delta": {}} if chat else {"text": ""}
        events.append({"choices": [{"index": 0, "finish_reason": choice["finish_reason"]} | last]})
        events.append({"choices": [], "usage": document["usage"]})
        return 200, "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"

    with Fake(2000, fault=fault) as fake:
        ran = run(fake, chat=chat)
    assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
    assert "answers in pieces" in ran.proof.summary.facts["asked by"]


@pytest.mark.parametrize("tokenizer", [True, False])
@pytest.mark.parametrize("added", [9, 15, 40])
def test_completions_in_a_chat_template_are_asked_through_chat(
    added: int, tokenizer: bool, run: Run
) -> None:
    with Fake(2000, added=added, tokenizer=tokenizer) as fake:
        ran = run(fake)
        assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
        assert f"wraps completions in a chat template ({added} tokens more" in ran.notes[0]
        assert ran.proof.summary.facts["asked by"].startswith("chat/completions")


THINKING: list[tuple[str, str]] = [
    ("[THINK]", "[/THINK]"),
    ("<think>", "</think>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
    ("<muse>", "</muse>"),
]


@pytest.mark.parametrize(("opening", "closing"), THINKING)
def test_thinking_is_no_answer_finished_or_cut_off(opening: str, closing: str, run: Run) -> None:
    finished = True

    def fault(asked: Asked, document: Document) -> Document:
        if asked.most > 1:
            end = f"11111? {closing}{asked.said}" if finished else ""
            said = f"{opening}The report has it: {asked.said} {end}"
            document["choices"][0]["message"]["content"] = said
            document["choices"][0]["finish_reason"] = "stop" if finished else "length"
        return document

    with Fake(2000, fault=fault) as fake:
        ran = run(fake, chat=True, distractors=3)
        assert ran.at(500) | ran.at(1000) == {Outcome.HIT}
        finished = False
        ran = run(fake, chat=True, seed=1)
    assert ran.at(500) | ran.at(1000) == {Outcome.THINKING}
    assert "give more --answer-tokens" in ran.sentence


@pytest.mark.parametrize(
    "says", [{"context_length": 2000}, {"context_window": 2000}, {"limits": {"max_context": 2000}}]
)
def test_what_a_server_says_of_its_window_is_told_as_that(says: dict[str, Any], run: Run) -> None:
    with Fake(2000, says=says) as fake:
        ran = run(fake, depths=(0.5,))
    assert ran.proof.summary.claimed_length == 2000
    assert ran.proof.summary.claimed_source.startswith("the server's ")


def test_a_servers_words_keep_their_letters(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    refusal = length_error(400, lambda n, m: error(message=f"the maximum is {n}, exceeded by {m}"))
    with Fake(too_long=refusal) as fake:
        ran = run(fake, depths=(0.5,))
    long = next(row for row in ran.proof.rows if row.cell.length == 1000)
    assert "the maximum is 700, exceeded by" in long.answer.printed
