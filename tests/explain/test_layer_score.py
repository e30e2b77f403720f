"""Every layer scored on judged pairs: the numbers are those of words put through one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats

from ropewalk.errors import UsageError
from ropewalk.explain.layer_score import ALONE, layer_scores
from ropewalk.explain.occurrences import Pieces
from ropewalk.tables.score.datasets import JudgedPair, PairSet

WORDS = ["river", "road", "dog", "the", "garden", "letter", "window"]
PAIRS = PairSet(
    "some",
    "some.txt",
    tuple(
        JudgedPair(one, other, float(i * 7 % 11))
        for i, (one, other) in enumerate(
            (a, b) for k, a in enumerate(WORDS) for b in WORDS[k + 1 :]
        )
    ),
)


@pytest.mark.parametrize("frame", [ALONE, "The word {} is meant"])
def test_layers_have_the_scores_of_words_put_through_one_by_one(
    tiny_model: Any, tiny_tokenizer: Any, frame: str
) -> None:
    model, tokenizer = tiny_model("llama").model, tiny_tokenizer("bos")
    found = layer_scores(model, tokenizer, [PAIRS], name="tiny", frame=frame)
    vectors: dict[str, list[torch.Tensor]] = {}
    before = frame.split("{}")[0]
    for word in WORDS:
        text = frame.replace("{}", word)
        made = tokenizer(text, return_offsets_mapping=True)
        places = [
            i
            for i, (a, b) in enumerate(made["offset_mapping"])
            if a < len(before) + len(word) and b > len(before)
        ]
        with torch.inference_mode():
            out = model(torch.tensor([made["input_ids"]]), output_hidden_states=True)
        rows = model.embed_tokens.weight[made["input_ids"]]
        # transformers leaves out the last block's own output.
        states = [rows, *(h[0] for h in out.hidden_states)]
        vectors[word] = [s[places].double().mean(dim=0) for s in states]
    kept = [layer for layer in found.layers if layer.name != "block 4"]
    assert [layer.name for layer in found.layers][-2:] == ["block 4", "final norm"]
    for number, layer in enumerate(kept):
        cosines = [
            float(torch.cosine_similarity(vectors[p.one][number], vectors[p.other][number], dim=0))
            for p in PAIRS.pairs
        ]
        judged = [p.judged for p in PAIRS.pairs]
        assert layer.scores[0].pearson == pytest.approx(
            stats.pearsonr(judged, cosines)[0], abs=1e-5
        )
        assert layer.scores[0].used == len(PAIRS.pairs)


def test_the_mean_is_taken_off_all_words(tiny_model: Any, tiny_tokenizer: Any) -> None:
    model, tokenizer = tiny_model("llama").model, tiny_tokenizer("bos")
    found = layer_scores(model, tokenizer, [PAIRS], name="tiny", frame=ALONE, pieces=Pieces.LAST)
    rows = torch.stack(
        [model.embed_tokens.weight[tokenizer(word)["input_ids"][-1]].double() for word in WORDS]
    )
    rows = rows - rows.mean(dim=0)
    at = {word: i for i, word in enumerate(WORDS)}
    cosines = [
        float(torch.cosine_similarity(rows[at[p.one]], rows[at[p.other]], dim=0))
        for p in PAIRS.pairs
    ]
    expected = stats.pearsonr([p.judged for p in PAIRS.pairs], cosines)[0]
    assert found.layers[0].centred[0].pearson == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("frame", ["", "no place", "{} and {}"])
def test_a_frame_holds_one_place(tiny_model: Any, tiny_tokenizer: Any, frame: str) -> None:
    with pytest.raises(UsageError, match=r"holds \{\} once"):
        layer_scores(
            tiny_model("llama").model, tiny_tokenizer("bos"), [PAIRS], name="tiny", frame=frame
        )
