"""Prompts with a gap in their positions, against the model asked for each gap by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ModelFileError
from ropewalk.extension.skip import PROMPT, SECOND, SkipProbe
from ropewalk.proof.cells import Cell
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.spec import PositionSpec

TARGET = 5000
DEPTHS = (0.0, 0.5)


@pytest.fixture
def maker(tiny_tokenizer: Callable[[str], Any]) -> PromptMaker:
    return PromptMaker(Tokens(tiny_tokenizer("bos")), 5)


def spec_of(model: Any) -> PositionSpec:
    return read_config(json.loads(model.config.to_json_string()))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_gap_is_scored_as_if_it_were_asked_alone(
    tiny_model: Callable[..., Any], maker: PromptMaker, attention: str
) -> None:
    model = tiny_model()
    model.set_attn_implementation(attention)
    found = SkipProbe(model, maker, spec_of(model), TARGET, DEPTHS)([2])
    prompt = maker(Cell(PROMPT, 0.3, 2))
    ids = torch.tensor([[*prompt.token_ids, *prompt.value_ids]])
    before, count = len(prompt.token_ids), len(prompt.value_ids)
    distance = prompt.length - prompt.needle_start
    for gap, wanted in zip(found, (None, 0.0, 0.5), strict=True):
        assert (gap.trial, gap.depth) == (2, wanted)
        skipped = 0
        if wanted is not None:
            skipped = min(round((1 - wanted) * TARGET) - distance, TARGET - prompt.length)
        places = torch.arange(ids.shape[1])
        places[before - SECOND :] += skipped
        logits = model(ids, position_ids=places[None]).logits[0, before - 1 : -1]
        told = logits.log_softmax(-1).gather(1, ids[0, before:, None])
        assert gap.log_probability == pytest.approx(float(told.sum()), abs=1e-3)
    assert len({round(gap.log_probability, 2) for gap in found}) == 3
    assert count >= 1


def test_the_farthest_needle_is_as_far_as_the_long_prompt_allows(
    tiny_model: Callable[..., Any], maker: PromptMaker
) -> None:
    model = tiny_model()
    seen: list[torch.Tensor] = []
    hook = model.register_forward_pre_hook(
        lambda _m, _a, named: seen.append(named["position_ids"]), with_kwargs=True
    )
    SkipProbe(model, maker, spec_of(model), TARGET, DEPTHS)([0])
    hook.remove()
    # The question ends where the prompt of the full length ends: the last token is its answer's.
    assert TARGET - 16 < int(seen[0].max()) < TARGET


def test_a_model_that_would_see_over_the_gap_is_refused(
    tiny_model: Callable[..., Any], maker: PromptMaker
) -> None:
    model = tiny_model("gemma3", sliding_window=64)
    with pytest.raises(ModelFileError, match="see a window only"):
        SkipProbe(model, maker, spec_of(model), TARGET)
