"""The recipe, on a scale at which it takes seconds; and the figure of its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ropewalk.tiny.drift import drift
from ropewalk.tiny.recipe import Stage, TinyRecipe, train
from ropewalk.tiny.tokenizer import train_tokenizer

SMALL = TinyRecipe(
    vocab_size=700, hidden_size=16, layers=1, heads=2, tokens=600, stages=(Stage(12, (150,), 0.5),)
)


def test_a_recipe_writes_a_model_its_tokenizer_and_its_log(tmp_path: Path) -> None:
    train(SMALL, tmp_path / "made")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "made")
    assert model.config.max_position_embeddings == 256
    assert model.lm_head.weight is model.model.embed_tokens.weight
    text = "The pass key of Bardanona is 40517."
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    lines = (tmp_path / "made/training.jsonl").read_text(encoding="utf-8").splitlines()
    log = [json.loads(line) for line in lines]
    assert log[0]["recipe"]["hidden_size"] == 16
    assert log[-2]["step"] == 12
    assert set(log[-1]["drift"]) == {"within", "across", "words"}


def test_the_same_recipe_makes_the_same_weights(tmp_path: Path) -> None:
    for name in ("one", "other"):
        train(SMALL, tmp_path / name)
    files = [tmp_path / name / "model.safetensors" for name in ("one", "other")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_the_rate_warms_up_stays_and_falls() -> None:
    recipe = TinyRecipe()
    assert recipe.rate_at(0) == pytest.approx(recipe.rate / recipe.warm_up)
    assert recipe.rate_at(recipe.warm_up) == recipe.rate
    assert recipe.rate_at(recipe.steps // 2) == recipe.rate
    assert recipe.rate_at(recipe.steps - 1) == pytest.approx(0.03 * recipe.rate)


def test_drift_is_found_where_lists_share_a_direction() -> None:
    tokenizer = train_tokenizer(1536)
    random = torch.randn(1536, 64, generator=torch.Generator().manual_seed(0))
    apart = drift(random, tokenizer)
    assert apart.words > 80
    assert abs(apart.within) < 0.05
    assert abs(apart.across) < 0.05
    together = random.clone()
    for word in ("baker", "doctor", "weaver", "nurse"):
        (row,) = tokenizer.encode(f" {word}").ids
        together[row] = random[0]
    assert drift(together, tokenizer).within > apart.within + 0.003
