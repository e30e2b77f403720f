"""Rotated queries and keys equal those of transformers, layout by layout, on tiny tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ropewalk.positions.axes import Axial
from ropewalk.positions.rotary import Rotary
from ropewalk.rope import spec
from ropewalk.rope.sections import SectionLayout

DIM = 16
BASE = 10_000.0
IDS = torch.tensor([[0, 1, 2, 3, 50], [7, 7, 9, 1000, 0]])
IMAGE_IDS = torch.stack((IDS, IDS.flip(-1), IDS + 3))
"""Positions on three axes, all different, as no text has them."""


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(2, 4, 5, DIM, generator=generator),
        torch.randn(2, 2, 5, DIM, generator=generator),
    )


def config(**rope: Any) -> Any:
    """What a rotary module of transformers reads of a configuration."""
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=4 * DIM,
        num_attention_heads=4,
        head_dim=DIM,
        max_position_embeddings=64,
        rope_parameters={"rope_type": "default", "rope_theta": BASE, **rope},
    )


def agree(ours: Any, theirs: Any) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        # Their angles are fp32: 1e-4 rad at position 1000.
        assert torch.allclose(mine, other, atol=5e-4)


def test_half_layout_is_that_of_llama() -> None:
    from transformers.models.llama import modeling_llama as llama

    q, k = vectors()
    cos, sin = llama.LlamaRotaryEmbedding(config())(q, IDS)
    ours = Rotary(spec.RotarySpec(DIM, DIM, BASE)).rotate(q, k, IDS)
    agree(ours, llama.apply_rotary_pos_emb(q, k, cos, sin))


def test_interleaved_layout_is_that_of_cohere() -> None:
    from transformers.models.cohere import modeling_cohere as cohere

    q, k = vectors()
    cos, sin = cohere.CohereRotaryEmbedding(config())(q, IDS)
    ours = Rotary(spec.RotarySpec(DIM, DIM, BASE, "interleaved")).rotate(q, k, IDS)
    agree(ours, cohere.apply_rotary_pos_emb(q, k, cos, sin))


def test_partial_interleaved_rotation_is_that_of_gptj() -> None:
    from transformers.models.gptj import modeling_gptj as gptj

    q, k = vectors()
    sin, cos = gptj.create_sinusoidal_positions(2048, 8)[IDS].chunk(2, dim=-1)

    def theirs(x: torch.Tensor) -> torch.Tensor:
        # GPT-J keeps heads after the sequence, and rotates the first channels.
        x = x.transpose(1, 2)
        rotated = gptj.apply_rotary_pos_emb(x[..., :8], sin, cos)
        return torch.cat((rotated, x[..., 8:]), dim=-1).transpose(1, 2)

    ours = Rotary(spec.RotarySpec(DIM, 8, BASE, "interleaved")).rotate(q, k, IDS)
    agree(ours, (theirs(q), theirs(k)))


def test_partial_interleaved_rotation_is_that_of_glm() -> None:
    from transformers.models.glm import modeling_glm as glm

    q, k = vectors()
    cos, sin = glm.GlmRotaryEmbedding(config(partial_rotary_factor=0.5))(q, IDS)
    ours = Rotary(spec.RotarySpec(DIM, 8, BASE, "interleaved")).rotate(q, k, IDS)
    agree(ours, glm.apply_rotary_pos_emb(q, k, cos, sin))


@pytest.mark.parametrize(
    ("module", "name", "sections", "layout"),
    [
        ("qwen2_vl", "Qwen2VLRotaryEmbedding", (2, 3, 3), "chunked"),
        ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", (4, 2, 2), "interleaved"),
    ],
)
@pytest.mark.parametrize("text", [False, True])
def test_three_axes_are_dealt_as_in_qwen(
    module: str, name: str, sections: tuple[int, ...], layout: SectionLayout, text: bool
) -> None:
    from importlib import import_module

    theirs: Any = import_module(f"transformers.models.{module}.modeling_{module}")
    q, k = vectors()
    rotary: Any = getattr(theirs, name)(config(mrope_section=list(sections)))
    # Text has one position, the same on every axis; it may be given once.
    all_axes = IDS.expand(3, -1, -1) if text else IMAGE_IDS
    cos, sin = rotary(q, all_axes)
    ours = Rotary(spec.RotarySpec(DIM, DIM, BASE, sections=sections, section_layout=layout))
    agree(
        ours.rotate(q, k, IDS if text else IMAGE_IDS),
        theirs.apply_rotary_pos_emb(q, k, cos, sin),
    )


def test_two_axes_are_those_of_the_image_tower_of_qwen2_vl() -> None:
    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen

    grid = torch.stack((torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 0, 1, 5])))
    q, k = vectors()
    # Frequencies of a head half as wide, height before width, repeated for the two halves.
    inv_freq = BASE ** (-torch.arange(0, DIM // 2, 2).double() / (DIM // 2))
    angles = torch.cat([grid[a][:, None] * inv_freq for a in (0, 1)], dim=-1).repeat(1, 2)
    theirs = qwen.apply_rotary_pos_emb_vision(
        q[0].transpose(0, 1), k[0].transpose(0, 1), angles.cos(), angles.sin()
    )
    ours = Rotary(spec.RotarySpec(DIM, DIM, BASE), axes=Axial()).rotate(
        q[:1], k[:1], grid[:, None, :]
    )
    agree([x[0].transpose(0, 1) for x in ours], theirs)
