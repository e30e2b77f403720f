"""A whole measurement of loss, from a folder or file to its page: how windows begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import LengthError
from ropewalk.proof.loss_run import LossSettings, generated, measure
from ropewalk.proof.tokens import Tokens
from ropewalk.report import document_of, terminal, to_dict

Model = Callable[..., Any]
Tokenizer = Callable[[str], Any]
OPENINGS = {"bare": [], "bos": [0], "bos-eos": [0], "metaspace": [0]}
LENGTH, WINDOW, STRIDE = 150, 40, 16


def _checkpoint(folder: Path, model: Model, tokenizer: Any, **changes: Any) -> Path:
    model(num_hidden_layers=2, max_position_embeddings=512, **changes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _settings(model: Path, **changes: Any) -> LossSettings:
    usual: dict[str, Any] = {"length": LENGTH, "window": WINDOW, "stride": STRIDE, "device": "cpu"}
    return LossSettings(str(model), **(usual | changes))


def _plain(folder: Path, opening: list[int], text: list[int], stride: int) -> list[float]:
    """transformers alone: windows of the opening and the text, each token scored once."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    room = WINDOW - len(opening)
    found: list[float] = []
    end = 0
    while end < len(text):
        scored, end = end, min(end + stride, len(text)) if end else min(room, len(text))
        ids = torch.tensor([[*opening, *text[max(0, end - room) : end]]])
        with torch.no_grad():
            scores = model(input_ids=ids, use_cache=False).logits[0, :-1]
        lost = torch.nn.functional.cross_entropy(scores, ids[0, 1:], reduction="none").tolist()
        found += lost[scored - end :] if scored else lost
    return found


@pytest.mark.parametrize("kind", list(OPENINGS))
def test_every_window_begins_as_the_tokenizer_begins_a_text(
    tiny_model: Model, tiny_tokenizer: Tokenizer, tmp_path: Path, kind: str
) -> None:
    tokenizer, opening = tiny_tokenizer(kind), OPENINGS[kind]
    folder = _checkpoint(tmp_path / "tiny", tiny_model, tokenizer)
    assert Tokens(tokenizer).opening == tuple(opening)
    found = measure(_settings(folder))
    text = generated(Tokens(tokenizer), LENGTH - len(opening), "0/loss")
    assert text == tokenizer(_text(), add_special_tokens=False)["input_ids"][: len(text)]
    full, sliding, apart = found.evaluations
    most = WINDOW - 1
    for each, stride in ((sliding, STRIDE), (apart, most)):
        assert each.losses == pytest.approx(_plain(folder, opening, text, stride), abs=1e-5)
    assert full.window == found.tokens == LENGTH
    said = " ".join(terminal(document_of(found)).split())
    scored = f"The first scores {most}, the sliding ones behind it {STRIDE} each"
    if opening:
        begins = f"begins with <s>, as the tokenizer begins a text, and holds {WINDOW - 1} tokens"
        assert f"{begins} of the text. {scored}" in said
    else:
        assert f"puts nothing before one. {scored}" in said
    assert to_dict(found)["opening"] == (("<s>",) if opening else ())


def _text() -> str:
    from random import Random

    from ropewalk.proof.haystack import GeneratedHaystack

    sentences = GeneratedHaystack(Random("0/loss")).sentences()
    return " ".join(next(sentences) for _ in range(60))


def test_a_text_of_the_users_own_counts_its_opening_once(
    tiny_model: Model, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    tokenizer = tiny_tokenizer("bos-eos")
    folder = _checkpoint(tmp_path / "tiny", tiny_model, tokenizer)
    file = tmp_path / "text.txt"
    file.write_text(_text())
    ids = tokenizer(_text(), add_special_tokens=False)["input_ids"]
    found = measure(_settings(folder, text=file, length=len(ids) + 1))
    sliding = found.evaluations[1]
    assert sliding.losses == pytest.approx(_plain(folder, [0], ids, STRIDE), abs=1e-5)
    with pytest.raises(
        LengthError, match=f"has {len(ids) + 1:,} tokens, .*--length {len(ids) + 1},"
    ):
        measure(_settings(folder, text=file, length=len(ids) + 2))
