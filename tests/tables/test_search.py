"""Neighbours by cosine: against a plain sort in double precision, and against gensim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from ropewalk.errors import RowError, UsageError
from ropewalk.tables.answer import NearQuestion, answer
from ropewalk.tables.open import open_table
from ropewalk.tables.search import neighbours, unit_rows
from ropewalk.tables.words import of_row, of_word

Numbers = Callable[..., Tensor]


def sorted_plainly(rows: Tensor, query: Tensor, k: int) -> list[tuple[int, float]]:
    """By definition: every cosine in double precision, sorted by (-score, id)."""
    wide, one = rows.double().numpy(), query.double().numpy()
    with np.errstate(all="ignore"):
        scores = wide @ one / np.linalg.norm(wide, axis=1) / np.linalg.norm(one)
    kept = [(round(float(s), 9), i) for i, s in enumerate(scores) if np.isfinite(s)]
    return [(i, s) for s, i in sorted(kept, key=lambda pair: (-pair[0], pair[1]))[:k]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_order_is_that_of_double_precision(numbers: Numbers, dtype: torch.dtype) -> None:
    rows, queries = numbers(3000, 70, dtype), numbers(5, 70, seed=1)
    found = neighbours(rows, queries, 40)
    for q in range(5):
        expected = sorted_plainly(rows, queries[q], 40)
        assert found.ids[q].tolist() == [row for row, _ in expected]
        assert found.scores[q].tolist() == pytest.approx([s for _, s in expected], abs=2e-9)
    assert (found.zero, found.not_finite, found.ranked) == ((), (), 3000)


def test_rows_that_point_the_same_way_come_in_the_order_of_their_ids(numbers: Numbers) -> None:
    base = numbers(60, 33)
    # Duplicates, and the same directions at other lengths, in no order.
    rows = torch.cat([base, base * 4, base * 3, base])[torch.randperm(240)]
    found = neighbours(rows, base[7], 240)
    expected = sorted_plainly(rows, base[7], 240)
    assert found.scores[0, :4].tolist() == [1.0] * 4
    assert found.ids[0].tolist() == [row for row, _ in expected]


def test_all_rows_equal_is_the_order_of_ids() -> None:
    rows = torch.randn(5).repeat(20_000, 1)
    assert neighbours(rows, torch.randn(5), 50).ids[0].tolist() == list(range(50))


def test_rows_without_direction_are_named_and_never_neighbours(numbers: Numbers) -> None:
    rows = numbers(50, 8)
    rows[3], rows[9, 2], rows[11, 0] = 0.0, float("nan"), float("-inf")
    found = neighbours(rows, rows[0], 47)
    assert (found.zero, found.not_finite, found.ranked) == ((3,), (9, 11), 47)
    assert not {3, 9, 11} & set(found.ids[0].tolist())
    with pytest.raises(UsageError, match=r"47 rows can be compared.*1 are all zeros and 2 hold"):
        neighbours(rows, rows[0], 48)


def test_rows_whose_squares_float32_cannot_hold_are_compared_all_the_same() -> None:
    rows = torch.tensor([[1e30, 1e30], [1e-30, 0.0], [1.0, 0.9], [-1e38, 0.0], [1e-40, 1e-40]])
    found = neighbours(rows, torch.tensor([1.0, 1.0]), 5)
    assert found.ids[0].tolist() == [0, 4, 2, 1, 3]
    assert (found.zero, found.not_finite) == ((), ())


def test_excluded_rows_are_left_out_for_their_query_alone(numbers: Numbers) -> None:
    rows = numbers(30, 4)
    found = neighbours(rows, rows[:2], 3, exclude=[[0], []])
    assert 0 not in found.ids[0].tolist()
    assert found.ids[1, 0] == 1
    only = torch.zeros(30, dtype=torch.bool)
    only[[4, 5, 6]] = True
    assert sorted(neighbours(rows, rows[0], 3, among=only).ids[0].tolist()) == [4, 5, 6]


def test_a_table_in_a_file_gives_what_its_rows_give_and_is_read_once(
    numbers: Numbers, tmp_path: Path
) -> None:
    rows = numbers(500, 16, torch.bfloat16)
    save_file({"embed_tokens.weight": rows}, tmp_path / "model.safetensors")
    table = open_table(tmp_path / "model.safetensors")
    found, plain = neighbours(table, rows[4].float(), 9), neighbours(rows, rows[4].float(), 9)
    assert torch.equal(found.ids, plain.ids)
    assert torch.equal(found.scores, plain.scores)
    assert table.bytes_read == table.size


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_small_table_is_sorted_as_by_definition(data: st.DataObject) -> None:
    # Few values, so that ties, zeros and duplicates are the rule.
    width = data.draw(st.integers(1, 5))
    value = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5, float("nan"), float("inf")])
    row = st.lists(value, min_size=width, max_size=width)
    rows = torch.tensor(data.draw(st.lists(row, min_size=1, max_size=40)))
    query = torch.tensor(
        data.draw(st.lists(st.sampled_from([1.0, -2.0, 3.0]), min_size=width, max_size=width))
    )
    usable = int((torch.isfinite(rows).all(1) & (rows != 0).any(1)).sum())
    if usable == 0:
        with pytest.raises(UsageError, match="0 rows can be compared"):
            neighbours(rows, query, 1)
        return
    found = neighbours(rows, query, usable)
    assert found.ids[0].tolist() == [i for i, _ in sorted_plainly(rows, query, usable)]


@pytest.mark.parametrize(
    ("k", "said"),
    [(0, "k is 0; ask for 1 or more"), (-3, "k is -3"), (7, "k is 7, and the table has 6 rows")],
)
def test_a_k_that_cannot_be_is_refused(k: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        neighbours(torch.randn(6, 2), torch.randn(2), k)


def test_a_query_without_direction_is_refused() -> None:
    with pytest.raises(UsageError, match="vector number 2 is all zeros"):
        neighbours(torch.randn(6, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), 1)
    with pytest.raises(UsageError, match="vector number 1 holds NaN or infinity"):
        unit_rows(np.array([[1.0, float("nan")]]))


def test_an_excluded_id_without_a_row_is_refused() -> None:
    with pytest.raises(RowError, match=r"row 6 .* it has 6 rows, 0 to 5"):
        neighbours(torch.randn(6, 2), torch.randn(2), 1, exclude=[[6]])


def test_a_quantised_table_is_searched_by_its_dequantised_rows(smollm2_gguf: Path) -> None:
    table = open_table(smollm2_gguf)
    assert table.storage == "Q8_0"
    rows, queries = table.whole(), table[[5000, 300]]
    found = neighbours(open_table(smollm2_gguf), queries, 20)
    for q in range(2):
        expected = sorted_plainly(rows, queries[q], 20)
        assert found.ids[q].tolist() == [row for row, _ in expected]
        assert found.scores[q].tolist() == pytest.approx([s for _, s in expected], abs=2e-9)


def test_order_and_scores_are_gensims(wordllama: Path) -> None:
    models = pytest.importorskip("gensim.models")
    table = open_table(wordllama)
    rows = table.whole().float()
    vectors = models.KeyedVectors(table.width)
    vectors.add_vectors([str(row) for row in range(table.rows)], rows.numpy())
    for word in ("king", "river", "seven", "Paris"):
        asked = of_word(table, word)
        theirs = vectors.most_similar(str(asked.ids[0]), topn=25)
        found = answer(table, [NearQuestion(asked)], 25).answers[0].found
        assert [str(row) for row, _ in found] == [key for key, _ in theirs]
        assert [s for _, s in found] == pytest.approx([s for _, s in theirs], abs=1e-5)


@pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`:DeprecationWarning")
@pytest.mark.parametrize("by_product", [False, True])
def test_analogies_are_gensims(wordllama: Path, by_product: bool) -> None:
    models = pytest.importorskip("gensim.models")
    table = open_table(wordllama)
    vectors = models.KeyedVectors(table.width)
    vectors.add_vectors([str(row) for row in range(table.rows)], table.whole().float().numpy())
    for a, b, c in (
        ("man", "woman", "king"),
        ("France", "Paris", "Germany"),
        ("go", "went", "see"),
    ):
        one, two, three = (of_word(table, word) for word in (a, b, c))
        keys = [str(asked.ids[0]) for asked in (three, two, one)]
        ask = vectors.most_similar_cosmul if by_product else vectors.most_similar
        theirs = ask(positive=keys[:2], negative=keys[2:], topn=10)
        question = NearQuestion(three, (two,), (one,), by_product)
        found = answer(table, [question], 10).answers[0].found
        assert [str(row) for row, _ in found] == [key for key, _ in theirs]
        assert [s for _, s in found] == pytest.approx([s for _, s in theirs], rel=2e-5)


def test_of_a_sharded_checkpoint_one_shard_is_opened_and_read_once(
    numbers: Numbers, save_sharded: Callable[..., Path]
) -> None:
    other = {"model.layers.0.mlp.up_proj.weight": numbers(4, 4)}
    folder = save_sharded({"model.embed_tokens.weight": numbers(40, 8)}, other)
    # What is not opened may as well be missing.
    (folder / "model-00002-of-00002.safetensors").unlink()
    table = open_table(folder)
    answer(table, [NearQuestion(of_row(table, 3))], 5)
    weights = [p.name for p in table.matrix.reads.files if p.suffix == ".safetensors"]
    assert weights == ["model-00001-of-00002.safetensors"]
    assert table.bytes_read == table.size
