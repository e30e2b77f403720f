"""How much of a prompt a server really reads: looked for with prompts, and not believed.

A prompt of a length is read whole where it is not refused, is not counted as shorter, and the fact
at its beginning (in its middle, where that is what is cut) is found. Between the longest that was
and the shortest that was not, lengths are tried where the window is likely: at what the server
states, at numbers in its refusals, at what it counts of longer prompts, at powers of two; and in
the middle where nothing is likely.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from secrets import randbelow

from ropewalk.errors import EndpointError, LengthError, UsageError
from ropewalk.proof.cells import Cell, Outcome
from ropewalk.proof.endpoint.client import (
    Client,
    NoSuchPlaceError,
    PromptTooLongError,
    RejectedError,
    ThrottledError,
)
from ropewalk.proof.endpoint.cuts import CutPart
from ropewalk.proof.endpoint.dialect import asked
from ropewalk.proof.endpoint.judging import judge
from ropewalk.proof.endpoint.meeting import Meeting, meet
from ropewalk.proof.endpoint.plain_text import fresh_line
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.probe import ServerFacts
from ropewalk.proof.endpoint.refusals import Sent, read_refusal
from ropewalk.proof.endpoint.subject import (
    EndpointSettings,
    EndpointSubject,
    ServedPrompts,
)
from ropewalk.proof.prompt import CHAT_ANSWER_TOKENS, PromptMaker
from ropewalk.short import short, short_with
from ropewalk.shown import Shown

REQUESTS = 12
"""Prompts that are sent at most, with those that find out how the server is asked and counts."""
EXACT = 0.01
_JUST = 0.0045
"""How far below and above a likely window is looked."""
_NEAR = 0.95
_FIRST, _STEP = 1024, 4
_SHORTEST = 192
MOST = 131_072
"""Tokens of the longest prompt that is sent where nothing else is said."""


@short
@dataclass(frozen=True, slots=True)
class WindowLook:
    """One prompt of `length` tokens with a fact at `depth`, and what came of it.

    `refused`: the server's words, "" where it answered. `counted` as it counts, None where it does
    not. `found`: whether the fact was. `whole`: whether all of the prompt was read.
    """

    length: int
    depth: float
    refused: str = ""
    counted: int | None = None
    found: bool = False
    whole: bool = False


@short_with("url", "reads", "fails")
@dataclass(frozen=True, slots=True)
class ServedWindow(Shown):
    """What a server reads. Lengths in its tokens, of prompt and answer together.

    `reads`: the longest that was read whole, None where none was; `fails`: the shortest that was
    not, None where none was seen. `cut`: what it loses of longer ones, NONE where it refuses them.
    `counts`: "before the cut", "after the cut", "not told", or "" where nothing is cut.
    """

    url: str
    model: str
    reads: int | None
    fails: int | None
    refuses: bool
    cut: CutPart
    counts: str
    able: bool
    facts: ServerFacts
    asked_by: str
    lengths_counted: str
    looks: tuple[WindowLook, ...]
    requests: int
    remarks: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the two ends lie within 1 % of each other."""
        return bool(self.reads and self.fails and self.fails <= (1 + EXACT) * self.reads + 1)

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.reads is None:
            return "No prompt was read whole: nothing can be said of the window."
        if self.fails is None:
            return f"Reads {self.reads:,} tokens and more: nothing failed up to there."
        much = f"Reads {self.reads:,} tokens"
        much += ", to 1 %" if self.exact else f", and not {self.fails:,}"
        if self.refuses:
            return f"{much}; longer prompts are refused, and it says so."
        counts = {
            "after the cut": "its counts are those after the cut",
            "before the cut": "its counts are those before the cut",
            "not told": "it does not count",
        }[self.counts]
        lost = str(self.cut)
        if self.cut in (CutPart.UNKNOWN, CutPart.NONE):
            lost = "a part, which one its answers do not show,"
        return f"{much}; of longer prompts {lost} is lost, and it does not say so: {counts}."


def find_window(
    name: str, given: EndpointSettings, *, chat: bool = False, most: int = MOST
) -> ServedWindow:
    """Find out what the server at the first address reads, with REQUESTS prompts at most.

    `most`: tokens of the longest prompt. Raises EndpointError where it cannot be asked, UsageError
    where it has several models and none is named, and for `most` below what a question takes.
    """
    if most < _SHORTEST:
        raise UsageError(f"--most {most} is too short for a question: give {_SHORTEST} or more")
    gate = RequestGate(given.requests_per_minute, given.tokens_per_minute)
    client = Client(given.base_urls[0], gate, timeout=given.timeout)
    try:
        met = meet(name, given, [client], chat=chat, answer_tokens=CHAT_ANSWER_TOKENS, brief=True)
        # An answer must not be cut short for what a server states and does not keep to.
        met.subject.window = None
        search = _Search(client, met, most)
        search.run()
        return search.result()
    finally:
        gate.stop.set()
        client.close()


@dataclass(slots=True)
class _Search:
    client: Client
    met: Meeting
    most: int
    looks: list[WindowLook] = field(default_factory=list)
    low: int | None = None
    high: int | None = None
    likely: list[int] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    depth: float = 0.0
    able: bool = False
    kept: int | None = None
    cut: CutPart = CutPart.NONE
    believed: bool = True

    @property
    def subject(self) -> EndpointSubject:
        return self.met.subject

    def run(self) -> None:
        """Look until the ends are near enough, or all prompts are sent."""
        if self.met.facts.window:
            self.likely.append(self.met.facts.window)
        while self.client.sent < REQUESTS and not self._done():
            length = self._next()
            if length is None:
                break
            self.tried.append(length)
            self._take(self._look(length, self.depth))

    def result(self) -> ServedWindow:
        """What was found out."""
        subject, client = self.subject, self.client
        failed = [look for look in self.looks if not look.whole]
        silent = [look for look in failed if not look.refused]
        counts = ""
        if silent:
            last = max(silent, key=lambda look: look.length)
            counts = "after the cut" if self._is_low(last) else "before the cut"
            counts = "not told" if last.counted is None else counts
        remarks = list(self.met.remarks)
        if not self.able:
            remarks.append(
                "the model found no fact in a text that it read: only refusals and counts tell"
            )
        return ServedWindow(
            url=client.url, model=subject.model, reads=self.low, fails=self.high,
            refuses=bool(failed) and not silent, cut=self.cut if silent else CutPart.NONE,
            counts=counts, able=self.able, facts=self.met.facts, asked_by=subject.dialect.words(),
            lengths_counted=f"{subject.counting.words()}, by {self.met.counted_by}",
            looks=tuple(self.looks), requests=client.sent, remarks=tuple(remarks),
        )  # fmt: skip

    def _done(self) -> bool:
        return bool(self.low and self.high and self.high <= (1 + EXACT) * self.low + 1)

    def _next(self) -> int | None:
        """The next length to look at; None where nothing is left to find."""
        low, high = self.low or 0, self.high
        if not self.looks:
            # One that the model should manage, to see whether it can find a fact at all.
            return min(_FIRST // 2, self.most)
        powers = [1 << n for n in range(7, 31)]
        for window in [*self.likely, *(powers if high is not None else [])]:
            if not low < (1 + _JUST) * window or (high is not None and window >= high):
                continue
            below, above = int((1 - _JUST) * window), int((1 + _JUST) * window) + 1
            for length in (below, above):
                if low < length <= self.most and (high is None or length < high):
                    # A second time, our tokens may be better known.
                    if self.tried.count(length) > 1:
                        continue
                    return length
        if high is None:
            # A prompt may have a few tokens less than was asked for.
            step = min(max(_FIRST, low * _STEP), self.most)
            return None if step in self.tried else step
        middle = int((max(low, _SHORTEST) * high) ** 0.5)
        return middle if low < middle < high else None

    def _take(self, look: WindowLook) -> None:
        """What a look says of the window."""
        self.looks.append(look)
        self.able = self.able or look.found
        if look.refused:
            said = read_refusal(400, look.refused).numbers
            # What is near is the prompt's own count.
            self.likely += [n for n in said if n < _NEAR * look.length and n not in self.likely]
        elif not look.whole and self.cut is CutPart.NONE:
            self.cut = self._part(look)
            if self.cut is CutPart.NONE:
                # All of it was read, whatever is counted.
                self.believed = False
                look = self.looks[-1]
            elif look.counted is not None and self._is_low(look):
                self.likely.insert(0, look.counted)
        self._narrow(look)
        # Nothing failed: what is lost may be the middle.
        if look.whole and self.most in self.tried and not self.depth and self.able:
            self._middle()

    def _narrow(self, look: WindowLook) -> None:
        if self.kept is not None:
            self.low, self.high = self.kept, self.kept + 1
            return
        reach = look.length
        if look.whole:
            self.low = max(self.low or 0, reach)
        elif self.high is None or reach < self.high:
            self.high = reach
        if self.high is not None and self.low is not None and self.low >= self.high:
            self.low = max((n.length for n in self.looks if n.whole and n.length < self.high),
                           default=None)  # fmt: skip

    def _middle(self) -> None:
        """Look once more at the longest, for a fact in its middle."""
        if self.client.sent >= REQUESTS:
            return
        self.depth = 0.5
        look = self._look(self.most, 0.5)
        self.looks.append(look)
        if not look.whole:
            self.tried.clear()
            self.cut, self.high = CutPart.MIDDLE, look.length
            self.low = min((n.length for n in self.looks if n.whole), default=None)

    def _part(self, look: WindowLook) -> CutPart:
        """What is lost of the prompt of a look; a further prompt or two show it."""
        if not self.able:
            return CutPart.UNKNOWN
        if look.found:
            longer = int(1.25 * look.length)
            middle = self._look(longer if longer <= self.most else look.length, 0.5)
            self.looks.insert(-1, middle)
            if not middle.found:
                if look.counted == middle.counted and look.length != middle.length:
                    self.kept = look.counted
                self.depth = 0.5
                return CutPart.MIDDLE
            self.looks[-1] = WindowLook(
                look.length, look.depth, "", look.counted, found=True, whole=True
            )
            return CutPart.NONE
        longer = int(1.25 * look.length)
        end = self._look(longer if longer <= self.most else int(0.9 * look.length), 1.0)
        self.looks.insert(-1, end)
        if self._is_low(look) and look.counted and look.counted == end.counted:
            # Prompts of two lengths, and the same count: that many are kept.
            self.kept = look.counted
        return CutPart.BEGINNING if end.found else CutPart.END

    def _is_low(self, look: WindowLook) -> bool:
        expected = look.length
        counting = self.subject.counting
        room = CHAT_ANSWER_TOKENS + counting.slack(expected)
        return look.counted is not None and look.counted < expected - room

    def _look(self, length: int, depth: float) -> WindowLook:
        """Send a prompt of a length with a fact at a depth."""
        subject, counting = self.subject, self.subject.counting
        maker = PromptMaker(subject.tokens, randbelow(1 << 30), subject.chat)
        salt = len(subject.tokens.encode(fresh_line(), special=False))
        try:
            prompt = ServedPrompts(maker, counting, salt)(Cell(length, depth, 0))
        except LengthError as error:
            raise EndpointError(
                f"a prompt of {length} tokens cannot be laid out: {error}"
            ) from error
        content, own = subject.content(prompt, salt=True)
        expected, most = counting.expected(own), subject.most(prompt, own)
        length = expected + most
        sent = Sent(expected, most, max(8, counting.slack(expected)))
        try:
            found, reply = asked(
                self.client, subject.model, subject.dialect, content, sent, tries=2, doubt=True
            )
        except (PromptTooLongError, RejectedError, NoSuchPlaceError) as error:
            said = read_refusal(400, str(error)).numbers
            counts = [n for n in said if abs(n - expected) <= sent.slack and n != subject.window]
            if counts and not counting.exact and len(set(counts)) == 1:
                self._learn(counts[0], own)
                length = counts[0] + most
            return WindowLook(length, depth, refused=str(error))
        except ThrottledError as error:
            raise EndpointError(
                f"{error}; that is a rate: --most asks for shorter prompts"
            ) from error
        subject.dialect = found
        answer = judge(reply, prompt, expected, chat=subject.chat, most=0)
        hit = answer.outcome is Outcome.HIT
        counted = counting.whole(own, reply.prompt_tokens, reply.cached_tokens)
        low = self.believed and counting.seems_cut(own, counted, None)
        whole = not low and (hit or (not self.able and bool(self.looks)))
        if counted is not None and self.believed and whole:
            length = counted + most
            if not counting.exact and own >= _SHORTEST:
                self._learn(counted, own)
        elif counted is None or counted >= counting.least(own):
            # Only the fact tells what was read, and it is said twice: the second one tells.
            second = subject.tokens.inner(f"The pass key of {prompt.key} is {prompt.value}. So.")
            length -= 0 if depth else round(counting.ratio * (prompt.needle_start + second)) + salt
        return WindowLook(length, depth, "", counted, found=hit, whole=whole)

    def _learn(self, counted: int, own: int) -> None:
        """The longer a text, the better it says how many of the server's tokens ours are."""
        counting = self.subject.counting
        ratio = (counted - counting.overhead) / own
        self.subject.counting = replace(counting, ratio=ratio)
