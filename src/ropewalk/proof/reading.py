"""What prompts share is read once: their tree, and what a plan will take by it.

A compact trie over token ids. Whoever walks it depth first reads a node's ids, asks the node's
leaves one after the other from there, goes on to the children, and cuts back to where the node
began: only ever appending and cropping. The same walk orders the prompts for a server with a
prefix cache, and says from the real prompts of a trial what a plan takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ropewalk.proof.cells import Calibrate, Cell, Prompt, Sharing
from ropewalk.proof.plan import CostModel, Plan, Prompts
from ropewalk.proof.stops import haystacks, pieces_of
from ropewalk.proof.tokens import shared_start
from ropewalk.short import short

SMALLEST = 16
"""Tokens: a shared beginning that saves fewer is not worth a pause."""


@short
@dataclass(frozen=True, slots=True)
class Leaf:
    """A prompt, and the ids of it that follow its node's path: always at least one.

    In a haystack with gaps `begins` is the position id of the first of them, and `needle` what was
    read in a gap (`subjects.branches.Read`); None where the ids just go on from the path.
    """

    prompt: Prompt
    ids: tuple[int, ...]
    begins: int | None = None
    needle: Any = None


@short
@dataclass(frozen=True, slots=True)
class Node:
    """`ids` are appended to the parent's path; `leaves` are asked from there."""

    ids: tuple[int, ...]
    leaves: tuple[Leaf, ...]
    children: tuple[Node, ...]


def share(prompts: Sequence[Prompt], smallest: int = SMALLEST) -> Node:
    """The trie of prompts, each in it once; also prompts that are equal, or begin another.

    A node is made only where at least `smallest` more tokens are shared. Leaves and children
    stand shortest first. Time: a sort, and a comparison of each prompt with its neighbour.
    Raises ValueError for a `smallest` below 1 and for a prompt without tokens.
    """
    if smallest < 1:
        raise ValueError(f"a shared beginning of {smallest} tokens is impossible: at least 1 is")
    if not all(prompt.token_ids for prompt in prompts):
        raise ValueError("a prompt without tokens cannot be asked")
    ordered = sorted(prompts, key=lambda prompt: prompt.token_ids)
    return _freeze(_fold(ordered), smallest)


def tokens(root: Node) -> int:
    """Prompt tokens to read when every shared beginning is read once."""
    return sum(len(node.ids) + sum(len(leaf.ids) for leaf in node.leaves) for node in walk(root))


def walk(root: Node) -> Iterator[Node]:
    """Every node, depth first, a node before its children, children in their order."""
    return (node for node, _ in paths(root))


def paths(root: Node) -> Iterator[tuple[Node, int]]:
    """Every node in the order of the walk, with the tokens that stand before it."""
    waiting = [(root, 0)]
    while waiting:
        node, start = waiting.pop()
        yield node, start
        waiting.extend((child, start + len(node.ids)) for child in reversed(node.children))


@dataclass(slots=True)
class _Draft:
    """A beginning that all of `parts` share: the first `end` of `ids`."""

    end: int
    ids: tuple[int, ...]
    parts: list[_Draft | Prompt] = field(default_factory=list)


def _fold(ordered: Sequence[Prompt]) -> _Draft:
    """Every shared beginning of sorted prompts as a tree.

    Sorted prompts that share a beginning are neighbours, so the path to the last prompt is all
    that can still grow (as a suffix tree is made from a suffix array).
    """
    path = [_Draft(0, ())]
    before: tuple[int, ...] = ()
    for prompt in ordered:
        ids = prompt.token_ids
        # A prompt keeps a last token of its own: what it is asked with.
        common = max(0, min(shared_start(before, ids), len(before) - 1, len(ids) - 1))
        while path[-1].end > common:
            done = path.pop()
            if path[-1].end < common:
                path.append(_Draft(common, ids))
            path[-1].parts.append(done)
        if path[-1].end < common:
            # The prompt before shares more with this one than with those before it.
            path.append(_Draft(common, ids, [path[-1].parts.pop()]))
        path[-1].parts.append(prompt)
        before = ids
    while len(path) > 1:
        done = path.pop()
        path[-1].parts.append(done)
    return path[0]


def _freeze(draft: _Draft, smallest: int) -> Node:
    """The nodes that are worth it, from the top down; without recursion, as chains are long."""
    if (
        len(draft.parts) == 1
        and isinstance(only := draft.parts[0], _Draft)
        and only.end >= smallest
    ):
        draft = only
    kept = [_Kept(draft, 0)]
    for node in kept:
        waiting = node.draft.parts[::-1]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Prompt):
                node.prompts.append(part)
            elif part.end - node.draft.end >= smallest:
                node.children.append(len(kept))
                kept.append(_Kept(part, node.draft.end))
            else:
                waiting.extend(reversed(part.parts))
    frozen: dict[int, Node] = {}
    for index in reversed(range(len(kept))):
        frozen[index] = _node(kept[index], [frozen.pop(i) for i in kept[index].children])
    return frozen[0]


@dataclass(slots=True)
class _Kept:
    """A node to be, `begin` where its own ids begin; children by their index."""

    draft: _Draft
    begin: int
    prompts: list[Prompt] = field(default_factory=list)
    children: list[int] = field(default_factory=list)


def _node(kept: _Kept, children: list[Node]) -> Node:
    end = kept.draft.end
    leaves = [Leaf(prompt, prompt.token_ids[end:]) for prompt in kept.prompts]
    return Node(
        ids=kept.draft.ids[kept.begin : end],
        leaves=tuple(sorted(leaves, key=lambda leaf: (len(leaf.ids), leaf.ids))),
        children=tuple(sorted(children, key=lambda node: (len(node.ids), node.ids))),
    )


@short
@dataclass(frozen=True, slots=True)
class ReadCost:
    """Prompt tokens of a plan: each prompt by itself, and with shared beginnings read once.

    `alone` and `pieces` say in what pieces: (tokens before it, tokens of it, how many times).
    """

    alone: tuple[tuple[int, int, int], ...] = ()
    pieces: tuple[tuple[int, int, int], ...] = ()

    @property
    def independent(self) -> int:
        """Tokens, each prompt by itself."""
        return sum(tokens * times for _, tokens, times in self.alone)

    @property
    def shared(self) -> int:
        """Tokens, shared beginnings once."""
        return sum(tokens * times for _, tokens, times in self.pieces)

    @property
    def saving(self) -> float:
        """How many times fewer tokens sharing reads; 1 for an empty plan."""
        return self.independent / self.shared if self.shared else 1.0

    def tokens(self, sharing: Sharing) -> int:
        """Tokens to read under a way of sharing."""
        return self.independent if sharing is Sharing.NONE else self.shared

    def seconds(self, sharing: Sharing, cost: CostModel) -> float:
        """What that should take."""
        pieces = self.alone if sharing is Sharing.NONE else self.pieces
        return sum(times * cost.seconds(tokens, start) for start, tokens, times in pieces)


def reading(plan: Plan, prompts: Prompts) -> ReadCost:
    """The prompt tokens of a plan that is asked by `prompts`.

    One trial of each kind (with and without controls) is laid out and folded; others of its kind
    count the same. Trials differ by some tokens, where keys and values do. Tasks of a trial have
    no text in common. Cells that cannot be laid out cost nothing.
    """
    kinds: dict[tuple[Cell, ...], tuple[list[Cell], int]] = {}
    for cells in plan.by_trial():
        kind = tuple(replace(cell, trial=0) for cell in cells)
        first, times = kinds.get(kind, (cells, 0))
        kinds[kind] = first, times + 1
    alone: list[tuple[int, int, int]] = []
    pieces: list[tuple[int, int, int]] = []
    for cells, times in kinds.values():
        laid = prompts.all(cells)
        # A prompt alone reads tokens where its branch has gaps.
        alone += [(0, prompt.asked_at, times) for prompt in laid]
        pieces += [(*piece, times) for each in haystacks(laid) for piece in pieces_of(each)]
        for node, start in paths(share([prompt for prompt in laid if prompt.branch is None])):
            end = start + len(node.ids)
            pieces.append((start, len(node.ids), times))
            pieces += [(end, len(leaf.ids), times) for leaf in node.leaves]
    return ReadCost(tuple(alone), tuple(pieces))


@short
@dataclass(frozen=True, slots=True)
class Budget:
    """What a run will take: prompts, tokens to read, and tokens without sharing (`independent`).

    `calibration` counts the tokens read besides, to ask cells both ways as `calibrate` says.
    `seconds` and `cache_bytes`, what the key-value cache takes at the longest prompt, are None
    where they are not known: at a server they are its own business.
    """

    sharing: Sharing
    prompts: int
    tokens: int
    independent: int
    seconds: float | None = None
    cache_bytes: int | None = None
    calibrate: Calibrate = Calibrate.OFF
    calibration: int = 0

    def lines(self, per_million: float | None = None) -> list[str]:
        """What is about to be spent, in one or two lines; with a price of a million tokens."""
        asked = f"{self.prompts:,} prompts, {self.tokens:,} tokens to read"
        if self.sharing is not Sharing.NONE:
            asked += (
                f" ({self.sharing.value}: {self.saving:.1f} times fewer than {self.independent:,})"
            )
        if self.calibration:
            asked += f", and {self.calibration:,} to calibrate ({self.calibrate.value})"
        elif self.sharing is Sharing.BRANCHES:
            asked += ", not calibrated"
        rest = []
        if self.seconds is not None:
            rest.append(f"about {_time(self.seconds)} at the pace of a short text")
        if self.cache_bytes is not None:
            rest.append(f"key-value cache: {self.cache_bytes / 2**20:,.0f} MiB")
        if per_million is not None:
            spent = (self.tokens + self.calibration) * per_million / 1e6
            alone = self.independent * per_million / 1e6
            rest.append(f"price: {spent:,.2f}; without sharing {alone:,.2f}")
        return [asked, ", ".join(rest)] if rest else [asked]

    @property
    def saving(self) -> float:
        """How many times fewer tokens are read."""
        return self.independent / self.tokens if self.tokens else 1.0


def default_calibrate(read: ReadCost, besides: int) -> Calibrate:
    """Whether branches are calibrated where nobody said: `besides` tokens are its price.

    They are wherever that reads fewer tokens than branches save: below, the whole grid by prompts
    of its own would be no dearer.
    """
    return Calibrate.SHORT if besides < read.independent - read.shared else Calibrate.OFF


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:,.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:,.0f} minutes" if minutes < 90 else f"{minutes / 60:,.1f} hours"
