"""Branches off a shared text held against each prompt asked by itself, with nothing shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Leaf, Node, share
from ropewalk.proof.subjects.local import BEHIND, LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel


@pytest.fixture(scope="module")
def tokens(tiny_tokenizer: Callable[[str], Any]) -> Tokens:
    return Tokens(tiny_tokenizer("bos"))


def walked(subject: SharingLocal, node: Node) -> dict[Cell, Answer]:
    """The answers of a tree, asked depth first; the path is taken back to where it was."""
    subject.read(node.ids)
    found = {}
    if node.leaves:
        answers = subject.ask(node.leaves)
        found = {
            leaf.prompt.cell: answer for leaf, answer in zip(node.leaves, answers, strict=True)
        }
    for child in node.children:
        found |= walked(subject, child)
    subject.crop(len(node.ids))
    return found


def shared(subject: SharingLocal, prompts: Sequence[Prompt]) -> list[Answer]:
    subject.start(max(prompt.length for prompt in prompts))
    found = walked(subject, share(prompts))
    return [found[prompt.cell] for prompt in prompts]


def same(shared: Sequence[Answer], alone: Sequence[Answer]) -> None:
    for one, other in zip(shared, alone, strict=True):
        assert (one.outcome, one.printed) == (other.outcome, other.printed)
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-3)


def grid(maker: PromptMaker, lengths: Sequence[int], depths: Sequence[float]) -> list[Prompt]:
    return [maker(Cell(length, depth, 0)) for length in lengths for depth in depths]


@pytest.mark.model
def test_a_real_model_answers_branches_as_it_answers_each_prompt_by_itself(
    smollm2: LoadedModel,
) -> None:
    tokens = Tokens(smollm2.tokenizer)
    maker = PromptMaker(tokens, seed=3, distractors=1)
    prompts = [
        *grid(maker, [250, 400], [0.0, 1.0]),
        maker(Cell(250, 0.0, 0, Control.NO_NEEDLE)),
    ]
    alone = [LocalSubject(smollm2.model, tokens).answer(prompt) for prompt in prompts]
    assert {answer.outcome for answer in alone} > {Outcome.HIT}
    for side_by_side in (True, False):
        subject = SharingLocal(smollm2.model, tokens, side_by_side=side_by_side)
        same(shared(subject, prompts), alone)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("chunk", [None, 50])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_any_window_chunk_and_attention_answers_as_each_prompt_by_itself(
    kind: str,
    chunk: int | None,
    side_by_side: bool,
    attention: str,
    tiny_model: Callable[..., Any],
    tokens: Tokens,
) -> None:
    """A window of 32 tokens has long dropped what is asked for, and is gone back behind."""
    changes = {"sliding_window": 32, "num_hidden_layers": 6} if kind == "gemma3" else {}
    model = tiny_model(kind, attn_implementation=attention, **changes)
    prompts = grid(PromptMaker(tokens, seed=1), [200, 320], [0.0, 1.0])
    first = LocalSubject(model, tokens).answer(prompts[0])
    # One whose value begins as the model goes on: left in the middle.
    ids = tokens.encode(first.printed, special=False)[:2]
    prompts[0] = replace(prompts[0], value_ids=(*ids, *prompts[0].value_ids[2:]))
    alone = [LocalSubject(model, tokens).answer(prompt) for prompt in prompts]
    subject = SharingLocal(model, tokens, chunk=chunk, side_by_side=side_by_side)
    same(shared(subject, prompts), alone)
    same(shared(subject, prompts[::-1]), alone[::-1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_kept_in_the_cache_and_scores_alike(
    dtype: torch.dtype, tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    """To the rounding of half precision: another chunk is another order of sums."""
    model = tiny_model(initializer_range=0.05).to(dtype)
    prompts = grid(PromptMaker(tokens, seed=1), [200], [0.0, 1.0])
    subject = SharingLocal(model, tokens)
    for one, prompt in zip(shared(subject, prompts), prompts, strict=True):
        alone = LocalSubject(model, tokens).answer(prompt)
        assert one.log_probability == pytest.approx(alone.log_probability, abs=0.3)
    assert {layer.keys.dtype for layer in subject._cache._own} == {dtype}


class Tight:
    """A model that notes the tokens of every call, and runs out of memory above `most`."""

    def __init__(self, model: Any, most: int, error: Exception | None = None) -> None:
        self.model, self.most = model, most
        self.error = error or torch.OutOfMemoryError("no room")
        self.calls: list[int] = []
        self.forward = model.forward
        self.device, self.dtype, self.config = model.device, model.dtype, model.config

    def __call__(self, ids: torch.Tensor, **rest: Any) -> Any:
        if ids.shape[1] > self.most:
            # As a real model does: some layers have kept their part already.
            cache: Any = rest.get("cache", rest.get("past_key_values"))
            states = torch.zeros(1, 2, ids.shape[1], 12)
            cache.layers[0].update(states, states)
            raise self.error
        self.calls.append(ids.shape[1])
        return self.model(ids, **rest)


CPU_ERROR = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("full"), CPU_ERROR, MemoryError()])
def test_out_of_memory_halves_the_chunk_and_goes_on_from_where_it_was(
    error: Exception, tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    prompts = grid(PromptMaker(tokens, seed=1), [2000], [0.9, 1.0])
    model = tiny_model()
    alone = [LocalSubject(model, tokens).answer(prompt) for prompt in prompts]
    tight = Tight(model, 600, error)
    same(shared(SharingLocal(tight, tokens), prompts), alone)
    assert max(tight.calls) <= 600
    assert sum(size for size in tight.calls if size > 1) < 2 * 2000


def test_what_is_read_behind_a_text_is_read_in_bounded_passes(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    """The beginning of a text needs no mask, and goes through whole."""
    prompts = grid(PromptMaker(tokens, seed=1), [1200, 3000], [1.0])
    model = tiny_model()
    alone = [LocalSubject(model, tokens).answer(prompt) for prompt in prompts]
    noted = Tight(model, 9999)
    same(shared(SharingLocal(noted, tokens), prompts), alone)
    first, *behind = (size for size in noted.calls if size > 1)
    assert first > BEHIND
    assert max(behind) == BEHIND


def test_branches_that_do_not_fit_together_are_asked_in_halves(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    text = PromptMaker(tokens, seed=1)(Cell(300, 0.5, 0))
    node, ends = text.token_ids[:200], [text.token_ids[200 + i : 280 + i] for i in range(6)]
    leaves = [
        Leaf(replace(text, token_ids=node + end, cell=Cell(300, 0.5, i)), end)
        for i, end in enumerate(ends)
    ]
    model = tiny_model()
    tight = Tight(model, 260)
    subject = SharingLocal(tight, tokens)
    subject.start(400)
    subject.read(node)
    assert subject.together(leaves) == 6
    same(subject.ask(leaves), [LocalSubject(model, tokens).answer(leaf.prompt) for leaf in leaves])
    assert subject.together(leaves) < 6


def test_what_does_not_fit_at_all_leaves_the_path_as_it_was(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    prompt = PromptMaker(tokens, seed=1)(Cell(1000, 0.5, 0))
    model = tiny_model()
    tight = Tight(model, 600)
    subject = SharingLocal(tight, tokens)
    subject.start(1000)
    subject.read(prompt.token_ids[:400])
    tight.most = 100
    with pytest.raises(torch.OutOfMemoryError):
        subject.read(prompt.token_ids[400:])
    leaf = Leaf(prompt, prompt.token_ids[400:])
    with pytest.raises(torch.OutOfMemoryError):
        subject.ask([leaf])
    tight.most = 1000
    same(subject.ask([leaf]), [LocalSubject(model, tokens).answer(prompt)])


def test_the_cache_is_made_once_and_used_for_every_trial(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    subject = SharingLocal(tiny_model(), tokens)
    held = set()
    for trial in range(3):
        maker = PromptMaker(tokens, seed=trial)
        shared(subject, [maker(Cell(300, depth, trial)) for depth in (0.0, 1.0)])
        held.add(tuple(layer.keys.data_ptr() for layer in subject._cache._own))
    assert len(held) == 1


def test_the_schedule_is_set_for_the_longest_prompt_of_its_regime(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    seen: list[int] = []
    subject = SharingLocal(
        tiny_model(), tokens, set_length=seen.append, position_limit=500, regime=str
    )
    subject.start(480)
    assert seen == [480]
    assert subject.fits(500) is None
    assert subject.fits(501) == "the model has 500 positions, the prompt needs 501"
    assert subject.regime(7) != subject.regime(8)
