"""Whole proofs against a real llama.cpp server, undisturbed and disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.errors import EndpointError
from ropewalk.listener import Listener
from ropewalk.proof.cells import Control, Outcome, Row, Sharing
from ropewalk.proof.endpoint.replies import cached_share
from ropewalk.proof.endpoint.subject import EndpointSettings
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.settings import ProofSettings

pytestmark = pytest.mark.model

MakeProxy = Callable[..., Any]
GRID = ProofSettings(
    "openai:smol",
    lengths=(150, 220),
    depths=(0.0, 1.0),
    trials=2,
    controls=0,
    sharing=Sharing.NONE,
)


def at(settings: ProofSettings, *urls: str, **manners: Any) -> ProofSettings:
    return replace(settings, endpoint=EndpointSettings(urls, **manners))


@pytest.fixture(scope="module")
def undisturbed(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Proof:
    return prove(at(replace(GRID, out=tmp_path_factory.mktemp("runs") / "run"), llama))


def table(proof: Proof) -> list[tuple[object, ...]]:
    """All that a row says but how long it took and what a cache held."""
    return [
        (row.cell, row.actual_length, row.key, row.value, row.answer.outcome, row.answer.printed)
        for row in proof.rows
    ]


def test_a_served_model_finds_what_it_finds_here_and_says_how_it_was_asked(
    undisturbed: Proof,
) -> None:
    grid = [row for row in undisturbed.rows if row.cell.control is Control.NONE]
    assert [row.actual_length for row in grid] == [row.cell.length for row in grid]
    assert sum(row.answer.outcome is Outcome.HIT for row in grid) >= 7
    hit = next(row for row in grid if row.answer.outcome is Outcome.HIT)
    assert hit.answer.log_probability is not None
    assert -5 < hit.answer.log_probability < 0
    details = json.loads(hit.answer.details)
    assert details["prompt_tokens"] == details["expected_prompt_tokens"]
    assert all(len(top) == 5 for _, _, top in details["tokens"])
    facts = undisturbed.summary.facts
    assert facts["asked by"] == "completions, prompts as token ids"
    assert "exact (+0 a prompt), by the server's /tokenize" in facts["lengths counted"]
    assert undisturbed.summary.claimed_length == 512
    assert undisturbed.summary.trained_length == 8192
    assert "were in it" in facts["server's cache"]


def test_the_score_of_a_served_value_is_near_that_of_the_model_run_here(
    undisturbed: Proof, smollm2: Any
) -> None:
    """The two differ by what four-bit weights are rounded to on the way, and by nothing else."""
    import torch

    row = next(
        row
        for row in undisturbed.rows
        if row.answer.outcome is Outcome.HIT and row.cell.control is Control.NONE
    )
    from ropewalk.proof.store import Store

    with Store.read(undisturbed.folder) as store:
        text = store.prompt_text(row.prompt_hash)
    ids = smollm2.tokenizer(text)["input_ids"]
    whole = smollm2.tokenizer(f"{text} {row.value}")["input_ids"]
    with torch.no_grad():
        logits = smollm2.model(torch.tensor([whole])).logits[0].log_softmax(-1)
    ours = sum(float(logits[i - 1, whole[i]]) for i in range(len(ids), len(whole)))
    assert row.answer.log_probability == pytest.approx(ours, abs=0.35)


def test_chat_goes_as_messages_through_the_servers_own_template(llama: str, tmp_path: Path) -> None:
    settings = replace(GRID, lengths=(200,), trials=1, controls=0, out=tmp_path / "run", chat=True)
    proof = prove(at(settings, llama))
    assert [row.actual_length for row in proof.rows] == [200, 200]
    assert all(json.loads(row.answer.details)["prompt_tokens"] == 200 - 24 for row in proof.rows)
    assert {row.answer.outcome for row in proof.rows} <= {Outcome.HIT, Outcome.MISS}
    assert proof.summary.facts["chat"] == "messages, the server's chat template"


def test_a_prompt_beyond_the_window_overflows_at_once_and_is_no_miss(
    proxy: MakeProxy, tmp_path: Path
) -> None:
    through = proxy()
    settings = replace(GRID, lengths=(150, 700), trials=1, controls=0, out=tmp_path / "run")
    proof = prove(at(settings, through.url))
    long = [row for row in proof.rows if row.cell.length == 700]
    assert {row.answer.outcome for row in long} == {Outcome.OVERFLOW}
    assert "exceeds the available context size (512 tokens)" in long[0].answer.printed
    assert sum(len(body["prompt"]) > 600 for body in through.bodies) == 2
    assert "700 tokens did not fit" in proof.summary.effective.sentence


FAULTS = [
    *("drop", "ok", "500 garbage", "ok", "garbage"),
    *("half", "drop 500 garbage", "short", "delay", "429", "503 502 half short", "ok", "408"),
    *("garbage garbage", "500 delay", "drop drop"),
]
"""Of the five probes, and of the prompts in the order in which they come."""


def test_a_line_that_breaks_in_every_way_changes_nothing_in_the_table(
    proxy: MakeProxy,
    undisturbed: Proof,
    tmp_path: Path,
    fast_retries: None,  # noqa: ARG001 - for what it does
) -> None:
    through = proxy(*FAULTS)
    proof = prove(at(replace(GRID, out=tmp_path / "run"), through.url, concurrency=2))
    # Five probes and the eight prompts of the grid met all but three.
    assert len(through.faults) == 3
    assert not any(through.ahead.values())
    assert table(proof) == table(undisturbed)


@pytest.mark.parametrize("kept", ["head", "tail", "ends"])
def test_a_server_that_cuts_prompts_is_caught_and_nothing_of_it_is_a_miss(
    kept: str, proxy: MakeProxy, tmp_path: Path
) -> None:
    """As Ollama cuts at its window, with status 200: the count tells, and the answers show it."""

    def cut(body: dict[str, Any]) -> dict[str, Any]:
        ids = body["prompt"]
        if isinstance(ids, list) and len(ids) > 180:
            parts = {"head": ids[:180], "tail": ids[-180:], "ends": ids[:90] + ids[-90:]}
            return body | {"prompt": parts[kept]}
        return body

    settings = replace(GRID, lengths=(150, 400), trials=1, controls=0, out=tmp_path / "run")
    proof = prove(at(settings, proxy(change=cut).url))
    by_length = {
        n: {row.answer.outcome for row in proof.rows if row.cell.length == n} for n in (150, 400)
    }
    assert by_length[400] == {Outcome.TRUNCATED}
    assert by_length[150] <= {Outcome.HIT, Outcome.MISS}
    assert "At 400 tokens 2 of 2 prompts were cut by the server" in proof.summary.effective.sentence
    assert proof.summary.facts["cut prompts"] == "2, of which the server read 180 tokens at most"


def test_two_servers_share_the_trials_and_one_that_dies_leaves_its_work_to_the_other(
    proxy: MakeProxy,
    undisturbed: Proof,
    tmp_path: Path,
    fast_retries: None,  # noqa: ARG001 - for what it does
) -> None:
    steady, dying = proxy(), proxy(*("delay",) * 20)
    said: list[str] = []

    def note(event: Any) -> None:
        if event.row is not None and len(dying.bodies) > 1:
            dying.down = True

    settings = at(replace(GRID, out=tmp_path / "run"), steady.url, dying.url)
    proof = prove(settings, Listener(note=said.append, event=note))
    assert table(proof) == table(undisturbed)
    assert dying.bodies
    assert any(line.startswith(f"{dying.url} is gone") for line in said)


def test_answers_are_kept_one_by_one_and_the_same_call_asks_only_what_is_missing(
    proxy: MakeProxy,
    undisturbed: Proof,
    tmp_path: Path,
    fast_retries: None,  # noqa: ARG001 - for what it does
) -> None:
    through = proxy()
    kept: list[Row] = []

    def note(event: Any) -> None:
        kept.append(event.row)
        through.down = len(kept) >= 4

    settings = at(replace(GRID, out=tmp_path / "run"), through.url)
    with pytest.raises(EndpointError, match="no server answers any more") as error:
        prove(settings, Listener(event=note))
    assert through.url in str(error.value)
    through.down = False
    before = len(through.bodies)
    proof = prove(settings)
    assert table(proof) == table(undisturbed)
    # The probes, and each of the other prompts once.
    assert len(through.bodies) - before == 5 + len(proof.rows) - len(kept)


def test_with_shared_beginnings_much_of_a_prompt_comes_from_the_servers_cache(
    llama: str, tmp_path: Path
) -> None:
    settings = replace(GRID, lengths=(200, 400), depths=(0.0, 0.5, 0.9), trials=1, out=tmp_path)
    proof = prove(at(replace(settings, sharing=Sharing.PREFIX), llama))
    cached, tokens = cached_share(proof.rows)
    assert tokens > 0.95 * 3 * (200 + 400)
    # What stands before the needles of depth 0.5 and 0.9 is read once.
    assert cached / tokens > 0.25
    assert [row.sharing for row in proof.rows] == [Sharing.PREFIX] * 6
    assert sum(row.tokens_read for row in proof.rows) == tokens - cached
    assert sum(row.answer.outcome is Outcome.HIT for row in proof.rows) >= 4


def test_a_salted_run_gets_nothing_from_a_cache(llama: str, tmp_path: Path) -> None:
    settings = replace(GRID, lengths=(180,), trials=1, out=tmp_path / "run")
    proof = prove(at(settings, llama, salt=True))
    cached, tokens = cached_share(proof.rows)
    assert cached < 0.05 * tokens
    assert tokens > 2 * 140
    assert all(row.answer.outcome in (Outcome.HIT, Outcome.MISS) for row in proof.rows)


def test_without_a_tokenizer_lengths_are_estimated_near_and_said_to_be(
    llama: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.proof.endpoint.meeting.ServerTokenizer.find", lambda *_: None)
    settings = replace(GRID, lengths=(200,), trials=1, out=tmp_path / "run")
    proof = prove(at(settings, llama))
    counts = [json.loads(row.answer.details)["prompt_tokens"] for row in proof.rows]
    assert all(170 <= count <= 210 for count in counts)
    assert [row.answer.outcome for row in proof.rows] == [Outcome.HIT] * 2
    facts = proof.summary.facts
    assert facts["asked by"] == "completions, prompts as text"
    assert facts["lengths counted"].startswith("estimated: ")
    assert "--tokenizer counts exactly" in facts["lengths counted"]
