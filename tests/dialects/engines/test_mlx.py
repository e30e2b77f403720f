"""The mlx row beside the model classes of the installed mlx-lm, file by file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.engines import EngineView, engine_views
from ropewalk.dialects.hf import read_config

pytest.importorskip("mlx_lm", reason="pip install --no-deps mlx mlx-cpu mlx-lm")

from atlas.engines import mlx_models, mlx_table

DATA = Path(__file__).parents[2] / "published/engines.json"
CONFIGS: dict[str, dict[str, Any]] = json.loads(DATA.read_text("utf-8"))["configs"]
POSITION = 9000
"""Where both are asked: a dynamic base has grown there."""


def own(config: Mapping[str, Any]) -> mlx_models.Observed | str:
    """What mlx-lm builds of the file, or the error it stops with."""
    try:
        return mlx_models.observe(config, POSITION)
    except Exception as error:  # noqa: BLE001 - whatever it raises
        return f"{type(error).__name__}: {error}"


def rows(config: Mapping[str, Any], served: int = POSITION + 1) -> list[EngineView]:
    found = engine_views(read_config(config), served=served)
    return [view for view in found if view.engine == "mlx-lm"]


def apart(views: list[EngineView], turn: mlx_models.Turn) -> str:
    """How the nearest row differs from a module; nothing where one is the same."""
    told = "no row"
    for view in views:
        theirs = [w for w in turn.inv_freq if w > 0.0]
        ours = [w for w in view.inv_freq if w > 0.0]
        if len(ours) != len(theirs):
            told = f"{len(theirs)} pairs, ours {len(ours)}"
        elif not all(math.isclose(a, b, rel_tol=2e-5) for a, b in zip(ours, theirs, strict=True)):
            told = "other frequencies"
        elif abs((view.attention_factor or 0.0) - turn.amplitude) > 2e-5:
            told = f"cos and sin times {turn.amplitude}, ours {view.attention_factor}"
        else:
            return ""
    return told


def differences(config: Mapping[str, Any]) -> Iterator[str]:
    built, views = own(config), rows(config)
    stopped = [view for view in views if view.claim is None]
    if isinstance(built, str):
        if not stopped:
            yield f"it stops with {built}"
        return
    if stopped:
        yield f"it loads, and the row says {stopped[0].rules}"
        return
    yield from {f"layer: {why}" for turn in built.turns.values() if (why := apart(views, turn))}


# A key of windows of another type than its model file expects.
OTHERWISE = {"exaone4"}


@pytest.mark.parametrize("name", sorted({*CONFIGS} - OTHERWISE))
def test_the_row_is_what_mlx_lm_s_own_classes_build(name: str) -> None:
    assert list(differences(CONFIGS[name])) == []


SPELLED: list[dict[str, Any]] = [
    {"rope_theta": 50000.0},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}},
    {"rope_theta": 50000.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    {"rope_theta": 50000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0}},
    {
        "rope_theta": 50000.0,
        "rope_scaling": {
            "type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096,
        },
    },
    {
        "rope_parameters": {
            "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096,
            "rope_theta": 50000.0,
        },
    },
    {
        "rope_theta": 50000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50000.0},
    },
]  # fmt: skip
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gemma2", "olmo2",
            "granite", "cohere2", "glm4", "starcoder2", "smollm3", "ernie4_5", "lfm2",
            "seed_oss", "exaone", "internlm2", "phimoe", "nemotron", "stablelm")  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_of_each_spelling_are_as_built(family: str) -> None:
    file = mlx_models.remapped().get(family, family)
    wrong = {}
    for rope in SPELLED:
        config = {**mlx_models.sizes(file), "model_type": family, **rope}
        config.setdefault("partial_rotary_factor", 0.5)
        if told := list(differences(config)):
            wrong[json.dumps(rope)] = told
    assert wrong == {}


@pytest.mark.parametrize("name", ["llama", "qwen3", "glm", "gemma3_text", "deepseek_v2", "phi3"])
def test_the_committed_table_is_what_a_new_measurement_gives(name: str) -> None:
    committed = mlx_table.read()["files"][name]
    measured = mlx_table.File(name).entry()
    assert {**committed} == {**measured, "requires": committed["requires"]}


PUBLISHED = json.loads((DATA.parent / "configs.json").read_text("utf-8"))
BUILT = [each for each in PUBLISHED if "model_type" in each["config"]]


@pytest.mark.parametrize("published", BUILT, ids=lambda each: str(each["model"]))
def test_published_files_are_rotated_as_the_row_says(published: dict[str, Any]) -> None:
    config = dict(published["config"])
    model_type: str = config["model_type"]
    file = mlx_models.remapped().get(model_type, model_type)
    if "text_config" in config or file not in mlx_table.read()["files"] or mlx_models.nested(file):
        pytest.skip("a model inside another, or a type that it does not load")
    small = mlx_models.sizes(file)
    config |= mlx_models.FAMILY.get(file, {})
    beside = {key: value for key, value in small.items() if key in mlx_models.required(file)}
    layers = {key: small[key] for key in ("num_hidden_layers", "layer_types") if key in config}
    assert list(differences({**beside, **config, **layers})) == []


def test_every_model_file_of_the_table_has_a_row_whatever_came_of_it() -> None:
    table = mlx_table.read()
    for name in [*table["files"], *table["remapped"]]:
        config = {
            "model_type": name, "hidden_size": 512, "num_attention_heads": 4, "vocab_size": 100,
            "num_hidden_layers": 2, "max_position_embeddings": 4096, "rope_theta": 10_000.0,
        }  # fmt: skip
        views = engine_views(read_config(config))
        assert all(view.rules or view.claim for view in views if view.engine == "mlx-lm"), name
