"""Sinusoids: the published table, bounds far out, and the tables of old checkpoints."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from ropewalk.errors import TensorError, UsageError
from ropewalk.positions.sinusoidal import Sinusoidal

PUBLISHED = [
    [0.000, 1.000, 0.000, 1.000],
    [0.841, 0.540, 0.010, 1.000],
    [0.909, -0.416, 0.020, 1.000],
    [0.141, -0.990, 0.030, 1.000],
]


def test_the_table_of_four_channels_is_the_published_one() -> None:
    table = Sinusoidal(4).table(torch.arange(4))
    assert [[round(v, 3) + 0.0 for v in row] for row in table.tolist()] == PUBLISHED


def test_every_component_stays_within_one_also_far_out() -> None:
    ids = torch.tensor([0, 1, 99_999, 100_000, 1_048_576])
    assert Sinusoidal(64).table(ids).abs().max() <= 1.0


def test_channel_0_rotates_once_in_about_six_positions_and_channel_2_in_628() -> None:
    inv_freq = Sinusoidal(4).constants["inv_freq"]
    assert [round(2 * math.pi / f, 2) for f in inv_freq.tolist()] == [6.28, 628.32]


@pytest.mark.parametrize("offset", [1, 5, 1000])
def test_an_offset_is_one_rotation_for_every_position(offset: int) -> None:
    encoding = Sinusoidal(8)
    table = encoding.table(torch.arange(200_000, 200_050), torch.float64)
    further = encoding.table(torch.arange(200_000, 200_050) + offset, torch.float64)
    matrix = torch.zeros(8, 8, dtype=torch.float64)
    for i in range(4):
        angle = offset * 10_000 ** (-2 * i / 8)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[cos, -sin], [sin, cos]], dtype=torch.float64
        )
    assert (table @ matrix - further).abs().max() < 1e-9


def test_at_a_million_the_table_is_the_exact_one_to_1e_7(exact_waves: Any) -> None:
    table = Sinusoidal(128).table(torch.tensor([1_048_576]))[0].tolist()
    for i, (cos, sin) in enumerate(exact_waves(1_048_576, 10_000.0, 128)):
        assert abs(table[2 * i] - sin) < 1e-7
        assert abs(table[2 * i + 1] - cos) < 1e-7


def test_the_variants_have_the_frequencies_of_their_sources() -> None:
    # Pair 1 at d = 512 and d = 4, as both rules give it.
    paper, old = (Sinusoidal(512, v).constants["inv_freq"][1] for v in ("paper", "tensor2tensor"))
    assert (round(float(paper), 5), round(float(old), 5)) == (0.96466, 0.96453)
    assert float(Sinusoidal(4).constants["inv_freq"][1]) == pytest.approx(0.01)
    assert float(Sinusoidal(4, "tensor2tensor").constants["inv_freq"][1]) == pytest.approx(0.0001)


def test_tensor2tensor_equals_the_tables_of_whisper_and_of_fairseq() -> None:
    from transformers.models.speech_to_text.modeling_speech_to_text import (
        Speech2TextSinusoidalPositionalEmbedding,
    )
    from transformers.models.whisper.modeling_whisper import sinusoids

    ids = torch.arange(50)
    assert torch.allclose(Sinusoidal(16, "tensor2tensor").table(ids), sinusoids(50, 16), atol=4e-6)
    for width in (16, 7):
        theirs = Speech2TextSinusoidalPositionalEmbedding.get_embedding(50, width)
        assert torch.allclose(Sinusoidal(width, "tensor2tensor").table(ids), theirs, atol=4e-6)


def test_marian_equals_the_table_of_transformers() -> None:
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    theirs = MarianSinusoidalPositionalEmbedding(20, 8).create_weight()
    assert torch.allclose(Sinusoidal(8, "marian").table(torch.arange(20)), theirs, atol=1e-6)


def test_an_odd_width_ends_in_a_zero_where_old_checkpoints_had_one() -> None:
    table = Sinusoidal(7, "tensor2tensor").table(torch.arange(5))
    assert table.shape == (5, 7)
    assert not table[:, -1].any()


@pytest.mark.parametrize("width", [-2, 0, 1, 3, 7])
@pytest.mark.parametrize("variant", ["paper", "marian"])
def test_a_width_that_makes_no_pairs_is_refused(width: int, variant: str) -> None:
    with pytest.raises(UsageError, match=f"d_model is {width}"):
        Sinusoidal(width, variant)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [2, 3])
def test_tensor2tensor_refuses_the_width_at_which_it_divides_by_zero(width: int) -> None:
    with pytest.raises(UsageError, match="divides by d_model/2 - 1, which is 0"):
        Sinusoidal(width, "tensor2tensor")


def test_a_base_or_a_variant_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="base is 1"):
        Sinusoidal(4, base=1.0)
    with pytest.raises(UsageError, match="'fairseq' is not known"):
        Sinusoidal(4, "fairseq")  # type: ignore[arg-type]


def test_packed_documents_get_what_each_would_get_alone() -> None:
    encoding, x = Sinusoidal(8), torch.randn(1, 7, 8)
    packed = encoding.embed(x, torch.tensor([[0, 1, 2, 0, 1, 2, 3]]))
    alone = [encoding.embed(x[:, :3], torch.arange(3)), encoding.embed(x[:, 3:], torch.arange(4))]
    assert torch.equal(packed, torch.cat(alone, dim=1))


def test_half_precision_vectors_are_summed_wide_and_rounded_once() -> None:
    # Of other numbers one in thousands lies on the edge between two values of bfloat16.
    x = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    encoding, ids = Sinusoidal(8).to(torch.bfloat16), torch.arange(3000, 3005)
    expected = (x.double() + encoding.table(ids, torch.float64)).to(torch.float32).bfloat16()
    assert torch.equal(encoding.embed(x, ids), expected)


@pytest.mark.parametrize("shape", [(1, 5, 7), (5, 8)])
def test_vectors_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(TensorError, match="token vectors have shape"):
        Sinusoidal(8).embed(torch.zeros(shape), torch.arange(5))
