"""Keeps servers busy: prompts in lanes, lanes on workers, answers as they come.

A lane is an ordered list of prompts that share a text; one worker asks it from first to last, so
that all of it goes to one server and its cache hits. Lanes of a server
that is gone go to the others. Everything that is not an answer is told to the caller's thread.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ropewalk.errors import EndpointError
from ropewalk.proof.cells import Answer, Outcome, Prompt
from ropewalk.proof.endpoint.client import Client, ServerGoneError
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.reading import share, walk
from ropewalk.short import short

Ask = Callable[[Prompt, Client], Answer]
"""Asks one prompt of one server."""


@short
@dataclass(frozen=True, slots=True)
class Server:
    """A server and how many requests it is sent at once."""

    client: Client
    concurrency: int


@dataclass(frozen=True, slots=True)
class _Done:
    """A worker has ended, of itself or by an error that is for the caller."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Gone:
    url: str
    why: str


def in_cache_order(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Prompts as a prefix cache likes them: shared text first, shorter before longer."""
    return [leaf.prompt for node in walk(share(prompts)) for leaf in node.leaves]


class Pool:
    """Workers on servers.

    `gate` is that of the clients. `go_on(prompt)` is asked before each prompt and may say that
    nothing more is to be begun. `told` hears about servers that are gone.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        ask: Ask,
        gate: RequestGate,
        *,
        go_on: Callable[[Prompt], bool] = lambda _: True,
        told: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._servers = servers
        self._ask = ask
        self._gate = gate
        self._go_on = go_on
        self._told = told
        self._lanes: deque[deque[Prompt]] = deque()
        self._lock = threading.Lock()
        self._gone: set[str] = set()
        self._busy = 0
        self._more = True
        self._change = threading.Condition(self._lock)
        self._results: queue.Queue[tuple[Prompt, Answer] | _Done | _Gone] = queue.Queue()

    def answers(self, lanes: Iterable[Sequence[Prompt]]) -> Iterator[tuple[Prompt, Answer]]:
        """Every prompt with its answer, in the order in which they are answered.

        Lanes are taken from `lanes`, in the caller's thread, only as they are needed: the prompts
        of a large plan would fill the memory.

        Ends early when `go_on` says so. Raises EndpointError when a server says what would befall
        every request, or when all of them are gone; whatever else a worker raised comes through.
        Leaving the iterator stops the workers.
        """
        source = iter(lanes)
        threads = [
            threading.Thread(target=self._work, args=(server,), daemon=True)
            for server in self._servers
            for _ in range(server.concurrency)
        ]
        running = len(threads)
        try:
            self._feed(source, running)
            for thread in threads:
                thread.start()
            while running:
                result = self._results.get()
                if isinstance(result, _Done):
                    running -= 1
                    if result.error is not None:
                        raise result.error
                elif isinstance(result, _Gone):
                    self._told(f"{result.url} is gone ({result.why}); the others do its work")
                else:
                    yield result
                self._feed(source, len(threads))
            self._check_all_done()
        finally:
            self._stop()

    def _feed(self, source: Iterator[Sequence[Prompt]], workers: int) -> None:
        """Have a lane ready for every worker, as long as there are more."""
        while self._more and len(self._lanes) < workers and not self._gate.stop.is_set():
            lane = next(source, None)
            with self._change:
                if lane is None:
                    self._more = False
                elif lane:
                    self._lanes.append(deque(lane))
                self._change.notify_all()

    def _check_all_done(self) -> None:
        if self._lanes and len(self._gone) == len({s.client.url for s in self._servers}):
            raise EndpointError(
                f"no server answers any more ({', '.join(sorted(self._gone))}); what was answered "
                "is kept, and the same command goes on once one is back"
            )

    def _stop(self) -> None:
        with self._change:
            self._lanes.clear()
            self._gate.stop.set()
            self._change.notify_all()

    def _work(self, server: Server) -> None:
        try:
            while (lane := self._take(server)) is not None:
                try:
                    self._ask_lane(lane, server)
                finally:
                    with self._change:
                        self._busy -= 1
                        self._change.notify_all()
        except BaseException as error:  # noqa: BLE001 - it is raised again where answers are read
            self._results.put(_Done(error))
        else:
            self._results.put(_Done())

    def _take(self, server: Server) -> deque[Prompt] | None:
        """The next lane; None when there is none and none can come back from a lost server."""
        with self._change:
            while True:
                if self._gate.stop.is_set() or server.client.url in self._gone:
                    return None
                if self._lanes:
                    self._busy += 1
                    return self._lanes.popleft()
                if not self._busy and not self._more:
                    return None
                self._change.wait()

    def _ask_lane(self, lane: deque[Prompt], server: Server) -> None:
        while lane and not self._gate.stop.is_set():
            if not self._go_on(lane[0]):
                self._stop()
                return
            try:
                answer = self._ask(lane[0], server.client)
            except ServerGoneError as error:
                self._lose(server, lane, str(error))
                return
            if self._gate.stop.is_set() and answer.outcome is Outcome.ERROR:
                # It was given up because the run ends, and is none.
                return
            self._results.put((lane.popleft(), answer))

    def _lose(self, server: Server, lane: deque[Prompt], why: str) -> None:
        with self._change:
            first = server.client.url not in self._gone
            self._gone.add(server.client.url)
            self._lanes.appendleft(lane)
            self._change.notify_all()
        if first:
            self._results.put(_Gone(server.client.url, why))
