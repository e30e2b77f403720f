"""Lanes and workers, with servers that are functions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ropewalk.errors import EndpointError
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt
from ropewalk.proof.endpoint.client import ServerGoneError
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.work import Pool, Server, in_cache_order


def a_prompt(trial: int, ids: tuple[int, ...]) -> Prompt:
    return Prompt(Cell(len(ids), 0.0, trial), ids, (1,), -1, 0.0, "k", "v", (), "text")


def lanes_of(trials: int, size: int = 4) -> list[list[Prompt]]:
    return [[a_prompt(t, (t, *range(n + 1))) for n in range(size)] for t in range(trials)]


def servers(*urls: str, concurrency: int = 2) -> list[Server]:
    clients: list[Any] = [SimpleNamespace(url=url) for url in urls]
    return [Server(client, concurrency) for client in clients]


HIT = Answer(Outcome.HIT, None, "v", 0.0)


def test_shared_text_comes_first_and_shorter_prompts_before_longer_ones() -> None:
    document = tuple(range(100, 400))
    prompts = [
        a_prompt(0, (*document[:length], 7, question))
        for length in (300, 100, 200)
        for question in (1, 2)
    ]
    lengths = [len(prompt.token_ids) - 2 for prompt in in_cache_order(prompts)]
    assert lengths == [100, 100, 200, 200, 300, 300]


def test_every_prompt_is_answered_once_and_those_of_a_lane_by_one_server_in_order() -> None:
    seen: dict[int, list[tuple[str, int]]] = {}
    lock = threading.Lock()

    def ask(prompt: Prompt, client: Any) -> Answer:
        with lock:
            place = (client.url, len(prompt.token_ids))
            seen.setdefault(prompt.cell.trial, []).append(place)
        return HIT

    pool = Pool(servers("a", "b"), ask, RequestGate())
    answered = [prompt.cell for prompt, _ in pool.answers(lanes_of(9))]
    assert sorted(answered) == sorted(p.cell for lane in lanes_of(9) for p in lane)
    for places in seen.values():
        assert len({url for url, _ in places}) == 1
        assert [length for _, length in places] == [2, 3, 4, 5]


def test_lanes_are_made_only_as_they_are_needed() -> None:
    made = 0

    def source() -> Iterator[list[Prompt]]:
        nonlocal made
        for lane in lanes_of(50, size=1):
            made += 1
            yield lane

    pool = Pool(servers("a"), lambda *_: HIT, RequestGate())
    for count, _ in enumerate(pool.answers(source()), start=1):
        assert made <= count + 5
    assert made == 50


def test_the_work_of_a_server_that_is_gone_is_done_by_the_others() -> None:
    told: list[str] = []

    def ask(prompt: Prompt, client: Any) -> Answer:
        if client.url == "dead" and len(prompt.token_ids) > 3:
            raise ServerGoneError("refused")
        return HIT

    pool = Pool(servers("alive", "dead"), ask, RequestGate(), told=told.append)
    answered = [prompt.cell for prompt, _ in pool.answers(lanes_of(6))]
    assert sorted(answered) == sorted(p.cell for lane in lanes_of(6) for p in lane)
    assert told in ([], ["dead is gone (refused); the others do its work"])


def test_when_all_are_gone_that_is_said_with_their_addresses() -> None:
    def ask(prompt: Prompt, _: Any) -> Answer:
        if len(prompt.token_ids) > 3:
            raise ServerGoneError("refused")
        return HIT

    pool = Pool(servers("a", "b"), ask, RequestGate())
    got: list[object] = []
    with pytest.raises(EndpointError, match=r"no server answers any more \(a, b\)"):
        got.extend(pool.answers(lanes_of(8)))


def test_what_stops_one_request_for_good_stops_the_run() -> None:
    def ask(prompt: Prompt, _: Any) -> Answer:
        raise EndpointError(f"no key for {prompt.key}")

    with pytest.raises(EndpointError, match="no key for k"):
        list(Pool(servers("a", "b"), ask, RequestGate()).answers(lanes_of(8)))


def test_nothing_is_begun_after_it_was_said_to_stop() -> None:
    pool = Pool(servers("a"), lambda *_: HIT, RequestGate(), go_on=lambda p: p.cell.trial < 2)
    trials = {prompt.cell.trial for prompt, _ in pool.answers(lanes_of(30))}
    assert trials <= {0, 1}
