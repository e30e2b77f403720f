from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from ropewalk.errors import LengthError, ModelFileError
from ropewalk.proof.tokens import Tokens, shared_start

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel

KINDS = ["bare", "bos", "bos-eos", "metaspace"]
SENTENCES = [
    "Nobody in Terelton noticed that the map near the dock was missing.",
    "It rained.",
    "Brilk sold 12 boxes, or so they say!",
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_before_a_text_are_kept_and_those_after_it_are_not(
    tiny_tokenizer: Callable[[str], Any], kind: str
) -> None:
    tokenizer = tiny_tokenizer(kind)
    tokens = Tokens(tokenizer)
    bare = tokenizer("It rained.", add_special_tokens=False)["input_ids"]
    assert tokens.encode("It rained.", special=False) == bare
    before = [] if kind == "bare" else [tokenizer.bos_token_id]
    assert tokens.encode("It rained.") == [*before, *bare]
    assert tokens.end_ids == {tokenizer.eos_token_id}


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokens_of_a_sentence_inside_a_text_add_up(
    tiny_tokenizer: Callable[[str], Any], kind: str
) -> None:
    tokens = Tokens(tiny_tokenizer(kind))
    text = "Snow fell."
    alone = len(tokens.encode(text))
    whole = tokens.encode(" ".join([text, *SENTENCES]))
    assert len(whole) == alone + sum(map(tokens.inner, SENTENCES))


@pytest.mark.parametrize("kind", KINDS)
def test_a_continuation_is_what_the_value_adds(
    tiny_tokenizer: Callable[[str], Any], kind: str
) -> None:
    tokens = Tokens(tiny_tokenizer(kind))
    text = "Answer: The pass key of Barcora is"
    added = tokens.continuation(text, " 40718", special=True)
    assert [*tokens.encode(text), *added] == tokens.encode(f"{text} 40718")
    assert tokens.decode(list(added)).strip() == "40718"


def test_a_value_that_merges_with_the_text_before_it_is_refused(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    tokens = Tokens(tiny_tokenizer("bare"))
    assert len(tokens.encode("The")) == 1
    with pytest.raises(LengthError, match="merges 'e' into the text before it"):
        tokens.continuation("Th", "e", special=True)


def test_a_tokenizer_without_a_template_cannot_chat(tiny_tokenizer: Callable[[str], Any]) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer("bos"))
    tokenizer.chat_template = None
    with pytest.raises(ModelFileError, match="no chat template; leave out --chat"):
        Tokens(tokenizer).chat("hello")


@pytest.mark.model
def test_a_models_own_template_is_used(smollm2: LoadedModel) -> None:
    assert (
        Tokens(smollm2.tokenizer)
        .chat("Say ho.")
        .endswith("<|im_start|>user\nSay ho.<|im_end|>\n<|im_start|>assistant\n")
    )


def test_a_template_that_prints_the_date_prints_the_same_one_every_day(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    tokenizer = copy.deepcopy(tiny_tokenizer("bos"))
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}: {{ messages[0].content }}"
    assert Tokens(tokenizer).chat("ho") == "01 Jan 2025: ho"


def test_the_fingerprint_follows_whatever_changes_ids_or_template(
    tiny_tokenizer: Callable[[str], Any],
) -> None:
    prints = {Tokens(tiny_tokenizer(kind)).fingerprint() for kind in KINDS}
    other = copy.deepcopy(tiny_tokenizer("bos"))
    other.chat_template = "another {{ messages[0].content }}"
    prints.add(Tokens(other).fingerprint())
    assert len(prints) == len(KINDS) + 1
    assert Tokens(other).fingerprint() == Tokens(copy.deepcopy(other)).fingerprint()


def test_the_shared_start_of_two_sequences() -> None:
    assert shared_start([1, 2, 3], [1, 2, 4]) == 2
    assert shared_start([1, 2], (1, 2, 4)) == 2
    assert shared_start([], [1]) == 0
