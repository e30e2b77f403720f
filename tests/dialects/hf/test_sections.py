"""mRoPE from a configuration to turned q and k: transformers' own Qwen modules as the measure."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any, Literal

import pytest

from ropewalk.dialects.hf.reader import read_config
from ropewalk.errors import ScheduleError
from ropewalk.rope.schedules import Yarn
from ropewalk.rope.spec import PositionSpec, RotarySpec
from tests.configurations import write_json

FAMILIES = [
    ("qwen2_vl", "Qwen2VLTextConfig", "Qwen2VLRotaryEmbedding", [16, 24, 24], "chunked"),
    ("qwen2_5_vl", "Qwen2_5_VLTextConfig", "Qwen2_5_VLRotaryEmbedding", [16, 24, 24], "chunked"),
    ("qwen3_vl", "Qwen3VLTextConfig", "Qwen3VLTextRotaryEmbedding", [24, 20, 20], "interleaved"),
    ("qwen3_5", "Qwen3_5TextConfig", "Qwen3_5TextRotaryEmbedding", [11, 11, 10], "interleaved"),
]


def only(spec: PositionSpec) -> RotarySpec:
    _, rotary = next(iter(spec.rotary_groups()))
    return rotary


def text_config(model_type: str = "qwen3_vl_text", **rope: Any) -> dict[str, Any]:
    return {
        "model_type": model_type, "hidden_size": 512, "num_attention_heads": 4, "head_dim": 128,
        "num_hidden_layers": 2, "max_position_embeddings": 32768,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5e6, **rope},
    }  # fmt: skip


@pytest.mark.parametrize("stated", [True, False], ids=["stated", "left to the code"])
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "yarn"])
@pytest.mark.parametrize(("module", "config_name", "rotary_name", "sections", "layout"), FAMILIES)
def test_the_configuration_alone_turns_q_and_k_as_the_model_does(
    module: str, config_name: str, rotary_name: str, sections: list[int], layout: str,
    scaled: bool, stated: bool,
) -> None:  # fmt: skip
    torch = pytest.importorskip("torch")
    from ropewalk.positions.rotary import Rotary as Module

    theirs: Any = import_module(f"transformers.models.{module}.modeling_{module}")
    configs: Any = import_module(f"transformers.models.{module}.configuration_{module}")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}
    rope = {"rope_theta": 1e6, **(yarn if scaled else {"rope_type": "default"})}
    rope |= {"mrope_section": sections} if stated else {}
    if module == "qwen3_5":
        rope["partial_rotary_factor"] = 0.25
    config = getattr(configs, config_name)(
        hidden_size=512, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=4,
        head_dim=256 if module == "qwen3_5" else 128, max_position_embeddings=32768,
        rope_parameters=rope,
    )  # fmt: skip
    rotary = only(read_config(config.to_dict()))
    assert (rotary.sections, rotary.section_layout) == (tuple(sections), layout)
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, n, 5, rotary.head_dim, generator=generator) for n in (4, 2))
    ids = torch.randint(0, 64, (3, 2, 5), generator=generator)
    cos, sin = getattr(theirs, rotary_name)(config)(q, ids)
    expected = theirs.apply_rotary_pos_emb(q, k, cos, sin)
    for mine, other in zip(Module(rotary).rotate(q, k, ids), expected, strict=True):
        # Their frequencies are off by up to 8e-7, times 63 positions.
        assert torch.allclose(mine, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize(
    ("model_type", "sections", "layout"),
    [
        ("qwen2_vl_text", [16, 24, 24], "chunked"),
        ("qwen3_vl_text", [24, 20, 20], "interleaved"),
    ],
)
def test_sections_and_their_layout_are_written_and_read_back(
    model_type: str, sections: list[int], layout: str, version: Literal[4, 5]
) -> None:
    before = text_config(model_type, mrope_section=sections)
    spec = read_config(before)
    groups = tuple(
        replace(g, encoding=replace(only(spec), scaling=Yarn(2.0, 32768))) for g in spec.groups
    )
    written = write_json(replace(spec, groups=groups), before, version)
    rope: Any = written["rope_parameters" if version == 5 else "rope_scaling"]
    assert rope["mrope_section"] == sections
    # vLLM goes by this key.
    assert rope.get("mrope_interleaved", False) == (layout == "interleaved")
    found = only(read_config(written))
    assert (found.sections, found.section_layout) == (tuple(sections), layout)


def test_a_layout_that_the_family_s_code_does_not_have_is_refused() -> None:
    before = text_config("qwen2_vl_text", mrope_section=[24, 20, 20])
    spec = read_config(before)
    groups = tuple(
        replace(g, encoding=replace(only(spec), section_layout="interleaved")) for g in spec.groups
    )
    with pytest.raises(ScheduleError, match=r"section_layout of .* chunked would be read back"):
        write_json(replace(spec, groups=groups), before, 5)


@pytest.mark.parametrize(
    ("config", "code", "severity"),
    [
        (text_config(), "mrope-sections-from-library-default", "note"),
        (
            text_config(mrope_section=[24, 20, 20], mrope_interleaved=False),
            "mrope-interleaved-not-read",
            "warning",
        ),
        (
            text_config("qwen2_vl_text", mrope_section=[16, 24, 24], mrope_interleaved=True),
            "mrope-interleaved-not-read",
            "warning",
        ),
        (text_config(mrope_section=[16, 24, 24]), "mrope-sections-do-not-fit", "warning"),
        (
            text_config("ernie4_5_vl_moe_text", mrope_section=[22, 22, 20]),
            "mrope-of-its-own",
            "note",
        ),
    ],
)
def test_what_a_reader_might_miss_is_remarked_on(
    config: dict[str, Any], code: str, severity: str
) -> None:
    remarks = {remark.code: remark.severity for remark in read_config(config).findings}
    assert remarks.get(code) == severity


def test_an_unknown_family_goes_by_the_key() -> None:
    for flag, layout in ((True, "interleaved"), (False, "chunked"), (None, "chunked")):
        config = text_config("a_new_vl", mrope_section=[24, 20, 20], mrope_interleaved=flag)
        assert only(read_config(config)).section_layout == layout
