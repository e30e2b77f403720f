"""Ids to vectors: the worked figures, the product with one-hot rows, scales, and wrong ids."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from ropewalk.errors import PositionError, RowError, UsageError
from ropewalk.inputs import InputPath, RoundedScale, Scale
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.rope import spec

THE_CAT_SAT = torch.tensor([464, 3797, 3332])
TABLE = [[0.1, -0.3, 0.8], [0.4, 0.2, -0.6], [0.5, 0.9, -0.2], [-0.7, 0.1, 0.3]]
SINUSOIDS = [
    [0.000, 1.000, 0.000, 1.000],
    [0.841, 0.540, 0.010, 1.000],
    [0.909, -0.416, 0.020, 1.000],
]
"""The paper's encoding at d = 4 and positions 0, 1, 2, to three digits."""


def table_of(rows: int, d_model: int) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(rows, d_model)


def test_the_cat_sat_is_looked_up_scaled_and_placed() -> None:
    table = table_of(50_257, 4)
    steps = InputPath(table, Sinusoidal(4), Scale.sqrt(4)).steps(THE_CAT_SAT, torch.arange(3))
    assert steps.rows.shape == steps.placed.shape == (3, 4)
    weight: Tensor = table.weight.detach()
    for place, id_ in enumerate((464, 3797, 3332)):
        assert steps.rows[place].tolist() == weight[id_].tolist()
        by_hand = [2.0 * float(w) + s for w, s in zip(weight[id_], SINUSOIDS[place], strict=True)]
        assert steps.placed[place].tolist() == pytest.approx(by_hand, abs=6e-4)


def test_a_lookup_is_a_product_with_one_hot_rows_and_so_is_its_gradient() -> None:
    values = torch.tensor(TABLE)
    path = InputPath(nn.Embedding.from_pretrained(values.clone(), freeze=False), NoPosition())
    product_table = values.clone().requires_grad_()
    ids = torch.tensor([2, 0, 2])
    weights = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.5, 0.5], [4.0, 0.0, -1.0]])
    looked_up = path(ids, torch.arange(3))
    product = nn.functional.one_hot(ids, 4).float() @ product_table
    assert looked_up[0].tolist() == pytest.approx([0.5, 0.9, -0.2], abs=1e-7)
    assert torch.equal(looked_up, product)
    (looked_up * weights).sum().backward()
    (product * weights).sum().backward()
    assert path.table.weight.grad is not None
    assert product_table.grad is not None
    assert torch.equal(path.table.weight.grad, product_table.grad)


def test_the_scale_is_that_of_the_width_and_never_changes_the_table() -> None:
    table = table_of(10, 512)
    before = table.weight.detach().clone()
    path = InputPath(table, NoPosition(), Scale.sqrt(512))
    steps = path.steps(torch.tensor([[3]]), torch.zeros(1, 1, dtype=torch.int64))
    ratio = steps.scaled / steps.rows
    assert ratio.detach().numpy() == pytest.approx(22.6, abs=0.05)
    assert torch.equal(table.weight, before)
    assert list(path.state_dict()) == ["table.weight"]


@pytest.mark.parametrize(("width", "rounded"), [(1152, 34.0), (640, 25.25), (2560, 50.5)])
def test_gemma_rounds_the_factor_itself_to_bfloat16(width: int, rounded: float) -> None:
    ones = torch.ones(1, dtype=torch.bfloat16)
    assert float(RoundedScale.sqrt(width).apply(ones)) == rounded
    # Not every product is the same when the factor is exact, which is why it is a type of its own.
    many = torch.arange(1.0, 2.0, 1 / 128, dtype=torch.bfloat16)
    assert not torch.equal(RoundedScale.sqrt(width).apply(many), Scale.sqrt(width).apply(many))


def test_rotary_adds_nothing_at_the_input() -> None:
    path = InputPath(table_of(10, 8), Rotary(spec.RotarySpec(8, 8, 10_000.0)))
    ids = torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(path(ids, torch.arange(2)), path.lookup(ids))


def test_packed_rows_take_the_positions_they_are_given() -> None:
    path = InputPath(table_of(10, 8), Learned(4, 8))
    ids = torch.tensor([[1, 2, 5, 6]])
    packed = path(ids, torch.tensor([[0, 1, 0, 1]]))
    alone = path(torch.tensor([[5, 6]]), torch.tensor([[0, 1]]))
    assert torch.equal(packed[:, 2:], alone)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([[1, 2], [3, 10]], "10 at row 1, column 1; allowed is 0 to 9: the table has 10 rows"),
        ([4, -1], "-1 at column 1"),
        ([[[1]]], "shape (1, 1, 1)"),
        ([[0.5]], "dtype torch.float32"),
        ([[True]], "dtype torch.bool"),
    ],
)
def test_an_id_without_a_row_is_an_error_with_its_place(ids: list[object], words: str) -> None:
    path = InputPath(table_of(10, 8), NoPosition())
    with pytest.raises(UsageError) as caught:
        path(torch.tensor(ids), torch.arange(2))
    assert words in str(caught.value)


def test_a_text_beyond_a_learned_table_is_an_error_and_not_its_last_row() -> None:
    path = InputPath(table_of(10, 8), Learned(1024, 8))
    with pytest.raises(PositionError, match="holds 1024 at column 1024"):
        path(torch.zeros(1500, dtype=torch.int64), torch.arange(1500))


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_is_a_positive_number(factor: float) -> None:
    with pytest.raises(UsageError, match="above 0"):
        Scale(factor)


def test_half_precision_goes_through_whole() -> None:
    path = InputPath(table_of(10, 8), Sinusoidal(8), Scale.sqrt(8)).to(torch.bfloat16)
    out = path(torch.tensor([[1, 2]]), torch.arange(2))
    assert out.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [None, Scale.sqrt(48), RoundedScale.sqrt(48)])
@pytest.mark.parametrize(
    "encoding",
    [Sinusoidal(48), Learned(30, 48), Learned(28, 48, offset=2, padding_idx=4), NoPosition()],
    ids=repr,
)
def test_one_pass_gives_the_bits_and_gradients_of_the_steps(
    encoding: PositionEncoding, scale: Scale | None, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    path = InputPath(nn.Embedding(20, 48, padding_idx=3), encoding, scale).to(dtype)
    ids = torch.randint(0, 20, (2, 9))
    for position_ids in (torch.arange(9), torch.randint(0, 28, (2, 9))):
        grads = []
        for run in (path.__call__, lambda i, p: path.steps(i, p).placed):
            path.zero_grad()
            out = run(ids, position_ids)
            out.float().sin().sum().backward()
            grads.append([out, *(p.grad.clone() for p in path.parameters() if p.grad is not None)])
        assert torch.equal(grads[0][0], grads[1][0])
        assert len(grads[0]) == len(grads[1])
        # The steps sum the gradients of repeated ids in bfloat16, the one pass in fp32.
        tolerance = 1e-6 if dtype is torch.float32 else 2.0**-4
        for one, step in zip(grads[0][1:], grads[1][1:], strict=True):
            torch.testing.assert_close(one, step, rtol=tolerance, atol=tolerance)
    encoding.float()


def test_a_table_with_hooks_or_of_another_kind_goes_step_by_step() -> None:
    class Doubled(nn.Embedding):
        def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's own name
            return super().forward(input) * 2.0

    ids, positions = torch.tensor([[1, 2]]), torch.arange(2)
    doubled = Doubled(10, 8)
    assert torch.equal(InputPath(doubled, NoPosition())(ids, positions), doubled(ids))
    hooked = table_of(10, 8)
    seen: list[torch.Size] = []
    hooked.register_forward_hook(lambda _module, _args, output: seen.append(output.shape))
    InputPath(hooked, NoPosition())(ids, positions)
    assert seen == [torch.Size((1, 2, 8))]
    short = nn.Embedding(10, 8, max_norm=0.5)
    assert InputPath(short, NoPosition())(ids, positions).norm(dim=-1).max() < 0.501


def test_the_path_compiles_whole() -> None:
    path = InputPath(table_of(10, 8), Learned(4, 8), RoundedScale.sqrt(8)).to(torch.bfloat16)
    ids, positions = torch.tensor([[1, 2, 5]]), torch.arange(3)
    compiled = torch.compile(path, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(ids, positions), path(ids, positions))
    with pytest.raises(RowError, match="holds 12 at row 0, column 0"):
        compiled(ids + 11, positions)
