"""Models brought up from folders and files, sound and not."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import ConfigError, MissingPartError, ModelFileError, UsageError
from ropewalk.models.dtypes import DTYPES, torch_dtype
from ropewalk.models.load import LoadedModel, check_device, load, load_blocks
from ropewalk.models.resolve import resolve

Build = Callable[..., Any]
Save = Callable[..., Path]


def bring_up(path: Path, dtype: str = "fp32") -> LoadedModel:
    device, kind = check_device("cpu", dtype)
    return load(resolve(str(path)), device=device, dtype=kind)


@pytest.fixture
def folder(build: Build, save: Save) -> Path:
    return save(build())


def edit(folder: Path, **keys: Any) -> Path:
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | keys))
    return folder


def refused(path: Path) -> str:
    """The one sentence with which loading ends."""
    with pytest.raises(ModelFileError) as told:
        bring_up(path)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert "trust_remote_code" not in sentence
    assert len(sentence) < 600
    return sentence


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_weights_are_the_saved_ones_in_the_dtype_asked_for(
    build: Build, folder: Path, dtype: str
) -> None:
    loaded = bring_up(folder, dtype)
    # auto on a CPU.
    kind = torch_dtype("fp32" if dtype == "auto" else dtype)
    expected = build().state_dict()
    found = loaded.model.state_dict()
    assert set(found) == set(expected)
    for name, weight in expected.items():
        assert torch.equal(found[name], weight.to(kind)), name
    assert not loaded.model.training
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.tokenizer("x")["input_ids"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_rotary_table_stays_in_full_precision(folder: Path, dtype: str) -> None:
    assert bring_up(folder, dtype).model.model.rotary_emb.inv_freq.dtype == torch.float32


def test_the_identity_follows_configuration_and_weights(folder: Path, tmp_path: Path) -> None:
    first = bring_up(folder).identity
    assert bring_up(folder).identity == first
    copy = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    assert bring_up(copy).identity == first
    assert bring_up(edit(copy, rope_theta=20000.0)).identity != first
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    (copy / "config.json").write_bytes((folder / "config.json").read_bytes())
    assert bring_up(copy).identity != first


def test_nothing_reaches_the_terminal(folder: Path) -> None:
    """In a process of its own: bars and log levels of transformers are settings of a process."""
    code = (
        "import sys, torch\nfrom ropewalk.models.load import load\n"
        "from ropewalk.models.resolve import resolve\n"
        "load(resolve(sys.argv[1]), device=torch.device('cpu'), dtype=torch.bfloat16)\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("TRANSFORMERS_", "HF_"))}
    # Keys that transformers warns of.
    edit(folder, max_position_embeddings=8, bos_token_id=999)
    told = subprocess.run(
        [sys.executable, "-W", "default", "-c", code, str(folder)],
        capture_output=True, text=True, env=environ, check=True,
    )  # fmt: skip
    assert (told.stdout, told.stderr) == ("", "")


# What cannot be loaded


def test_a_configuration_alone_is_no_model_to_run(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"a configuration without weights; .* give its folder"):
        bring_up(folder / "config.json")


def test_a_folder_without_weights_says_how_to_get_them(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "no weights; to run a model of the hub, fetch them" in refused(folder)


@pytest.mark.parametrize("keep", [0, 4, 1000, -1000])
def test_damaged_weights_are_said_to_be_damaged(folder: Path, keep: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "are damaged or incomplete" in refused(folder)


def test_a_missing_part_of_split_weights_is_named(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    index = {"metadata": {}, "weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00002-of-00002.safetensors" in refused(folder)


def test_weights_of_another_shape_are_refused(folder: Path) -> None:
    assert "transformers cannot load" in refused(edit(folder, hidden_size=128))


def test_random_weights_never_stand_in_for_missing_ones(build: Build, save: Save) -> None:
    headless = save(build().model)
    assert "1 weights of" in (sentence := refused(headless))
    assert "such as lm_head.weight" in sentence


def test_a_configuration_that_transformers_refuses_is_a_sentence(folder: Path) -> None:
    assert "num_hidden_layers" in refused(edit(folder, num_hidden_layers="2"))


@pytest.mark.parametrize(
    "keys",
    [{"pad_token_id": 99999}, {"num_attention_heads": 0}, {"model_type": "nobodys"},
     {"hidden_act": "no-such"}, {"rope_parameters": {"rope_type": "no-such"}},
     {"vocab_size": -1}, {"dtype": "float7"}],
    ids=str,
)  # fmt: skip
def test_impossible_values_end_in_a_sentence(folder: Path, keys: dict[str, Any]) -> None:
    assert str(folder) in refused(edit(folder, **keys))


def test_a_folder_without_a_tokenizer_is_a_sentence(folder: Path) -> None:
    for path in folder.glob("tokenizer*"):
        path.unlink()
    assert "tokenizer" in refused(folder)


class Harm:
    """Writes a file when unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("form", ["torch", "pickle", "garbage"])
def test_a_pickle_that_holds_more_than_tensors_is_not_run(
    folder: Path, tmp_path: Path, form: str
) -> None:
    (folder / "model.safetensors").unlink()
    path, marker = folder / "pytorch_model.bin", tmp_path / "ran"
    if form == "torch":
        torch.save({"lm_head.weight": Harm(marker)}, path)
    else:
        path.write_bytes(pickle.dumps(Harm(marker)) if form == "pickle" else b"\x80\x04 hello")
    assert "code in it is never run; use a checkpoint in safetensors" in refused(folder)
    assert not marker.exists()


MODELING = """
open({marker!r}, "w").close()
from transformers import LlamaConfig as Config, LlamaForCausalLM as Model
"""


def with_code(folder: Path, marker: Path, **keys: Any) -> Path:
    (folder / "modeling_x.py").write_text(MODELING.format(marker=str(marker)))
    auto_map = {"AutoConfig": "modeling_x.Config", "AutoModelForCausalLM": "modeling_x.Model"}
    return edit(folder, auto_map=auto_map, **keys)


def test_code_that_travels_with_a_model_is_never_run_and_this_is_said(
    folder: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    with_code(folder, marker, model_type="nobodys")
    assert "needs the code that travels with its files (auto_map)" in refused(folder)
    assert not marker.exists()


def test_the_command_says_so_too_and_runs_nothing(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    with_code(folder, marker, model_type="nobodys")
    prove = ["prove", str(folder), "--lengths", "200", "--out", str(tmp_path / "run")]
    for words, code in ((["audit", str(folder)], 0), (prove, 1)):
        told = subprocess.run(
            [sys.executable, "-m", "ropewalk", *words], capture_output=True, text=True, check=False
        )
        assert told.returncode == code, told.stderr
        assert "never run" in " ".join((told.stdout + told.stderr).split())
        assert "Traceback" not in told.stderr
    assert not marker.exists()


def test_code_beside_an_architecture_of_transformers_is_not_needed(
    build: Build, folder: Path, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    loaded = bring_up(with_code(folder, marker))
    assert type(loaded.model) is type(build())
    assert not marker.exists()


def test_a_model_of_both_sides_is_not_one_that_goes_on_with_a_text(tmp_path: Path) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(d_model=32, d_ff=32, num_heads=2, num_layers=1, d_kv=16, vocab_size=257)
    T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    (tmp_path / "t5" / "generation_config.json").unlink(missing_ok=True)
    assert "is a t5 model, and not one that goes on with a text" in refused(tmp_path / "t5")


@pytest.mark.parametrize("model_type", ["bert", "llama"])
def test_blocks_are_loaded_of_a_model_of_any_kind_without_its_head(
    build: Build, save: Save, model_type: str
) -> None:
    made = build(model_type)
    blocks, tokenizer = load_blocks(resolve(str(save(made))), dtype=torch.float32)
    assert not hasattr(blocks, "lm_head")
    assert len(tokenizer("abc")["input_ids"]) == 3
    assert torch.equal(
        blocks.get_input_embeddings().weight, made.get_input_embeddings().weight.detach()
    )
    assert not any(parameter.requires_grad for parameter in blocks.parameters())


def test_blocks_with_missing_weights_or_none_are_refused(build: Build, save: Save) -> None:
    from safetensors.torch import load_file, save_file

    folder = save(build())
    weights = folder / "model.safetensors"
    kept = {k: v for k, v in load_file(weights).items() if "embed_tokens" not in k}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(ModelFileError, match=r"such as embed_tokens\.weight"):
        load_blocks(resolve(str(folder)), dtype=torch.float32)
    weights.unlink()
    with pytest.raises(ModelFileError, match="no weights; to run a model of the hub"):
        load_blocks(resolve(str(folder)), dtype=torch.float32)


def test_a_model_that_looks_ahead_would_read_off_the_answer(build: Build, save: Save) -> None:
    assert "sees the tokens behind the one it predicts" in refused(save(build("bert")))


@pytest.mark.parametrize("model_type", ["bert", "gpt_neox"])
def test_a_model_is_judged_by_what_it_does(build: Build, save: Save, model_type: str) -> None:
    # GPT-NeoX's configuration denies that it is a decoder; BERT's can be told to be one.
    keys = {"is_decoder": True} if model_type == "bert" else {}
    model = build(model_type, **keys)
    assert model.config.is_decoder is bool(keys)
    assert isinstance(bring_up(save(model)).model, type(model))


# Devices and dtypes


def test_auto_takes_a_gpu_where_there_is_one() -> None:
    device, dtype = check_device("auto", "bf16")
    assert device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert dtype is torch.bfloat16


@pytest.mark.parametrize("device", ["tpu", "", "cuda:99", "cpu:x", "gpu", "meta:-3"])
def test_a_device_that_is_not_here_is_a_usage_error(device: str) -> None:
    with pytest.raises(UsageError, match=f"--device '{device}' cannot be used: ") as told:
        check_device(device, "fp32")
    assert "\n" not in str(told.value)
    assert told.value.exit_code == 2


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "", "Tensor"])
def test_an_unknown_dtype_lists_the_known_ones(dtype: str) -> None:
    with pytest.raises(UsageError, match="choose one of auto, bf16, fp16, fp32"):
        check_device("cpu", dtype)


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_package_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    files = resolve(str(folder))
    for name in [n for n in sys.modules if n.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    runs: dict[str, Callable[[], object]] = {
        "torch": lambda: check_device("cpu", "fp32"),
        "transformers": lambda: load(files, device=torch.device("cpu"), dtype=torch.float32),
    }
    with pytest.raises(MissingPartError, match=rf'needs {package}, .* pip install "ropewalk\['):
        runs[package]()
