"""Short text before and after: in windows that begin as the model was trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.extension.tune.gate import TOKENS, Gate, ShortText
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.proof.haystack import GeneratedHaystack


@pytest.mark.parametrize(("kind", "opening"), [("bos-eos", [0]), ("bos", [0]), ("bare", [])])
@pytest.mark.parametrize("own", [True, False])
def test_every_window_of_short_text_begins_as_the_tokenizer_begins_a_text(
    checkpoint: Path,
    tiny_tokenizer: Callable[[str], Any],
    tmp_path: Path,
    kind: str,
    opening: list[int],
    own: bool,
) -> None:
    from random import Random

    from transformers import AutoModelForCausalLM

    tokenizer = tiny_tokenizer(kind)
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    file = tmp_path / "short.txt"
    sentences = GeneratedHaystack(Random(5)).sentences()
    file.write_text(" ".join(next(sentences) for _ in range(30)))
    text = ShortText.of(tokenizer, file if own else None, 60)
    if own:
        assert list(text.ids) == tokenizer(file.read_text(), add_special_tokens=False)["input_ids"]
    else:
        assert len(text.ids) == TOKENS
        text = ShortText(text.name, text.ids[:300], text.window, text.opening, text.begins)
    found = text.losses(model, read_spec(resolve(str(checkpoint))))
    expected: list[float] = []
    done, ids, room = 0, list(text.ids), 60 - len(opening)
    while done < len(ids):
        # Without an opening a window keeps the last token of the one before, to score the next by.
        end = min(done + room - (not opening and done > 0), len(ids))
        window = torch.tensor([[*opening, *ids[max(0, end - room) : end]]])
        with torch.no_grad():
            scores = model(input_ids=window, use_cache=False).logits[0, :-1]
        lost = torch.nn.functional.cross_entropy(scores, window[0, 1:], reduction="none").tolist()
        expected += lost[done - end :] if done else lost
        done = end
    assert found == pytest.approx(tuple(expected), abs=1e-5)
    assert len(found) == len(ids) - (not opening)
    said = Gate.of(text, found, found, None).sentence
    assert ("windows of 60, each begun with <s>)" in said) == bool(opening)
