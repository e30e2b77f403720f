"""Rotations beside that of the layers, against what each class of transformers 5.24 computes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.second import INDEXERS
from ropewalk.findings import audit, to_json
from ropewalk.report.audit import document
from ropewalk.report.lines import text_lines
from ropewalk.rope.beside import AxisDealing, DualChunk
from ropewalk.rope.schedules import Llama3, Ntk, UnknownScaling, Yarn
from ropewalk.rope.spec import Finding, PositionSpec, RotarySpec, SecondRotation

FILES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("own_keys.json").read_text(encoding="utf-8")
)
SPARSE = FILES["deepseek-v32-sparse-words"]
CSM: dict[str, Any] = {
    "model_type": "csm", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
    "max_position_embeddings": 2048, "rope_theta": 500_000,
    "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 0.5, "low_freq_factor": 0.125,
        "original_max_position_embeddings": 1024, "rope_type": "llama3",
    },
    "depth_decoder_config": {
        "model_type": "csm_depth_decoder_model", "hidden_size": 1024, "num_hidden_layers": 4,
        "num_attention_heads": 8, "max_position_embeddings": 33, "rope_theta": 400_000,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 0.0078125, "low_freq_factor": 0.001953125,
            "original_max_position_embeddings": 16, "rope_type": "llama3",
        },
    },
}  # fmt: skip
"""Sesame's CSM-1B, but for the base of its depth decoder, which is the backbone's there."""
HUNYUAN: dict[str, Any] = {
    "model_type": "hunyuan_vl", "hidden_size": 1024, "num_hidden_layers": 24,
    "num_attention_heads": 16, "head_dim": 128, "max_position_embeddings": 32_768,
    "rope_theta": 10_000.0,
    "rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "xdrope",
                     "xdrope_section": [16, 16, 16, 16]},
}  # fmt: skip
"""HunyuanOCR's."""


def sparse(**changes: Any) -> PositionSpec:
    return read_config({k: v for k, v in {**SPARSE, **changes}.items() if v is not ...})


def told(found: PositionSpec, code: str) -> list[Finding]:
    return [each for each in audit(found).findings if each.code == code]


def one(found: PositionSpec, part: str) -> SecondRotation:
    (second,) = (each for each in found.second if each.part == part)
    return second


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layer_types": ["indexed_attention"] * 2},
        {"layer_types": ...},
        {"layer_types": ..., "index_topk": 1024, "index_n_heads": 32, "index_head_dim": 256},
        {"index_topk": 1024, "index_n_heads": 32, "index_head_dim": 256},
    ],
)
def test_an_indexer_is_named_by_the_words_the_type_or_the_keys(changes: dict[str, Any]) -> None:
    found = sparse(**changes)
    second = one(found, "indexer")
    rotary = second.rotary
    assert rotary is not None
    assert second.layers == (0, 1)
    assert (second.heads, second.keeps, rotary.head_dim) == (
        changes.get("index_n_heads", 64), changes.get("index_topk", 2048),
        changes.get("index_head_dim", 128),
    )  # fmt: skip
    # DeepSeek V3.2: half layout in the indexer, beside interleaved latent attention.
    assert (rotary.rotary_dim, rotary.layout, rotary.rope_theta) == (64, "half", 10_000.0)
    assert isinstance(rotary.scaling, Yarn)
    (finding,) = told(found, "second-rotation")
    assert "64 of" in finding.text
    assert "half layout" in finding.text
    assert "where the attention has the interleaved one" in finding.text
    stated = [key for key in changes if key.startswith("index")]
    assert all(f"{key} {changes[key]}" in finding.text for key in stated)
    assert "key-not-read" not in {each.code for each in found.findings}


@pytest.mark.parametrize("word", ["deepseek_sparse_attention", "qwen_sparse_attention",
                                  "indexed_attention", "compressed_sparse_attention"])  # fmt: skip
@pytest.mark.parametrize("model_type", ["llama", "qwen3_moe", "a_model_of_tomorrow"])
def test_words_of_sparse_attention_name_an_indexer_in_any_family(
    word: str, model_type: str
) -> None:
    config = FILES["llama-typo-layer-type"] | {
        "model_type": model_type, "layer_types": ["full_attention", word], "rope_theta": 5e5,
    }  # fmt: skip
    found = read_config(config)
    second = one(found, "indexer")
    assert (second.layers, second.rotary) == ((1,), None)
    (finding,) = told(found, "second-rotation")
    assert "how it rotates is not known here" in finding.text
    assert "layer_types" in finding.text


@pytest.mark.parametrize("model_type", sorted(INDEXERS))
def test_an_indexer_is_what_its_class_is(model_type: str) -> None:
    transformers = pytest.importorskip("transformers")
    name = model_type.removesuffix("_text")
    whole = transformers.AutoConfig.for_model(name)
    config = getattr(whole, "text_config", whole)
    module = pytest.importorskip(f"transformers.models.{name}.modeling_{name}")
    (indexer,) = (
        each for each in vars(module).values()
        if inspect.isclass(each) and each.__name__.endswith("Indexer")
    )  # fmt: skip
    text = inspect.getsource(inspect.unwrap(vars(indexer)["forward"]))
    facts = INDEXERS[model_type]
    widths = [getattr(config, key, None) for key in ("index_n_heads", "index_head_dim")]
    assert widths == [facts.heads, facts.head_dim]
    keeps = getattr(config, "index_topk", getattr(config, "index_topk_blocks", None))
    assert keeps == facts.keeps
    calls = {
        "interleaved": "apply_rotary_pos_emb_interleave(" in text or model_type == "deepseek_v4",
        "half": "apply_rotary_pos_emb(" in text and model_type != "deepseek_v4",
        None: "apply_rotary_pos_emb" not in text,
    }
    assert calls[facts.layout]


@pytest.mark.parametrize(
    ("keys", "own"),
    [
        ({}, (0, 1, 2, 3, 4, 5)),
        ({"indexer_types": ["full", "shared", "shared", "full", "shared", "shared"]}, (0, 3)),
        ({"index_topk_pattern": "FSSSSF"}, (0, 5)),
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, (0, 1, 2)),
        ({"index_topk_freq": 3}, (0, 1, 4)),
    ],
)
def test_layers_that_take_the_choice_of_others_have_no_indexer(
    keys: dict[str, Any], own: tuple[int, ...]
) -> None:
    found = sparse(model_type="glm_moe_dsa", num_hidden_layers=6, layer_types=..., **keys)
    assert one(found, "indexer").layers == own
    if "index_topk_freq" in keys:
        transformers = pytest.importorskip("transformers")
        config = transformers.AutoConfig.for_model("glm_moe_dsa", num_hidden_layers=6, **keys)
        assert own == tuple(i for i, kind in enumerate(config.indexer_types) if kind == "full")


def test_deepseek_v4_compresses_keys_and_rotates_them_where_they_begin() -> None:
    config = {
        "model_type": "deepseek_v4", "hidden_size": 512, "num_attention_heads": 4,
        "num_hidden_layers": 4, "head_dim": 512, "compress_ratios": [0, 4, 128, 4],
        "max_position_embeddings": 65_536, "rope_theta": 10_000, "compress_rope_theta": 160_000,
    }  # fmt: skip
    found = read_config(config)
    parts = {(each.part, each.layers, each.rate) for each in found.second}
    assert parts == {
        ("indexer", (1, 3), None), ("compressor", (1, 3), 4), ("compressor", (2,), 128),
    }  # fmt: skip
    for each in found.second:
        assert each.rotary is not None
        told_ = (each.rotary.rope_theta, each.rotary.rotary_dim, each.rotary.placement)
        assert told_ == (160_000.0, 64, "last")
        assert each.rotary.layout == "interleaved"


@pytest.mark.parametrize("key", ["sparse_attention_config", ""])
def test_minimax_m3_names_its_indexer_in_either_spelling(key: str) -> None:
    nested = {"sparse_num_index_heads": 8, "sparse_index_dim": 64, "sparse_topk_blocks": 32}
    flat = {"index_n_heads": 8, "index_head_dim": 64, "index_topk_blocks": 32}
    config = {
        "model_type": "minimax_m3_vl_text", "hidden_size": 512, "num_attention_heads": 4,
        "num_hidden_layers": 2, "layer_types": ["full_attention", "minimax_m3_sparse"],
        "partial_rotary_factor": 0.5, **({key: nested} if key else flat),
    }  # fmt: skip
    second = one(read_config(config), "indexer")
    assert (second.heads, second.keeps, second.layers) == (8, 32, (1,))
    assert second.rotary == RotarySpec(64, 64, 5e6)


@pytest.mark.parametrize(
    "key", ["num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"]
)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_layers_that_predict_further_tokens_are_named_with_their_key(key: str, count: int) -> None:
    found = sparse(model_type="deepseek_v3", layer_types=..., **{key: count})
    drafts = [each for each in found.second if each.part == "draft layers"]
    assert [each.layers for each in drafts] == ([tuple(range(2, 2 + count))] if count else [])
    if count:
        ((_, encoding),) = found.rotary_groups()
        assert drafts[0].rotary == encoding
        (finding,) = told(found, "draft-layers")
        assert f"{key} {count}" in finding.text


def test_a_depth_decoder_has_a_base_and_lengths_of_its_own() -> None:
    found = read_config(CSM)
    assert "unknown-model-type" not in {each.code for each in found.findings}
    ((_, backbone),) = found.rotary_groups()
    second = one(found, "depth decoder")
    assert second.rotary is not None
    assert (backbone.rope_theta, second.rotary.rope_theta) == (5e5, 4e5)
    assert (backbone.head_dim, second.rotary.head_dim) == (64, 128)
    assert second.claimed is not None
    assert (found.claimed.tokens, second.claimed.tokens) == (2048, 33)
    assert second.rotary.scaling == Llama3(32.0, 0.001953125, 0.0078125, 16)
    (finding,) = told(found, "second-rotation")
    assert "33 tokens" in finding.text
    assert "400,000" in finding.text


def test_four_axes_are_named_with_their_key_and_the_family_s_own_dealing() -> None:
    found = read_config(HUNYUAN)
    ((_, encoding),) = found.rotary_groups()
    assert encoding.scaling == Ntk(1000.0)
    assert found.axes is not None
    assert found.axes.sections == (16, 16, 16, 16)
    assert found.axes.keys == ("rope_scaling.xdrope_section",)
    assert [each.severity for each in told(found, "mrope-of-its-own")] == ["note"]
    other = read_config(HUNYUAN | {"model_type": "a_model_of_tomorrow"})
    ((_, unknown),) = other.rotary_groups()
    assert isinstance(unknown.scaling, UnknownScaling)
    assert other.axes == AxisDealing((16,) * 4, "", ("rope_scaling.xdrope_section",))


def test_ernie_deals_its_axes_out_in_its_own_way_stated_or_not() -> None:
    config = {
        "model_type": "ernie4_5_vl_moe_text", "hidden_size": 512, "num_attention_heads": 4,
        "num_hidden_layers": 2, "head_dim": 128,
    }  # fmt: skip
    for rope, keys in (({}, ()), ({"mrope_section": [22, 22, 20]},
                                  ("rope_parameters.mrope_section",))):  # fmt: skip
        found = read_config(config | {"rope_parameters": {"rope_type": "default", **rope}})
        assert found.axes is not None
        assert (found.axes.sections, found.axes.keys) == ((22, 22, 20), keys)


def test_dual_chunks_are_typed_and_their_angles_no_warning() -> None:
    found = read_config(FILES["qwen25_1m"])
    chunk = found.dual_chunk
    assert isinstance(chunk, DualChunk)
    assert (chunk.chunk_size, chunk.local_size, chunk.original) == (262_144, 8192, 262_144)
    assert [each.severity for each in told(found, "unseen-angles")] == ["note"]


@pytest.mark.parametrize("config", [SPARSE, CSM, HUNYUAN, FILES["qwen25_1m"]])
def test_all_of_it_is_in_the_audit_and_in_its_json(config: dict[str, Any]) -> None:
    found = audit(read_config(config))
    form = json.loads(json.dumps(to_json(found), allow_nan=False))
    spec = found.spec
    assert len(form["second"]) == len(spec.second)
    for each, written in zip(spec.second, form["second"], strict=True):
        assert written["part"] == each.part
        assert each.rotary is None or written["rotary"]["rope_theta"] == each.rotary.rope_theta
    assert (form["dual_chunk"] is None) == (spec.dual_chunk is None)
    assert (form["axes"] is None) == (spec.axes is None)
    text = "\n".join(text_lines(document(found).blocks, 80))
    assert all(f"{each.part}: layers" in text for each in spec.second)
