"""`--for ENGINE`: only schedules that the engine can serve are taken, and what is written it reads.

What an engine computes is said by its rules (`ropewalk.dialects.engines`), which are held against
published figures and running engines elsewhere; llama.cpp itself is in `tests/conformance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.engines import as_computed
from ropewalk.dialects.engines.mlx import MLX
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.hf.family import config_source
from ropewalk.errors import UsageError
from ropewalk.extension.made_for import MadeFor
from ropewalk.extension.methods import CLOSED_FORMS, NAMES, SearchedFactors, Stretch, extended
from ropewalk.extension.serve import ENGINES, For
from ropewalk.extension.session import extend
from ropewalk.extension.settings import ExtendSettings
from ropewalk.rope.frequencies import frequencies

SaveFolder = Callable[..., Path]
TARGET = 16384
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}
ALIKE = {name for name in NAMES if name != "longrope"}
"""Methods that turn every prompt alike: nearly every engine takes one schedule for all."""


def made_for(engine: For, **changes: Any) -> MadeFor:
    before = read_config(LLAMA | changes)
    return MadeFor(engine, before, TARGET, config_source(before))


@pytest.mark.parametrize(
    ("engine", "model_type", "able"),
    [
        ("transformers", "llama", set(NAMES)),
        ("vllm", "llama", ALIKE),
        ("llamacpp", "llama", ALIKE),
        ("mlx", "llama", ALIKE),
        # Its converter makes no tensor of divisors there, and its loader expects none.
        ("llamacpp", "qwen2", {"linear", "ntk", "yarn", "base"}),
        ("llamacpp", "qwen3_moe", {"linear", "ntk", "yarn", "base"}),
        # Its model file reads the base alone.
        ("mlx", "qwen3_moe", {"ntk", "base"}),
        # transformers' class of it takes longrope alone, of the two lists that no engine switches.
        ("vllm", "phi3", {"ntk", "base"}),
    ],
)
def test_the_methods_of_an_engine_are_those_that_it_can_serve_for_the_family(
    engine: For, model_type: str, able: set[str]
) -> None:
    made = made_for(engine, model_type=model_type)
    assert {form.name for form in made.methods()} == able
    for form in CLOSED_FORMS:
        if form.name in able:
            made.check(Stretch(form))
            continue
        listed = ", ".join(name for name in NAMES if name in able)
        with pytest.raises(UsageError, match=f"--method {form.name} cannot be had --for") as told:
            made.check(Stretch(form))
        assert str(told.value).endswith(f"{ENGINES[engine]} can serve {listed}")


@pytest.mark.parametrize(("engine", "able"), [("vllm", True), ("llamacpp", True), ("mlx", False)])
def test_a_search_is_begun_only_for_an_engine_that_can_serve_what_it_finds(
    engine: For, able: bool
) -> None:
    made = made_for(engine)
    if able:
        made.check_search()
        return
    # mlx-lm computes the amplitude itself.
    with pytest.raises(UsageError, match=r"--method search cannot be had --for mlx: .*attention"):
        made.check_search()


def test_what_llama_cpps_converter_loses_is_written_into_its_file_by_a_command_of_ours() -> None:
    found = made_for("llamacpp")
    after = extended(found.before, TARGET, SearchedFactors((2.0,) * 32, 1.1))
    options = found.options(after)
    assert options.line == f"--ctx-size {TARGET}"
    assert options.steps == (
        "python convert_hf_to_gguf.py FOLDER --outfile FOLDER-converted.gguf",
        "ropewalk convert FOLDER --to gguf --weights FOLDER-converted.gguf --out FOLDER.gguf",
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", sorted(ALIKE))
def test_a_folder_for_mlx_speaks_in_the_keys_that_it_reads(
    folder: SaveFolder, tmp_path: Path, method: str
) -> None:
    source, out = folder(), tmp_path / "longer"
    assert "rope_parameters" in load_json(source / "config.json")
    settings = ExtendSettings(str(source), 2048, method, engine="mlx", out=out)
    found = extend(settings)
    assert found.written is not None
    (served,) = found.written.serving
    assert (served.engine, served.line) == ("mlx-lm", "--model longer")
    card = (out / "README.md").read_text()
    assert "- mlx-lm serves these files with `--model longer`" in card
    assert "vLLM" not in card
    config = load_json(out / "config.json")
    assert "rope_parameters" not in config
    assert "rope_theta" in config
    computed = as_computed(MLX, read_config(config), served=2048)
    assert found.after is not None
    for length in (100, 2048):
        wanted = frequencies(found.after, length).fingerprint()
        assert frequencies(computed, length).fingerprint() == wanted


@pytest.mark.filterwarnings("ignore")
def test_auto_measures_only_what_the_engine_can_serve(folder: SaveFolder, tmp_path: Path) -> None:
    settings = ExtendSettings(
        str(folder()), 1024, engine="llamacpp", depths=(0.5,), trials=1,
        work=tmp_path / "work", device="cpu",
    )  # fmt: skip
    found = extend(settings)
    measured = {s.candidate.stretch.method.name for s in found.scores if s.candidate.stretch}
    assert measured == ALIKE
    assert found.headrooms is not None
    assert {each.method.name for each in found.headrooms.chosen} == measured
    assert [each.engine for each in found.options] == ["llama.cpp"]


def test_an_engine_that_can_serve_nothing_is_said_before_the_model_is_loaded(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"model_type": "nobodys_own"}))
    settings = ExtendSettings(str(path), TARGET, "llama3", engine="llamacpp")
    with pytest.raises(UsageError, match=r"what llama.cpp calls nobodys_own is not known"):
        extend(settings)


def test_a_name_that_is_no_engine_is_refused() -> None:
    settings = ExtendSettings("tiny", 1024, "yarn", engine="sglang")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="choose one of transformers, vllm, llamacpp, mlx"):
        extend(settings)
