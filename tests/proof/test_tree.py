"""The trie read and cropped depth first says every prompt again, and reads nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.proof.cells import Cell, Prompt
from ropewalk.proof.reading import Leaf, Node, share, tokens, walk


def prompt_of(ids: tuple[int, ...], trial: int = 0) -> Prompt:
    return Prompt(Cell(len(ids), 0.0, trial), ids, (1,), -1, 0.0, "key", "value", (), "text")


def read(root: Node) -> list[tuple[tuple[int, ...], Leaf]]:
    """Each leaf with the path before it, by appending and cropping alone."""
    path: list[int] = []
    found: list[tuple[tuple[int, ...], Leaf]] = []

    def visit(node: Node) -> None:
        begun = len(path)
        path.extend(node.ids)
        found.extend((tuple(path), leaf) for leaf in node.leaves)
        for child in node.children:
            visit(child)
        del path[begun:]

    visit(root)
    assert not path
    return found


def distinct_beginnings(prompts: list[Prompt]) -> int:
    """The fewest tokens that can be read: one for every different beginning."""
    return len({p.token_ids[:end] for p in prompts for end in range(1, len(p.token_ids) + 1)})


PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=24).map(tuple), min_size=1, max_size=12
).map(lambda many: [prompt_of(ids, trial) for trial, ids in enumerate(many)])


@given(PROMPTS, st.integers(1, 6))
def test_every_prompt_is_a_path_and_a_leaf_and_is_in_the_tree_once(
    prompts: list[Prompt], smallest: int
) -> None:
    root = share(prompts, smallest)
    found = read(root)
    assert Counter(leaf.prompt for _, leaf in found) == Counter(prompts)
    for path, leaf in found:
        assert (*path, *leaf.ids) == leaf.prompt.token_ids
        assert leaf.ids


@given(PROMPTS, st.integers(1, 6))
def test_a_node_is_worth_its_pause(prompts: list[Prompt], smallest: int) -> None:
    root = share(prompts, smallest)
    for node in walk(root):
        if node is not root or node.ids:
            assert len(node.ids) >= smallest
            assert len(node.leaves) + len(node.children) >= 2


@given(PROMPTS, st.integers(1, 6))
def test_sharing_never_costs_and_all_sharing_reads_each_beginning_once(
    prompts: list[Prompt], smallest: int
) -> None:
    alone = sum(len(p.token_ids) for p in prompts)
    assert distinct_beginnings(prompts) <= tokens(share(prompts, smallest)) <= alone
    # A prompt that another one begins with, or equals, is asked with a token of its own.
    again = sum(
        1
        for i, p in enumerate(prompts)
        if any(
            other.token_ids[: len(p.token_ids)] == p.token_ids
            and (len(other.token_ids) > len(p.token_ids) or j > i)
            for j, other in enumerate(prompts)
        )
    )
    assert tokens(share(prompts, 1)) == distinct_beginnings(prompts) + again


@given(PROMPTS)
def test_leaves_and_children_stand_shortest_first(prompts: list[Prompt]) -> None:
    for node in walk(share(prompts, 1)):
        for sizes in (
            [len(leaf.ids) for leaf in node.leaves],
            [len(child.ids) for child in node.children],
        ):
            assert sizes == sorted(sizes)


def test_a_growing_document_is_a_chain_with_its_questions_beside_it() -> None:
    document = tuple(range(100, 164))
    prompts = [prompt_of((*document[:end], 7, end)) for end in (16, 32, 64)]
    prompts += [prompt_of((*document[:end], 8, end)) for end in (16, 32, 64)]
    node = share(prompts)
    for begin, end in ((0, 16), (16, 32), (32, 64)):
        assert node.ids == document[begin:end]
        assert [leaf.ids for leaf in node.leaves] == [(7, end), (8, end)]
        node = node.children[0] if node.children else node
    assert tokens(share(prompts)) == 64 + 6 * 2


def test_a_chain_of_thousands_of_beginnings_needs_no_deep_recursion() -> None:
    prompts = [prompt_of((*range(end), -1)) for end in range(1, 3000)]
    assert tokens(share(prompts, 1)) == 2 * 2999


@pytest.mark.parametrize(
    ("ids", "smallest", "said"), [((1,), 0, "at least 1"), ((), 1, "without tokens")]
)
def test_what_cannot_be_folded_is_refused(ids: tuple[int, ...], smallest: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        share([prompt_of(ids)], smallest)


def test_no_prompts_are_an_empty_tree() -> None:
    assert share([]) == Node((), (), ())
    assert tokens(share([])) == 0
