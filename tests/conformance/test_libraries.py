"""Other libraries of positional encodings: the same numbers, or the difference stated.

Compared on small tensors with rotary-embedding-torch, x-transformers and positional-encodings.
All three compute angles in fp32, ours in fp64, which is the tolerance below.
"""

from __future__ import annotations

from typing import Any

import pytest

from ropewalk.rope import spec
from ropewalk.rope.schedules import Linear, Ntk

torch = pytest.importorskip("torch")

from ropewalk import positions  # noqa: E402
from ropewalk.positions.alibi import Alibi  # noqa: E402
from ropewalk.positions.t5 import T5Bias  # noqa: E402

DIM, LENGTH = 32, 40
IDS = torch.arange(LENGTH)
ROTARY = spec.RotarySpec(DIM, DIM, 10_000.0, "interleaved")
CLOSE = 2e-5
"""fp32 angles of up to 40 radians are off by 40 x 2^-24 each."""


def vectors(seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(1, 2, LENGTH, DIM, generator=generator) for _ in range(2))


@pytest.fixture
def rotary_embedding_torch() -> Any:
    return pytest.importorskip("rotary_embedding_torch").RotaryEmbedding


@pytest.fixture
def x_transformers() -> Any:
    pytest.importorskip("x_transformers")
    from x_transformers import x_transformers as module

    return module


@pytest.fixture
def encodings() -> Any:
    pytest.importorskip("positional_encodings")
    from positional_encodings import torch_encodings

    return torch_encodings


def agree(ours: Any, theirs: Any, within: float = CLOSE) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, other, rtol=0, atol=within)


@pytest.mark.parametrize(
    ("scaling", "options"),
    [
        (None, {}),
        (Linear(4.0), {"interpolate_factor": 4.0}),
        (Ntk(4.0), {"theta_rescale_factor": 4.0}),
    ],
    ids=["plain", "interpolated", "NTK"],
)
def test_rotary_embedding_torch_rotates_as_the_interleaved_layout(
    rotary_embedding_torch: Any, scaling: Any, options: dict[str, float]
) -> None:
    q, k = vectors()
    theirs = rotary_embedding_torch(DIM, **options)
    made = ROTARY if scaling is None else spec.RotarySpec(DIM, DIM, 1e4, "interleaved", scaling)
    ours = positions.Rotary(made).rotate(q, k, IDS)
    agree(ours, (theirs.rotate_queries_or_keys(q), theirs.rotate_queries_or_keys(k)))


def test_rotary_embedding_torch_rotates_a_part_of_a_head_the_same(
    rotary_embedding_torch: Any,
) -> None:
    q, k = vectors()
    theirs = rotary_embedding_torch(DIM // 2)
    ours = positions.Rotary(spec.RotarySpec(DIM, DIM // 2, 1e4, "interleaved")).rotate(q, k, IDS)
    agree(ours, (theirs.rotate_queries_or_keys(q), theirs.rotate_queries_or_keys(k)))


def test_xpos_scores_are_those_of_rotary_embedding_torch(rotary_embedding_torch: Any) -> None:
    """Its vectors are ours with the centre in the middle of the sequence at hand: a token's key
    there changes with the length of the prompt. Scores do not depend on the centre.
    """
    q, k = vectors()
    theirs = rotary_embedding_torch(DIM, use_xpos=True).rotate_queries_and_keys(q, k)
    middle = positions.XPos(ROTARY, centre=LENGTH // 2).rotate(q, k, IDS)
    agree(middle, theirs)
    start = positions.XPos(ROTARY).rotate(q, k, IDS)
    agree([scores(*start)], [scores(*theirs)], within=2e-4)
    assert not torch.allclose(start[0], theirs[0], atol=1e-2)


def scores(q: Any, k: Any) -> Any:
    return q @ k.transpose(-1, -2)


@pytest.mark.parametrize(
    ("scaling", "options"),
    [
        (None, {}),
        (Linear(4.0), {"interpolation_factor": 4.0}),
        (Ntk(4.0), {"base_rescale_factor": 4.0}),
    ],
    ids=["plain", "interpolated", "NTK"],
)
def test_rotary_of_x_transformers_rotates_as_the_interleaved_layout(
    x_transformers: Any, scaling: Any, options: dict[str, float]
) -> None:
    q, k = vectors()
    freqs, scale = x_transformers.RotaryEmbedding(DIM, **options)(IDS)
    made = ROTARY if scaling is None else spec.RotarySpec(DIM, DIM, 1e4, "interleaved", scaling)
    ours = positions.Rotary(made).rotate(q, k, IDS)
    agree(ours, (x_transformers.apply_rotary_pos_emb(x, freqs, scale) for x in (q, k)))


@pytest.mark.parametrize("heads", [2, 8, 12])
def test_alibi_of_x_transformers_is_the_symmetric_one(x_transformers: Any, heads: int) -> None:
    theirs = x_transformers.AlibiPositionalBias(heads)(LENGTH, LENGTH)
    ours = Alibi(heads, symmetric=True).score_bias(IDS, IDS)
    agree([ours], [theirs], within=1e-6 * LENGTH)


@pytest.mark.parametrize("causal", [True, False])
def test_relative_buckets_of_x_transformers_are_those_of_t5(
    x_transformers: Any, causal: bool
) -> None:
    theirs = x_transformers.RelativePositionBias(scale=1.0, causal=causal, heads=2)
    ours = T5Bias(2, bidirectional=not causal)
    ours.weight.data.copy_(theirs.relative_attention_bias.weight.data)
    ids = torch.arange(200)
    agree([ours.score_bias(ids, ids)], [theirs(200, 200)], within=1e-6)


def test_sinusoids_of_x_transformers_are_marians_times_a_learned_scale(
    x_transformers: Any,
) -> None:
    x = torch.zeros(1, LENGTH, DIM)
    theirs = x_transformers.ScaledSinusoidalEmbedding(DIM)(x)
    ours = positions.Sinusoidal(DIM, "marian").table(IDS)
    agree([ours / DIM**0.5], [theirs])


def test_positional_encodings_has_the_papers_sinusoids(encodings: Any) -> None:
    x = torch.zeros(1, LENGTH, DIM)
    theirs = encodings.PositionalEncoding1D(DIM)(x)
    agree([positions.Sinusoidal(DIM, "paper").embed(x, IDS)], [theirs])


def test_positional_encodings_rounds_an_odd_width_up_where_we_refuse_it(encodings: Any) -> None:
    theirs = encodings.PositionalEncoding1D(DIM - 1)(torch.zeros(1, LENGTH, DIM - 1))
    ours = positions.Sinusoidal(DIM, "paper").table(IDS)
    agree([ours[:, : DIM - 1]], theirs)
    from ropewalk.errors import UsageError

    with pytest.raises(UsageError, match="must be even"):
        positions.Sinusoidal(DIM - 1, "paper")
