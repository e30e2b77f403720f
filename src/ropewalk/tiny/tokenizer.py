"""A small byte-level tokenizer, trained on the texts that the model will read.

Digits are single tokens, so that a number is copied digit by digit and none is a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import TYPE_CHECKING

from ropewalk.proof.haystack import GeneratedHaystack
from ropewalk.proof.needles import FACTS_FOLLOW, draw_facts, draw_needle
from ropewalk.proof.tasks import single

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BEGIN, END = "<s>", "</s>"


def train_tokenizer(vocab_size: int, seed: int = 1) -> Tokenizer:
    """A byte-level BPE of `vocab_size` tokens; the same seed gives the same one."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[BEGIN, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(_texts(Random(seed)), trainer)
    return made


def _texts(random: Random) -> Iterator[str]:
    """Sentences of many haystacks, and what is hidden and asked."""
    for _ in range(60):
        yield from islice(GeneratedHaystack(random).sentences(), 40)
        yield from (single().introduction, FACTS_FOLLOW)
        for fact in islice(draw_facts(random), 26):
            yield fact.sentence
            yield f"Question: {fact.question}\nAnswer: {fact.opening} {fact.value}"
    for _ in range(300):
        needle = draw_needle(random)
        yield needle.sentence
        yield f"Question: {needle.question}\nAnswer: {needle.opening} {needle.value}"
