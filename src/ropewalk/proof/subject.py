"""What a proof needs of whoever is asked: a model run here, one at a server, a fake in a test.

`NamedModel` is known by its name, `OpenedModel` is loaded or met, and `Subject` answers. Here they
are `ropewalk.proof.local`, at a server `ropewalk.proof.served`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ropewalk.findings import Audit
from ropewalk.listener import Listener
from ropewalk.proof.cells import Answer, Prompt, Sharing
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.plan import CostModel, Make
from ropewalk.proof.progress import Pace
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.subjects.branches import Sharable
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import Length, PositionSpec
from ropewalk.short import short, short_with

InTime = Callable[[int, int], bool]
"""in_time(tokens, start): whether so many tokens behind `start` should be through in time."""


@short
@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt and its answer. `read`: the prompt tokens that were read for it and not before.

    `length`: tokens of prompt and answer as who was asked counts them.
    """

    prompt: Prompt
    answer: Answer
    read: int
    length: int


class Subject(Protocol):
    """Whoever is asked. May answer the prompts of a trial in any order."""

    def pace(self) -> Pace:
        """How fast answers come; before the first, what is expected."""

    def ahead(self, pace: Pace, first: Callable[[], Sequence[Prompt]]) -> None:
        """Tell the pace what later trials will cost, by the prompts of the first, if need be."""

    def ask(self, trials: Iterable[Iterable[Prompt]], in_time: InTime) -> Iterator[Asked]:
        """Answers as they come, of prompts taken as they are needed; ends where not `in_time`."""


@short_with("title", "facts")
@dataclass(slots=True, kw_only=True)
class OpenedModel:
    """A model that can be asked, and what a proof needs to know of it: as one that is run here.

    `title` is what its run folder is named by, and `whose` says in an error in whose tokens lengths
    are. `chat`: whether it is asked through a chat template, `salted`: whether each prompt begins
    with a line of its own. `trained` None: as an audit computes it. `audit` None: its files are
    not here. `no_branches` says why its prompts cannot be branches, "" where they may.
    """

    tokens: Tokens
    spec: PositionSpec
    facts: RunFacts = field(default_factory=RunFacts)
    title: str = ""
    whose: str = "with this model's tokenizer"
    chat: bool = False
    salted: bool = False
    trained: Length | None = None
    audit: Audit | None = None
    no_branches: str = ""

    def own(self, length: int) -> int:
        """Our tokens of a prompt whose length is `length` as the model counts."""
        return length

    def least(self, own: int) -> int:
        """The shortest length, as the model counts, that holds `own` of our tokens."""
        return own

    def laid(self, make: Make) -> Make:
        """Lays out cells whose lengths are as the model counts."""
        return make

    def able(self, wanted: Sharing, _lengths: Sequence[int]) -> Sharable:
        """What the prompts of these lengths may share."""
        return Sharable(wanted)

    def cost(self) -> CostModel | None:
        """How fast it reads, None where that is not known beforehand."""
        return None

    def cache_bytes(self, _longest: int, _a_token: int | None) -> int | None:
        """What its key-value cache takes at the longest prompt, None where that is not known."""
        return None

    def subject(self, *, shared: bool) -> Subject:
        """Asks it, prompts by themselves or with shared beginnings read once."""
        raise NotImplementedError(f"{type(self).__name__}, shared {shared}")


class NamedModel(Protocol):
    """A model that is known by its name so far: nothing is loaded, and no server was asked."""

    settings: ProofSettings
    """With what the user left open filled in from the model's files."""
    asked_as: tuple[str, ...]
    """What to say of that."""

    def opened(self, tell: Listener) -> Iterator[OpenedModel]:
        """Load it, or meet the server; yields once, and closes what it opened."""
