from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.tables.module import TokenEmbedding
from ropewalk.tables.resize import FromPieces, Mean, MeanCovariance, resize


def random_table(rows: int, width: int, **options: object) -> TokenEmbedding:
    torch.manual_seed(rows)
    return TokenEmbedding(rows, width, **options)  # type: ignore[arg-type]


def values(table: nn.Embedding) -> Tensor:
    return table.weight.detach().clone()


def test_old_rows_stay_and_new_ones_are_the_mean() -> None:
    table = random_table(5, 3)
    before = values(table)
    told = resize(table, 7)
    assert table.num_embeddings == 7
    assert torch.equal(table.weight[:5], before)
    for row in (5, 6):
        torch.testing.assert_close(table.weight[row].detach(), before.mean(0))
    assert [(o.row, o.made) for o in told.origins] == [
        (5, "the mean of 5 rows"),
        (6, "the mean of 5 rows"),
    ]
    assert told.tables[0].hash_before == told.tables[0].hash_after
    assert table(torch.tensor([6])).shape == (1, 3)


def test_a_new_token_takes_no_more_than_its_share_of_the_probability() -> None:
    """Hewitt 2021: with the mean, the new partition function is at most (1 + 1/n) of the old."""
    table = random_table(40, 8)
    hidden = torch.randn(200, 8) * 5
    before = table.logits(hidden).logsumexp(-1)
    resize(table, 41)
    after = table.logits(hidden).logsumexp(-1)
    assert bool((after - before <= math.log(1 + 1 / 40) + 1e-5).all())
    # A row drawn anew dominates some of them.
    nn.init.normal_(table.weight.data[40])
    worse = table.logits(hidden).logsumexp(-1)
    assert not bool((worse - before <= math.log(1 + 1 / 40) + 1e-5).all())


def test_rows_of_padding_and_rows_of_zeros_never_enter_the_mean() -> None:
    table = random_table(4, 3)
    with torch.no_grad():
        table.weight[2:] = 0
    resize(table, 6, old_tokens=4)
    torch.testing.assert_close(table.weight[5], table.weight[:2].mean(0))
    # Rows behind the last token, not zero: as Qwen's.
    padded = random_table(6, 3)
    before = values(padded)
    told = resize(padded, 7, old_tokens=4)
    torch.testing.assert_close(padded.weight[4:].detach(), before[:4].mean(0).expand(3, 3))
    assert told.dropped == (4, 5)
    # Those that no new token takes stay as they are.
    padded = random_table(6, 3)
    resize(padded, 5, old_tokens=4)
    assert padded.weight.shape == (6, 3)
    assert torch.equal(padded.weight[5], before[5])


def test_padding_to_a_multiple_is_the_mean_and_is_never_the_likeliest() -> None:
    table = random_table(5, 3, bias=True)
    assert table.bias is not None
    before = values(table)
    with torch.no_grad():
        table.bias.copy_(torch.tensor([-8.0, -7.0, -9.0, -6.0, -10.0]))
    told = resize(table, 6, multiple=8)
    torch.testing.assert_close(table.weight[5:].detach(), before.mean(0).expand(3, 3))
    assert table.bias.tolist() == [-8.0, -7.0, -9.0, -6.0, -10.0, -8.0, -10.0, -10.0]
    made = "padding, the mean of 5 rows"
    assert [o.made for o in told.origins] == ["the mean of 5 rows", made, made]
    # A mean logit is below the largest, where a row of zeros has the logit 0 and may be above it.
    hidden = torch.randn(500, 3)
    logits = hidden @ table.weight.T
    assert not bool((logits.argmax(1) >= 6).any())
    assert bool((logits[:, :5].max(1).values < 0).any())
    # The next token takes a row of padding, and the other stays.
    again = resize(table, 7, old_tokens=6, multiple=8)
    assert (again.dropped, table.weight.shape) == ((6,), (8, 3))
    torch.testing.assert_close(table.weight[6], table.weight[:6].mean(0))


def test_trained_rows_are_not_dropped_unasked() -> None:
    table = random_table(8, 3)
    before = values(table)
    for old_tokens, rows in ((None, None), (6, 6)):
        with pytest.raises(UsageError, match=r"lose 2 rows .* 6 to 7 .*dropping=range\(6, 8\)"):
            resize(table, 6, old_tokens=old_tokens, rows=rows)
    assert torch.equal(table.weight, before)
    told = resize(table, 6, dropping=range(6, 8))
    assert told.dropped == (6, 7)
    assert torch.equal(table.weight, before[:6])


def test_a_tied_head_stays_tied_and_an_untied_one_keeps_its_rows() -> None:
    tied = nn.Linear(3, 5)
    table = random_table(5, 3)
    tied.weight = table.weight
    told = resize(table, 9, head=tied)
    assert told.tied is True
    assert tied.weight is table.weight
    assert tied(torch.ones(1, 3)).shape == (1, 9)
    apart = nn.Linear(3, 9)
    before, bias = apart.weight.detach().clone(), apart.bias.detach().clone()
    told = resize(table, 10, head=apart)
    assert told.tied is False
    assert torch.equal(apart.weight[:9], before)
    torch.testing.assert_close(apart.weight[9].detach(), before.mean(0))
    torch.testing.assert_close(apart.bias.detach(), torch.cat((bias, bias.mean()[None])))
    assert [t.name for t in told.tables] == ["table", "head", "head.bias"]
    assert all(t.hash_before == t.hash_after for t in told.tables)
    assert (table.num_embeddings, apart.out_features) == (10, 10)


def test_sampled_rows_differ_and_have_the_share_of_the_covariance() -> None:
    torch.manual_seed(1)
    table = TokenEmbedding(50, 4)
    with torch.no_grad():
        table.weight.mul_(torch.tensor([1.0, 2.0, 4.0, 8.0])).add_(3.0)
    before = values(table).double()
    told = resize(table, 20_050, new_rows=MeanCovariance(share=0.25, seed=7))
    made = table.weight[50:].detach().double()
    assert len(made.unique(dim=0)) == 20_000
    torch.testing.assert_close(made.mean(0), before.mean(0), rtol=0.01, atol=0.02)
    torch.testing.assert_close(made.T.cov() / 0.25, before.T.cov(), rtol=0.05, atol=0.05)
    assert told.origins[0].made == (
        "drawn around the mean of 50 rows with 0.25 of their covariance (rank 4, seed 7)"
    )


def test_fewer_rows_than_channels_are_sampled_too() -> None:
    table = random_table(3, 8)
    before = values(table).double()
    told = resize(table, 6, new_rows=MeanCovariance())
    made = table.weight[3:].detach().double()
    assert len(made.unique(dim=0)) == 3
    assert "rank 2" in told.origins[0].made
    # Nothing of them lies outside what the three rows span around their mean.
    centred = before - before.mean(0)
    _, _, axes = torch.linalg.svd(centred)
    torch.testing.assert_close(
        (made - before.mean(0)) @ axes[2:].T, torch.zeros(3, 6).double(), rtol=0, atol=1e-6
    )


def test_a_share_that_rounding_swallows_is_refused() -> None:
    table = TokenEmbedding(50, 4, dtype=torch.bfloat16)
    with torch.no_grad():
        table.weight.add_(5.0)
    with pytest.raises(UsageError, match=r"equal once rounded to torch\.bfloat16"):
        resize(table, 60, new_rows=MeanCovariance(share=1e-9))
    assert table.num_embeddings == 50


def test_rows_from_pieces_name_them() -> None:
    table = random_table(6, 3)
    before = values(table)
    told = resize(table, 8, new_rows=FromPieces({6: [1, 2, 2], 7: [5]}))
    expected = (before[1] + 2 * before[2]) / 3
    torch.testing.assert_close(table.weight[6].detach(), expected)
    assert torch.equal(table.weight[7], before[5])
    assert [(o.row, o.made, o.sources) for o in told.origins] == [
        (6, "the mean of 3 pieces", (1, 2, 2)),
        (7, "a copy of a row", (5,)),
    ]


@pytest.mark.parametrize(
    ("pieces", "said"),
    [({6: [1]}, "new row 7 has no pieces"), ({6: [1], 7: [6]}, "made from row 6, which is no")],
)
def test_pieces_that_do_not_fit_are_refused(pieces: dict[int, list[int]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resize(random_table(6, 3), 8, new_rows=FromPieces(pieces))


def test_the_padding_row_stays_and_stays_out() -> None:
    table = random_table(5, 3, padding_idx=1)
    told = resize(table, 6)
    assert table.padding_idx == 1
    assert told.origins[0].made == "the mean of 4 rows"
    table(torch.tensor([1, 5])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad[1].tolist() == [0.0] * 3
    assert table.weight.grad[5].tolist() == [1.0] * 3
    with pytest.raises(UsageError, match="padding row 1 is not among the 1 rows"):
        resize(table, 1, dropping=range(1, 6))


def test_nan_rows_are_named_and_not_averaged() -> None:
    table = random_table(5, 3)
    with torch.no_grad():
        table.weight[3, 1] = float("nan")
    with pytest.raises(UsageError, match="row 3 of the table holds values that are no finite"):
        resize(table, 6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokens": 0}, "tokens is 0"),
        ({"tokens": 6, "multiple": 0}, "multiple 0"),
        ({"tokens": 6, "rows": 5}, "5 rows were asked for, and the 6 tokens need 6"),
        ({"tokens": 6, "old_tokens": 6}, "old_tokens 6 of 5 rows"),
        ({"tokens": 6, "head": nn.Linear(3, 4)}, r"head has shape \(4, 3\) and the table \(5, 3\)"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resize(random_table(5, 3), **options)  # type: ignore[arg-type]


def test_dtype_and_frozenness_are_kept_and_plain_layers_can_be_resized() -> None:
    table = nn.Embedding(5, 3, dtype=torch.bfloat16)
    table.weight.requires_grad_(False)
    resize(table, 6, new_rows=Mean())
    assert table.weight.dtype == torch.bfloat16
    assert not table.weight.requires_grad


def test_a_table_of_zeros_has_nothing_to_make_rows_from() -> None:
    table = random_table(3, 2)
    nn.init.zeros_(table.weight)
    with pytest.raises(UsageError, match="no trained row"):
        resize(table, 4)


def test_the_covariance_needs_rows_that_differ() -> None:
    table = random_table(3, 2)
    nn.init.ones_(table.weight)
    with pytest.raises(UsageError, match="do not differ"):
        resize(table, 4, new_rows=MeanCovariance())
    with pytest.raises(UsageError, match="share is 0"):
        MeanCovariance(share=0.0)
