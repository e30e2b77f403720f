"""Prompts folded by the beginnings they share, so that a shared beginning is read once.

A compact trie over token ids. Whoever walks it depth first reads a node's ids, asks the node's
leaves one after the other from there, goes on to the children, and cuts back to where the node
began: only ever appending and cropping. The same walk orders the prompts for a server with a
prefix cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ropewalk.proof.cells import Prompt
from ropewalk.proof.tokens import shared_start
from ropewalk.short import short

SMALLEST = 16
"""Tokens: a shared beginning that saves fewer is not worth a pause."""


@short
@dataclass(frozen=True, slots=True)
class Leaf:
    """A prompt, and the ids of it that follow its node's path: always at least one."""

    prompt: Prompt
    ids: tuple[int, ...]


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
