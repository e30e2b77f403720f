"""Learned tables: the conventions of three models, and an end that is an error."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ropewalk.errors import PositionError, TensorError, UsageError
from ropewalk.positions.from_mask import Convention, position_ids_from_mask
from ropewalk.positions.learned import Learned

SIZES: dict[str, Any] = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
LEFT = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
RIGHT = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def test_one_position_past_the_table_is_refused_with_place_and_rows() -> None:
    encoding = Learned(1024, 4)
    x = torch.zeros(2, 1500, 4)
    with pytest.raises(PositionError, match=r"holds 1024 at column 1024.*1024 positions"):
        encoding.embed(x, torch.arange(1500))
    ids = torch.zeros(2, 1500, dtype=torch.int64)
    ids[1, 7] = 1024
    with pytest.raises(PositionError, match="holds 1024 at row 1, column 7; allowed is 0 to 1023"):
        encoding.embed(x, ids)
    ids[1, 7] = 1023
    assert torch.equal(encoding.embed(x, ids)[1, 7], encoding.weight[1023])


def test_an_offset_does_not_hide_the_end() -> None:
    # Position 6 of 8 plus an offset of 2 would be a row; position 8 is none.
    encoding = Learned(8, 4, offset=2)
    assert encoding.weight.shape == (10, 4)
    assert torch.equal(encoding.table(torch.tensor([7]))[0], encoding.weight[9])
    with pytest.raises(PositionError, match="holds 8"):
        encoding.table(torch.tensor([8]))


def test_gpt2_adds_the_row_of_each_position() -> None:
    from transformers import GPT2Config, GPT2Model

    model: Any = GPT2Model(
        GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    ).eval()
    encoding = Learned(16, 8)
    encoding.load_state_dict(model.wpe.state_dict())
    ids = torch.tensor([[3, 4, 5, 6, 7]])
    seen = first_input(model.h[0], lambda: model(ids))
    assert torch.equal(encoding.embed(model.wte(ids), torch.arange(5)), seen)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("mask", [LEFT, RIGHT])
def test_bert_and_roberta_count_as_transformers_does(kind: Convention, mask: torch.Tensor) -> None:
    from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

    known: dict[str, Any] = {
        "bert": lambda: BertModel(BertConfig(max_position_embeddings=16, **SIZES)),
        "roberta": lambda: RobertaModel(RobertaConfig(max_position_embeddings=16, **SIZES)),
    }
    embeddings = known[kind]().eval().embeddings
    ids = torch.where(mask.bool(), torch.tensor([[3, 4, 5, 6, 7]]), 1)
    encoding = Learned(16, 8, padding_idx=1 if kind == "roberta" else None)
    encoding.load_state_dict(embeddings.position_embeddings.state_dict())
    seen: list[torch.Tensor] = []
    embeddings.LayerNorm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    embeddings(ids)
    tokens = embeddings.word_embeddings(ids) + embeddings.token_type_embeddings.weight[0]
    ours = encoding.embed(tokens, position_ids_from_mask(mask, kind))
    assert torch.allclose(ours, seen[0], atol=1e-7)


def test_the_offset_form_of_roberta_reads_the_same_rows() -> None:
    counted, shifted = Learned(514, 4, padding_idx=1), Learned(512, 4, offset=2)
    shifted.load_state_dict(counted.state_dict())
    real = LEFT.bool()
    one = counted.table(position_ids_from_mask(LEFT, "roberta"))
    other = shifted.table(position_ids_from_mask(LEFT))
    assert torch.equal(one[real], other[real])


def test_masks_give_the_ids_that_each_convention_has() -> None:
    row = LEFT[:1]
    assert position_ids_from_mask(row).tolist() == [[0, 0, 0, 1, 2]]
    assert position_ids_from_mask(row, padding_position=1).tolist() == [[1, 1, 0, 1, 2]]
    assert position_ids_from_mask(row.bool(), "bert").tolist() == [[0, 1, 2, 3, 4]]
    assert position_ids_from_mask(row, "roberta").tolist() == [[1, 1, 2, 3, 4]]


def test_masks_that_are_none_are_refused() -> None:
    with pytest.raises(TensorError, match="shape"):
        position_ids_from_mask(torch.ones(3, dtype=torch.int64))
    with pytest.raises(TensorError, match="float32"):
        position_ids_from_mask(torch.ones(1, 3))
    with pytest.raises(UsageError, match="'opt' is not known"):
        position_ids_from_mask(LEFT, "opt")  # type: ignore[arg-type]


def test_left_padded_rows_get_what_they_would_get_alone() -> None:
    encoding, x = Learned(8, 4), torch.randn(2, 5, 4)
    padded = encoding.embed(x, position_ids_from_mask(LEFT))
    assert torch.equal(padded[:1, 2:], encoding.embed(x[:1, 2:], torch.arange(3)))


def test_the_padding_row_starts_at_zero_and_takes_no_gradient() -> None:
    encoding = Learned(6, 4, padding_idx=1)
    assert not encoding.weight[1].any()
    encoding.table(torch.tensor([0, 1, 1, 2])).sum().backward()
    assert encoding.weight.grad is not None
    assert encoding.weight.grad.sum(dim=1).tolist() == [4, 0, 4, 0, 0, 0]


def test_gradients_of_vectors_and_rows_are_those_of_finite_differences() -> None:
    encoding = Learned(4, 3).double()
    x = torch.randn(1, 3, 3, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([[0, 2, 2]])

    def added(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.func.functional_call(encoding, {"weight": weight}, (x, ids))
        return out

    encoding.forward = encoding.embed
    assert torch.autograd.gradcheck(added, (x, encoding.weight))


def test_a_table_initialised_on_the_meta_device_is_drawn_afterwards() -> None:
    with torch.device("meta"):
        encoding = Learned(50, 40, padding_idx=1)
    encoding.to_empty(device="cpu").reset_parameters()
    assert 0.015 < float(encoding.weight.detach().std()) < 0.025
    assert not encoding.weight[1].any()


@pytest.mark.parametrize(
    ("sizes", "named"),
    [((0, 4), "rows is 0"), ((4, 0), "d_model 0"), ((4, 4, -1), "offset -1")],
)
def test_sizes_that_make_no_table_are_refused(sizes: tuple[int, ...], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Learned(*sizes)


def test_a_padding_row_outside_the_table_is_refused() -> None:
    with pytest.raises(UsageError, match=r"padding_idx is 4; .* 0 to 3"):
        Learned(4, 4, padding_idx=4)


def first_input(module: torch.nn.Module, run: Any) -> torch.Tensor:
    """The first positional input of a module while `run` runs."""
    seen: list[torch.Tensor] = []
    handle = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    run()
    handle.remove()
    return seen[0]
