"""Ranks beside scipy's, words found by the rule, analogies planted and answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from scipy import stats
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.score.benchmarks import (
    pearson,
    ranks,
    score_analogies,
    score_pairs,
    spearman,
    table_vectors,
)
from ropewalk.tables.score.datasets import AnalogyQuestion, AnalogySet, JudgedPair, PairSet
from ropewalk.tables.score.spellings import FoundWord, Lookup, SpacingRule

Save = Callable[[Tensor, Sequence[str]], EmbeddingTable]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """save(rows, pieces): a table with a byte-level vocabulary."""

    def write(rows: Tensor, pieces: Sequence[str]) -> EmbeddingTable:
        save_file({"embed_tokens.weight": rows.contiguous()}, tmp_path / "model.safetensors")
        vocab = {piece: i for i, piece in enumerate(pieces)}
        held = {"model": {"type": "BPE", "vocab": vocab}, "decoder": {"type": "ByteLevel"}}
        (tmp_path / "tokenizer.json").write_text(json.dumps(held))
        return open_table(tmp_path)

    return write


@given(st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=3, max_size=30))
def test_ranks_and_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    one, other = ([float(p[i]) for p in pairs] for i in range(2))
    x, y = torch.tensor(one), torch.tensor(other)
    assert ranks(x).tolist() == stats.rankdata(one).tolist()
    if len(set(one)) == 1 or len(set(other)) == 1:
        assert pearson(x, y) is None
        assert spearman(x, y) is None
        return
    assert pearson(x, y) == pytest.approx(stats.pearsonr(one, other)[0], abs=1e-12)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(one, other)[0], abs=1e-12)


def test_the_word_with_a_space_before_it_comes_first_and_case_counts(save: Save) -> None:
    table = save(torch.eye(5), ["cat", "Ġcat", "dog", "ĠTokyo", "tokyo"])
    either = Lookup(table)
    assert either("cat") == FoundWord((1,), "space before")
    assert either("dog") == FoundWord((2,), "bare")
    assert either("Dog") is None
    assert either("tokyo") == FoundWord((4,), "bare")
    assert either.used == {"space before": 1, "bare": 2}
    assert Lookup(table, SpacingRule.SPACED)("dog") is None
    assert Lookup(table, SpacingRule.BARE)("cat") == FoundWord((0,), "bare")
    folded = Lookup(table, fold=True)
    assert folded("TOKYO") == FoundWord((3,), "space before")
    assert folded("DOG") == FoundWord((2,), "bare")


def test_folding_depends_on_no_locale(save: Save) -> None:
    # "ß" as GPT-2 writes its two bytes.
    table = save(torch.eye(2), ["straÃŁe", "I"])
    assert Lookup(table, fold=True)("STRASSE") == FoundWord((0,), "bare")
    assert Lookup(table, fold=True)("ı") is None
    assert Lookup(table)("STRASSE") is None


def test_a_word_of_several_tokens_is_their_mean_only_where_that_is_asked(save: Save) -> None:
    table = save(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), ["Ġhot", "dog", "Ġfood"])
    pairs = PairSet(
        "p", "p.txt", (JudgedPair("hotdog", "food", 9.0), JudgedPair("hot", "food", 2.0))
    )
    plain = score_pairs(pairs, table_vectors(table, Lookup(table)))
    assert (plain.used, plain.total, plain.missing) == (1, 2, ("hotdog",))
    assert plain.oov_ratio == 50.0
    assert plain.spearman is None
    lookup = Lookup(table, pieces=lambda text: [0, 1] if text == " hotdog" else [])
    mean = score_pairs(pairs, table_vectors(table, lookup))
    assert (mean.used, mean.missing) == (2, ())
    assert mean.spearman == pytest.approx(1.0)
    assert lookup.used == {"pieces": 1, "space before": 2}


def test_rows_of_nan_or_zeros_are_named_and_not_scored(save: Save) -> None:
    rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    rows[0], rows[1, 2] = 0.0, torch.nan
    table = save(rows, ["Ġa", "Ġb", "Ġc", "Ġd"])
    pairs = PairSet(
        "p", "p.txt", (JudgedPair("a", "c", 1), JudgedPair("b", "c", 2), JudgedPair("c", "d", 3))
    )
    found = score_pairs(pairs, table_vectors(table, Lookup(table)))
    assert (found.used, found.no_direction, found.missing) == (1, ("a", "b"), ())


def test_pairs_without_a_word_in_the_vocabulary_are_an_error(save: Save) -> None:
    table = save(torch.eye(2), ["Ġa", "Ġb"])
    pairs = PairSet("p", "p.txt", (JudgedPair("x", "y", 1.0),))
    with pytest.raises(UsageError, match=r"none of the 1 pairs of p\.txt"):
        score_pairs(pairs, table_vectors(table, Lookup(table)))
    asked = AnalogySet("q", "q.txt", (AnalogyQuestion("s", "a", "b", "x", "y"),))
    with pytest.raises(UsageError, match="none of the 1 questions"):
        score_analogies(table, asked, Lookup(table))


def test_other_spellings_of_the_question_are_no_answers(save: Save) -> None:
    king, man, woman = torch.eye(4)[:3]
    queen = king - man + woman
    noise = 0.01 * torch.ones(4)
    rows = torch.stack([king, man, woman, queen - 0.3 * king, queen + noise, king + noise, queen])
    # The nearest of all is another spelling of "woman": no answer. A row of nan is none either.
    rows = torch.cat([rows, torch.full((1, 4), torch.nan)])
    pieces = ["Ġking", "Ġman", "Ġwoman", "Ġqueen", "princess", "King", "Woman", "Ġnan"]
    table = save(rows, pieces)
    question = AnalogyQuestion("family", "man", "king", "woman", "princess")
    asked = AnalogySet(
        "q",
        "q.txt",
        (
            question,
            AnalogyQuestion("family", "man", "king", "woman", "queen"),
            AnalogyQuestion("other", "man", "king", "woman", "nan"),
            AnalogyQuestion("other", "man", "king", "woman", "absent"),
        ),
    )
    found = score_analogies(table, asked, Lookup(table))
    assert found.correct == (question,)
    assert [(s.name, s.correct, s.asked, s.total) for s in found.sections] == [
        ("family", 1, 2, 2),
        ("other", 0, 0, 2),
    ]
    assert found.sections[1].accuracy is None
    assert found.whole.accuracy == 0.5


def test_vectors_that_cancel_out_have_no_answer(save: Save) -> None:
    rows = torch.tensor([[1.0, 0.0], [0.5, 3**0.5 / 2], [0.5, -(3**0.5) / 2], [0.0, 1.0]])
    table = save(rows, ["Ġa", "Ġb", "Ġc", "Ġd"])
    asked = AnalogySet("q", "q.txt", (AnalogyQuestion("s", "a", "b", "c", "d"),))
    assert score_analogies(table, asked, Lookup(table)).whole.correct == 0


def test_a_table_without_words_cannot_be_asked_for_any(tmp_path: Path) -> None:
    save_file({"embed_tokens.weight": torch.eye(3)}, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="has no vocabulary beside it"):
        Lookup(open_table(tmp_path))
