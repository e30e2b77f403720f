from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from ropewalk.errors import RowError, TensorError, UsageError
from ropewalk.inputs import RoundedScale, Scale
from ropewalk.tables.module import TokenEmbedding

ROWS = [[0.1, -0.3, 0.8], [0.4, 0.2, -0.6], [0.5, 0.9, -0.2], [-0.7, 0.1, 0.3]]


def filled(scale: Scale | None = None, **options: object) -> TokenEmbedding:
    table = TokenEmbedding(4, 3, scale, **options)  # type: ignore[arg-type]
    with torch.no_grad():
        table.weight.copy_(torch.tensor(ROWS))
    return table


def test_a_lookup_is_a_one_hot_row_times_the_table_and_so_is_its_gradient() -> None:
    table = filled()
    assert table(torch.tensor([2])).tolist() == [pytest.approx([0.5, 0.9, -0.2])]
    ids = torch.tensor([[2, 0, 2], [3, 3, 1]])
    weights = torch.arange(18.0).view(2, 3, 3)
    gradients: list[tuple[torch.Tensor, torch.Tensor]] = []
    for rows in (table(ids), functional.one_hot(ids, 4).float() @ table.weight):
        table.weight.grad = None
        (rows * weights).sum().backward()
        assert table.weight.grad is not None
        gradients.append((rows.detach(), table.weight.grad))
    assert torch.equal(gradients[0][0], gradients[1][0])
    assert torch.equal(gradients[0][1], gradients[1][1])


def test_the_scale_multiplies_activations_and_leaves_the_shared_table_alone() -> None:
    table = filled(Scale.sqrt(512))
    ids = torch.tensor([0, 3])
    expected = torch.tensor(ROWS)[ids] * math.sqrt(512)
    torch.testing.assert_close(table(ids), expected)
    assert torch.equal(table.weight, torch.tensor(ROWS))
    hidden = torch.tensor([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(table.logits(hidden), hidden @ torch.tensor(ROWS).T)


def test_gemmas_factor_is_rounded_to_the_dtype_of_the_activations() -> None:
    table = TokenEmbedding(2, 3072, RoundedScale.sqrt(3072), dtype=torch.bfloat16)
    nn.init.ones_(table.weight)
    assert table(torch.tensor([1]))[0, 0].item() == 55.5
    exact = TokenEmbedding(2, 3072, Scale.sqrt(3072))
    nn.init.ones_(exact.weight)
    assert exact(torch.tensor([1]))[0, 0].item() == pytest.approx(55.4256, abs=1e-4)


def test_new_rows_have_variance_one_over_the_width() -> None:
    torch.manual_seed(0)
    table = TokenEmbedding(2000, 256)
    assert float(table.weight.detach().var()) == pytest.approx(1 / 256, rel=0.02)


def test_head_and_table_are_one_parameter_through_copies_casts_and_training() -> None:
    table = TokenEmbedding(5, 4, bias=True)
    assert [name for name, _ in table.named_parameters()] == ["weight", "bias"]
    other = copy.deepcopy(table).to(torch.float64)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.5)
    ids = torch.tensor([[1, 2]])
    before = other.weight.detach().clone()
    other.logits(other(ids)).logsumexp(-1).sum().backward()
    optimizer.step()
    # Rows that were not looked up move as well: by way of the head.
    assert bool((other.weight.detach() != before).all())
    assert other.bias is not None
    seen = other.logits(torch.eye(4).double()).T - other.bias[:, None]
    torch.testing.assert_close(seen, other.weight.detach() + 0 * seen)


def test_padding_is_torchs_own() -> None:
    torch.manual_seed(3)
    ours = TokenEmbedding(6, 4, padding_idx=-2)
    theirs = nn.Embedding(6, 4, padding_idx=-2)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
    assert ours.padding_idx == theirs.padding_idx == 4
    assert ours.weight[4].tolist() == [0.0] * 4
    ids = torch.tensor([[4, 1, 4, 5]])
    for table in (ours, theirs):
        table(ids).square().sum().backward()
    assert ours.weight.grad is not None
    assert theirs.weight.grad is not None
    assert torch.equal(ours.weight.grad, theirs.weight.grad)
    assert ours.weight.grad[4].tolist() == [0.0] * 4
    # The head does reach the row, as in torch.
    ours.logits(torch.ones(1, 4)).sum().backward()
    assert ours.weight.grad[4].tolist() == [1.0] * 4


@pytest.mark.parametrize("wrong", [8, -1])
def test_an_id_without_a_row_is_located(wrong: int) -> None:
    table = TokenEmbedding(8, 2)
    ids = torch.tensor([[0, 1, 2], [3, wrong, 5]])
    said = rf"holds {wrong} at row 1, column 1; allowed is 0 to 7: the table has 8 rows"
    with pytest.raises(RowError, match=said):
        table(ids)


def test_ids_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TensorError, match=r"dtype torch\.float32"):
        TokenEmbedding(8, 2)(torch.tensor([1.0]))


def test_small_integer_dtypes_and_empty_batches_are_looked_up() -> None:
    table = filled()
    assert torch.equal(table(torch.tensor([3], dtype=torch.uint8)), table(torch.tensor([3])))
    assert table(torch.empty(2, 0, dtype=torch.int64)).shape == (2, 0, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"vocab_size": 0, "d_model": 4}, "vocab_size is 0"),
        ({"vocab_size": 4, "d_model": 0}, "d_model 0"),
        ({"vocab_size": 4, "d_model": 2, "padding_idx": 4}, "padding_idx is 4; .* 0 to 3"),
        ({"vocab_size": 4, "d_model": 2, "padding_idx": -5}, "padding_idx is -5"),
    ],
)
def test_sizes_that_make_no_table_are_refused(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TokenEmbedding(**arguments)  # type: ignore[arg-type]


def test_a_head_of_another_width_is_refused() -> None:
    with pytest.raises(UsageError, match=r"shape \(1, 4\); the last dimension .* width, 3"):
        filled().logits(torch.ones(1, 4))


def test_a_checkpoint_of_torchs_layer_loads() -> None:
    table = TokenEmbedding(4, 3)
    table.load_state_dict({"weight": torch.tensor(ROWS)})
    assert torch.equal(table.weight, torch.tensor(ROWS))
    assert "scale=None, bias=False" in repr(table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [None, Scale.sqrt(3), RoundedScale.sqrt(3)])
def test_the_lookup_has_the_bits_of_torchs_own_layer_and_the_product(
    dtype: torch.dtype, scale: Scale | None
) -> None:
    table = filled(scale).to(dtype)
    ids = torch.tensor([[2, 0, 2], [3, 3, 1]])
    rows = nn.functional.embedding(ids, table.weight)
    assert torch.equal(table.lookup(ids), rows)
    assert torch.equal(table(ids), rows if scale is None else scale.apply(rows))
