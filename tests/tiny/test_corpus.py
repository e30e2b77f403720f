"""What the embedded model reads: exact lengths, and answers that stand in the text."""

from __future__ import annotations

from random import Random

import pytest
from tokenizers import Tokenizer

from ropewalk.tiny.corpus import ANSWER_WEIGHT, Corpus
from ropewalk.tiny.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(1536)


@pytest.fixture
def corpus(tokenizer: Tokenizer) -> Corpus:
    return Corpus(tokenizer, Random(5))


@pytest.mark.parametrize("pass_keys", [True, False])
@pytest.mark.parametrize("length", [128, 200, 256])
def test_documents_have_the_length_and_every_answer_stands_earlier_in_the_text(
    corpus: Corpus, length: int, pass_keys: bool
) -> None:
    for _ in range(20):
        example = corpus.document(length, pass_keys)
        assert len(example.ids) == len(example.weights) == length
        answer: list[int] = []
        answers = 0
        for at, weight in enumerate([*example.weights, 0.0]):
            if weight == ANSWER_WEIGHT:
                answer.append(example.ids[at])
            elif answer:
                answers += 1
                value = corpus.tokenizer.decode(answer).strip()
                begin = at - len(answer)
                text = corpus.tokenizer.decode(example.ids[:begin])
                assert f" {value}" in text
                answer = []
        assert answers >= 1


def test_numbers_are_cut_into_digits_and_any_text_survives(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode(" 90210").tokens == ["Ġ", "9", "0", "2", "1", "0"]
    for text in ("The pass key of Bardanona is 40517.", "naïve 漢字 🪢\n\ttab"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_same_seed_gives_the_same_documents(tokenizer: Tokenizer) -> None:
    one, other = (Corpus(tokenizer, Random(9)) for _ in range(2))
    assert one.document(180, False) == other.document(180, False)


def test_a_length_that_holds_no_question_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ValueError, match="40 tokens cannot hold"):
        corpus.document(40, True)
