"""Counting by the server's own tokenizer, and without any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk.models.tokenizer import load_tokenizer
from ropewalk.proof.cells import Cell
from ropewalk.proof.endpoint.client import Client
from ropewalk.proof.endpoint.counting import Counting
from ropewalk.proof.endpoint.policy import RequestGate
from ropewalk.proof.endpoint.subject import ServedPrompts
from ropewalk.proof.endpoint.tokenizers import Estimate, ServerTokenizer
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.tokens import Tokens

TEXTS = ["Hello world", " 12345.\n\nQuestion:", "naïve 東京 \t\n", "The pass key of Torn is 98909."]


@pytest.mark.model
def test_the_servers_tokenizer_gives_transformers_ids_and_so_the_same_prompts(
    llama: str, smollm2: Any
) -> None:
    found = ServerTokenizer.find(Client(llama, RequestGate()), "smol")
    assert found is not None
    theirs, ours = Tokens(found), Tokens(smollm2.tokenizer)
    for text in TEXTS:
        assert theirs.encode(text) == ours.encode(text)
        assert theirs.decode(theirs.encode(text)).strip() == text.strip()
    assert theirs.chat("Say x.") == ours.chat("Say x.")
    cell = Cell(160, 0.5, 3)
    assert PromptMaker(theirs)(cell) == PromptMaker(ours)(cell)


def test_a_tokenizer_is_loaded_without_its_models_weights(
    tmp_path: Path, tiny_tokenizer: Any
) -> None:
    tiny_tokenizer("bos").save_pretrained(tmp_path)
    loaded = load_tokenizer(str(tmp_path))
    for text in TEXTS:
        assert loaded(text)["input_ids"] == tiny_tokenizer("bos")(text)["input_ids"]


def test_an_estimate_loses_no_text_and_is_the_same_on_every_machine() -> None:
    estimate = Estimate()
    for text in TEXTS:
        assert estimate.decode(estimate(text)["input_ids"]) == text
    # By coreutils: printf " pass" | b2sum -l 48
    assert estimate(" pass")["input_ids"] == [0x4EED1D3F3036]
    assert len(estimate("The pass key of Torn is 98909.")["input_ids"]) == 12


@pytest.mark.parametrize(("added", "ratio"), [(0.0, 1.0), (31.0, 1.0), (12.3, 0.84), (5.0, 1.37)])
def test_prompts_of_a_server_that_counts_otherwise_have_its_lengths(
    added: float, ratio: float, tiny_tokenizer: Any
) -> None:
    counting = Counting(added, ratio, exact=ratio == 1)
    maker = PromptMaker(Tokens(tiny_tokenizer("bare")))
    served = ServedPrompts(maker, counting)
    for length in (400, 1000):
        prompt = served(Cell(length, 0.5, 0))
        assert prompt.cell.length == length
        counted = added + ratio * prompt.length
        # Never longer, and shorter by what the shortest sentence takes at most.
        assert length - 5 * max(1, ratio) <= counted <= length + 0.5
