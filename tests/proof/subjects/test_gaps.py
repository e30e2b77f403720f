"""Needles in gaps held against one pass of the model over all tokens, under a mask made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from ropewalk.proof.branching import Branching
from ropewalk.proof.cells import Answer, Cell, Control, Outcome, Prompt
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.stops import haystacks, stops
from ropewalk.proof.subjects.local import LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens

LENGTHS, DEPTHS = (220, 330), (0.0, 0.3, 0.6, 1.0)
WINDOW = 48


@pytest.fixture(scope="module")
def tokens(tiny_tokenizer: Callable[[str], Any]) -> Tokens:
    return Tokens(tiny_tokenizer("bos"))


def placed(prompt: Prompt) -> Iterator[tuple[int, int, str]]:
    """(token, position id, part) of a whole prompt and its value, in the order of the haystack."""
    branch = prompt.branch
    assert branch is not None
    position = 0
    for index, token in enumerate(branch.haystack.token_ids[: branch.cut]):
        if index == branch.at:
            own = prompt.token_ids[index : index + branch.size]
            yield from ((t, position + n, "needle") for n, t in enumerate(own))
        # As many gaps as stand here, empty ones too.
        position += branch.haystack.size * branch.haystack.gaps.count(index)
        yield token, position, "text"
        position += 1
    for token in (*prompt.asking, *prompt.value_ids):
        yield token, position, "asked"
        position += 1


def added(seen: torch.Tensor) -> torch.Tensor:
    """A mask as what is added to scores, which every kind of attention takes."""
    nothing = torch.zeros(seen.shape)
    return nothing.masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]


def at_once(model: Any, prompt: Prompt) -> float:
    """The value's log-probability by one pass without a cache."""
    parts = list(placed(prompt))
    ids = torch.tensor([[token for token, _, _ in parts]])
    places = torch.tensor([place for _, place, _ in parts])
    needle = torch.tensor([part == "needle" for _, _, part in parts])
    text = torch.tensor([part == "text" for _, _, part in parts])
    seen = places[None] <= places[:, None]
    # What goes on behind the gap was read without the needle.
    seen &= ~(text[:, None] & needle[None])
    config = model.config
    masks = {"full_attention": added(seen)}
    window = getattr(config, "sliding_window", None)
    if window:
        masks["sliding_attention"] = added(seen & (places[None] > places[:, None] - window))
    mixed = len(set(getattr(config, "layer_types", None) or ())) > 1
    given: Any = masks if mixed else masks["full_attention"]
    with torch.inference_mode():
        logits = model(ids, attention_mask=given, position_ids=places[None], use_cache=False).logits
    scores = logits[0].double().log_softmax(-1)
    start = len(parts) - len(prompt.value_ids)
    return sum(float(scores[start + i - 1, t]) for i, t in enumerate(prompt.value_ids))


def branches(model: Any, tokens: Tokens, prompts: Sequence[Prompt]) -> dict[Cell, Answer]:
    subject = Branching(SharingLocal(model, tokens))
    return {each.prompt.cell: each.answer for each in subject.ask([prompts], lambda *_: True)}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_every_branch_scores_as_one_pass_under_its_own_mask(
    kind: str, attention: str, tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    """With windows shorter than the distance to most needles, and gaps that count in them."""
    changes = {"sliding_window": WINDOW, "num_hidden_layers": 6} if kind == "gemma3" else {}
    model = tiny_model(kind, attn_implementation=attention, initializer_range=0.1, **changes)
    make = GappedMaker(PromptMaker(tokens, 5), LENGTHS, DEPTHS)
    cells = [Cell(length, depth, 0) for length in LENGTHS for depth in DEPTHS]
    prompts = [make(cell) for cell in [*cells, Cell(LENGTHS[0], 0.0, 0, Control.NO_NEEDLE)]]
    assert len({prompt.branch.haystack for prompt in prompts if prompt.branch}) > 1
    found = branches(model, tokens, prompts)
    assert len(found) == len(prompts)
    for prompt in prompts:
        score = found[prompt.cell].log_probability
        assert score == pytest.approx(at_once(model, prompt), abs=2e-3), prompt.cell


def test_a_needle_is_seen_by_its_own_question_and_by_no_other(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    model = tiny_model("llama", initializer_range=0.1)
    make = GappedMaker(PromptMaker(tokens, 5), LENGTHS, DEPTHS)
    prompts = [make(Cell(330, depth, 0)) for depth in DEPTHS]
    together = branches(model, tokens, prompts)
    for prompt in prompts:
        (one,) = branches(model, tokens, [prompt]).values()
        assert together[prompt.cell].log_probability == pytest.approx(one.log_probability, abs=1e-3)


def test_the_haystack_is_read_once_and_stops_where_a_needle_or_a_question_is(
    tiny_model: Callable[..., Any], tokens: Tokens
) -> None:
    make = GappedMaker(PromptMaker(tokens, 5), (400, 700), (0.0, 0.5))
    prompts = [make(Cell(length, depth, 0)) for length in (400, 700) for depth in (0.0, 0.5)]
    subject = Branching(SharingLocal(tiny_model("llama"), tokens))
    read = sum(each.read for each in subject.ask([prompts], lambda *_: True))
    once = 0
    for group in haystacks(prompts):
        once += stops(group)[-1].at
        cuts = {stop.at for stop in stops(group) if stop.asked}
        for each in group:
            cut = max(at for at in cuts if at <= each.branch.cut)
            once += each.branch.size + len(each.asking(cut))
    assert read == once


@pytest.mark.model
def test_a_real_model_finds_what_it_finds_by_prompts_of_their_own(smollm2: Any) -> None:
    tokens = Tokens(smollm2.tokenizer)
    make = GappedMaker(PromptMaker(tokens, 3), (400,), (0.0, 0.5, 1.0))
    cells = [Cell(400, depth, 0) for depth in (0.0, 0.5, 1.0)]
    found = branches(smollm2.model, tokens, [make(cell) for cell in cells])
    alone = LocalSubject(smollm2.model, tokens)
    for cell in cells:
        answer = alone.answer(make.independent(cell))
        assert found[cell].outcome is answer.outcome is Outcome.HIT
        assert found[cell].log_probability == pytest.approx(answer.log_probability, abs=0.3)
