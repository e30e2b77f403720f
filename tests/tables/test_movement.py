"""Two tables side by side: what was planted is found, and what was only turned is turned back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from scipy.linalg import orthogonal_procrustes
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.tables.movement import compare, shared_tokens
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.vocabulary import Token, TokenKind

Save = Callable[..., EmbeddingTable]
WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """save(rows, pieces, kind): a table with the vocabulary of `pieces`, opened."""

    def write(
        rows: Tensor, pieces: Sequence[str] | None, kind: str = "ByteLevel"
    ) -> EmbeddingTable:
        folder = tmp_path / f"model{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        save_file({"embed_tokens.weight": rows.contiguous()}, folder / "model.safetensors")
        if pieces is not None:
            vocab = {piece: i for i, piece in enumerate(pieces)}
            model = {"type": "WordPiece" if kind == "WordPiece" else "BPE", "vocab": vocab}
            held = {"model": model, "decoder": {"type": kind}}
            (folder / "tokenizer.json").write_text(json.dumps(held))
        return open_table(folder)

    return write


def turned(width: int) -> Tensor:
    noise = torch.randn(width, width, generator=torch.Generator().manual_seed(7))
    turn: Tensor = torch.linalg.qr(noise.double())[0].float()
    return turn


def test_a_table_compared_with_itself_has_not_moved(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    table = save(numbers(60, 8), WORDS)
    found = compare(table, table)
    assert len(found.shared) == 60
    assert found.raw is not None
    assert found.raw.residual == 0.0
    assert torch.equal(found.raw.distances, torch.zeros(60).double())
    assert torch.equal(found.raw.cosines, torch.ones(60).double())
    assert found.aligned is not None
    assert float(found.aligned.distances.max()) < 1e-12
    assert found.overlap is not None
    assert found.overlap.mean == 1.0
    assert torch.equal(found.ratios, torch.ones(60).double())


def test_a_planted_rotation_is_undone(save: Save, numbers: Callable[..., Tensor]) -> None:
    rows = numbers(60, 8)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(3))
    # The other checkpoint has its tokens in another order, and three more of them.
    pieces = [WORDS[i] for i in order] + ["x", "y", "z"]
    other = torch.cat([rows[order] @ turned(8), numbers(3, 8)])
    found = compare(save(rows, WORDS), save(other, pieces))
    assert found.shared.other_tokens == 63
    assert [found.label(i) for i in range(3)] == WORDS[:3]
    assert found.raw is not None
    assert found.raw.residual > 0.5
    assert found.aligned is not None
    assert found.aligned.residual < 1e-5
    assert float(found.aligned.distances.max()) < 1e-5
    assert float(found.aligned.cosines.min()) > 1 - 1e-10
    assert found.overlap is not None
    assert found.overlap.mean == 1.0


def test_a_planted_move_is_found_as_it_is_and_under_a_rotation(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    rows = numbers(60, 8)
    moved = rows.clone()
    moved[17] = -moved[17]
    moved[23] = 3 * moved[23]
    for other in (moved, moved @ turned(8)):
        found = compare(save(rows, WORDS), save(other, WORDS))
        assert found.aligned is not None
        assert found.aligned.most_rotated(1) == [17]
        assert set(found.aligned.furthest(2)) == {17, 23}
        assert float(found.ratios[23]) == pytest.approx(3.0, rel=1e-5)
    plain = compare(save(rows, WORDS), save(moved, WORDS))
    assert plain.raw is not None
    assert plain.raw.most_rotated(1) == [17]
    assert float(plain.raw.distances[17]) == pytest.approx(2 * float(rows[17].norm()), rel=1e-6)
    assert plain.overlap is not None
    assert plain.overlap.lowest(1)[0][0] == 17


def test_the_rotation_is_scipys(save: Save, numbers: Callable[..., Tensor]) -> None:
    one, two = numbers(60, 8), numbers(60, 8, seed=5)
    found = compare(save(one, WORDS), save(two, WORDS))
    turn, _ = orthogonal_procrustes(one.double().numpy(), two.double().numpy())
    left = np.linalg.norm(one.double().numpy() @ turn - two.double().numpy(), axis=1)
    assert found.aligned is not None
    np.testing.assert_allclose(found.aligned.distances.numpy(), left, rtol=1e-9)


def test_tables_of_different_width_are_compared_by_neighbours_alone(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    rows = numbers(60, 8)
    wide = torch.cat([rows @ turned(8), torch.zeros(60, 4)], dim=1)
    found = compare(save(rows, WORDS), save(wide, WORDS), k=5)
    assert found.raw is None
    assert found.aligned is None
    assert found.overlap is not None
    assert found.overlap.mean == 1.0
    unrelated = compare(save(rows, WORDS), save(numbers(60, 12, seed=9), WORDS), k=5)
    assert unrelated.overlap is not None
    # By chance 5 of 59.
    assert unrelated.overlap.mean < 0.25


def test_neighbour_overlap_is_that_of_a_slow_loop(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    one, two = numbers(20, 6), numbers(20, 6) + 0.7 * numbers(20, 6, seed=2)
    found = compare(save(one, WORDS[:20]), save(two, WORDS[:20]), k=4)
    expected = []
    for i in range(20):
        near: list[set[int]] = []
        for rows in (one.double(), two.double()):
            scores = torch.nn.functional.cosine_similarity(rows, rows[i], dim=1)
            order = [int(j) for j in scores.argsort(descending=True) if j != i]
            near.append(set(order[:4]))
        expected.append(len(near[0] & near[1]) / 4)
    assert found.overlap is not None
    assert found.overlap.shares == pytest.approx(tuple(expected))


def test_a_sample_is_the_same_for_the_same_seed(save: Save, numbers: Callable[..., Tensor]) -> None:
    table = save(numbers(60, 8), WORDS)
    drawn = [compare(table, table, sample=7, seed=s).overlap for s in (1, 1, 2)]
    assert all(o is not None and len(o.pairs) == 7 for o in drawn)
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert drawn[2] is not None
    assert drawn[0].pairs == drawn[1].pairs != drawn[2].pairs


def test_rows_without_a_direction_are_named_and_kept_out(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    one, two = numbers(60, 8), numbers(60, 8)
    one[4], two[9, 2], two[11, 0] = 0.0, torch.nan, torch.inf
    found = compare(save(one, WORDS), save(two, WORDS))
    assert found.zero == (4,)
    assert found.not_finite == (9, 11)
    assert len(found.kept) == 57
    assert found.raw is not None
    assert not {4, 9, 11} & set(found.raw.furthest(60))
    assert found.raw.residual == 0.0


def test_vocabularies_without_a_shared_token_are_an_error(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    with pytest.raises(UsageError, match="share no token"):
        compare(save(numbers(2, 4), ["a", "b"]), save(numbers(2, 4), ["c", "d"]))
    with pytest.raises(UsageError, match="has no vocabulary beside it"):
        compare(save(numbers(2, 4), ["a", "b"]), save(numbers(2, 4), None))


def test_tables_without_vocabularies_are_paired_by_row(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    found = shared_tokens(save(numbers(5, 4), None), save(numbers(7, 4), None))
    assert found.rows == found.others == (0, 1, 2, 3, 4)
    assert "by row number" in found.rule


def test_wordpiece_begins_words_where_others_have_a_space(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    pieces = save(numbers(4, 4), ["bank", "##ing", "ing", ","], "WordPiece")
    spaced = save(numbers(6, 4), ["bank", "Ġbank", "ing", "Ġing", ",", "x"])
    found = shared_tokens(pieces, spaced)
    assert list(zip(found.rows, found.others, strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    # The same the other way about.
    back = shared_tokens(spaced, pieces)
    pairs = sorted(zip(back.others, back.rows, strict=True))
    assert pairs == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_a_byte_token_is_not_the_letter_of_that_byte(
    save: Save, numbers: Callable[..., Tensor]
) -> None:
    one = save(numbers(3, 4), ["<0x41>", "A", "x"], "Metaspace")
    other = save(numbers(3, 4), ["A", "x", "<0x41>"], "Metaspace")
    found = shared_tokens(one, other)
    assert list(zip(found.rows, found.others, strict=True)) == [(0, 2), (1, 0), (2, 1)]


@pytest.mark.parametrize(("k", "sample"), [(0, 5), (-1, 5), (3, 0), (60, 5)])
def test_a_k_that_cannot_be_filled_is_an_error(
    save: Save, numbers: Callable[..., Tensor], k: int, sample: int
) -> None:
    table = save(numbers(60, 8), WORDS)
    with pytest.raises(UsageError, match=r"k is"):
        compare(table, table, k=k, sample=sample)


def test_positions_have_no_tokens_to_pair(minilm: Path) -> None:
    positions = open_table(minilm, "positions")
    with pytest.raises(UsageError, match="positions have no tokens"):
        compare(positions, positions)


def test_two_real_tables_of_different_widths_share_thousands_of_words(
    minilm: Path, smollm2_gguf: Path
) -> None:
    one, other = open_table(minilm), open_table(smollm2_gguf)
    found = compare(one, other, sample=40)
    assert 10_000 < len(found.shared) < 25_000
    words = dict(zip(found.shared.rows, found.shared.others, strict=True))
    assert one.vocabulary is not None
    assert other.vocabulary is not None
    bank = one.vocabulary.ids(b"bank")[0]
    assert other.vocabulary.tokens[words[bank]] == Token(b" bank", TokenKind.TEXT, "Ġbank")
    assert found.overlap is not None
    # Two trainings that share no text: far above chance, 10 in thousands.
    assert 0.1 < found.overlap.mean < 0.9
