"""Resized checkpoints: loaded by transformers, which is also what rows are held against."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PhiConfig,
    PhiForCausalLM,
)

from ropewalk.errors import ModelFileError, StoreError, UsageError
from ropewalk.models.resolve import resolve
from ropewalk.tables.open import open_tables
from ropewalk.tables.resized_checkpoint import ResizeOptions, resize_checkpoint

Numbers = Callable[..., Tensor]
EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"
IDS = torch.tensor([[3, 17, 42, 5]])


def small(folder: Path, tokens: int, made: Any, **options: Any) -> Path:
    """A model as transformers saves it, beside a tokenizer of `tokens` words."""
    made.eval().save_pretrained(folder, **options)
    word_level = {
        "model": {
            "type": "WordLevel",
            "vocab": {f"w{i}": i for i in range(tokens)},
            "unk_token": "w0",
        },
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(word_level))
    return folder


def llama(**changes: Any) -> LlamaForCausalLM:
    torch.manual_seed(1)
    sizes: Any = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    heads: Any = {"num_attention_heads": 2, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, **({"vocab_size": 50} | changes)))


def logits(folder: Path) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        found: Tensor = model(IDS).logits[0]
    return found


@pytest.mark.parametrize("tied", [True, False])
def test_shards_are_written_as_transformers_resizes_them(tmp_path: Path, tied: bool) -> None:
    model = llama(tie_word_embeddings=tied)
    # Small shards, so that the table is in one, the head in another, and layers in more.
    folder = small(tmp_path / "old", 50, model, max_shard_size="4KB")
    found = resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("new",), multiple=8))
    assert (found.rows_before, found.rows, found.resized.tied) == (50, 56, None if tied else False)
    # The outside truth: transformers' own resizing of the same model.
    model.resize_token_embeddings(51, pad_to_multiple_of=8, mean_resizing=True)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "new")
    assert again.config.vocab_size == model.config.vocab_size == 56
    for name, own in model.state_dict().items():
        new = again.state_dict()[name]
        if name in (EMBED, HEAD):
            assert torch.equal(new[:50], own[:50])
            # transformers draws around the mean with a billionth of the covariance.
            torch.testing.assert_close(new[50:], own[50:], rtol=0, atol=1e-3)
        else:
            assert torch.equal(new, own)
    assert torch.equal(logits(folder), logits(tmp_path / "new")[:, :50])
    index = json.loads((tmp_path / "new" / "model.safetensors.index.json").read_text())
    shards = {tmp_path / "new" / name for name in index["weight_map"].values()}
    held = [t for shard in shards for t in load_file(shard).values()]
    assert index["metadata"]["total_size"] == sum(t.nbytes for t in held)
    # What holds neither table is the same file under another name.
    same = [s for s in shards if s.stat().st_nlink == 2]
    assert len(same) == len(shards) - (1 if tied else 2)
    assert all(s.stat().st_mode == (folder / s.name).stat().st_mode for s in shards)


def test_tiny_gets_tokens_that_its_tokenizer_makes(tmp_path: Path) -> None:
    source = resolve("tiny").path
    added = ("<|tool|>", "river boat")
    options = ResizeOptions(add=added, special=True, rule="pieces", multiple=64)
    found = resize_checkpoint("tiny", tmp_path / "new", options)
    assert found.added == ((1536, "<|tool|>"), (1537, "river boat"))
    before, after = (AutoTokenizer.from_pretrained(f) for f in (source, tmp_path / "new"))
    assert len(after) == 1538
    assert after("a<|tool|> river boat")["input_ids"][-1] == 1537
    assert after.decode([1536, 1537], skip_special_tokens=True) == ""
    assert after("the old mill")["input_ids"] == before("the old mill")["input_ids"]
    assert torch.equal(logits(source), logits(tmp_path / "new")[:, :1536])
    rows = load_file(tmp_path / "new" / "model.safetensors")[EMBED]
    old = load_file(source / "model.safetensors")[EMBED]
    pieces = before("river boat", add_special_tokens=False)["input_ids"]
    torch.testing.assert_close(rows[1537], old[pieces].double().mean(0).float())
    torch.testing.assert_close(rows[1538:], old.double().mean(0).float().expand(62, -1))
    # Nothing else differs, and everything else is there.
    names = {p.name for p in source.iterdir() if p.is_file()}
    assert {p.name for p in (tmp_path / "new").iterdir()} == names
    config, own = (json.loads((f / "config.json").read_text()) for f in (source, found.path))
    assert own == config | {"vocab_size": 1600}


def test_an_output_bias_grows_with_its_head(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes: Any = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
    model = PhiForCausalLM(PhiConfig(vocab_size=50, num_attention_heads=2, **sizes))
    torch.nn.init.normal_(model.lm_head.bias)
    folder = small(tmp_path / "old", 50, model)
    options = ResizeOptions(add=("new",), rows=53)
    found = resize_checkpoint(folder, tmp_path / "new", options)
    names = [t.name for t in found.resized.tables]
    assert names == [EMBED, HEAD, "lm_head.bias"]
    bias, own = (load_file(f / "model.safetensors")["lm_head.bias"] for f in (folder, found.path))
    torch.testing.assert_close(own[50], bias.mean())
    assert own[51:].tolist() == [float(bias.min())] * 2
    assert torch.equal(logits(folder), logits(found.path)[:, :50])
    assert int(logits(found.path).argmax(-1).max()) < 50


def test_rows_behind_the_tokens_are_taken_by_new_ones_and_otherwise_stay(tmp_path: Path) -> None:
    folder = small(tmp_path / "old", 45, llama())
    found = resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("a", "b")))
    assert (found.rows, found.resized.dropped) == (50, (45, 46))
    old, new = (load_file(f / "model.safetensors")[EMBED] for f in (folder, found.path))
    torch.testing.assert_close(new[45:47], old[:45].mean(0).expand(2, -1))
    assert torch.equal(new[47:], old[47:])
    with pytest.raises(UsageError, match=r"lose 5 rows that hold values, 45 to 49 .*--drop"):
        resize_checkpoint(folder, tmp_path / "less", ResizeOptions(rows=45))
    less = resize_checkpoint(folder, tmp_path / "less", ResizeOptions(rows=45, drop=True))
    assert less.resized.dropped == (45, 46, 47, 48, 49)
    assert torch.equal(logits(folder)[:, :45], logits(tmp_path / "less"))


def test_a_tokenizer_that_is_longer_than_its_table_gets_its_rows(tmp_path: Path) -> None:
    folder = small(tmp_path / "old", 50, llama())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["w3w4", "long"])
    tokenizer.save_pretrained(folder)
    found = resize_checkpoint(folder, tmp_path / "new", ResizeOptions(rule="covariance"))
    assert (found.rows, found.resized.tokens, found.added) == (52, 52, ())
    rows = load_file(tmp_path / "new" / "model.safetensors")[EMBED]
    assert not torch.equal(rows[50], rows[51])
    found = resize_checkpoint(folder, tmp_path / "cut", ResizeOptions(rule="pieces"))
    assert [o.sources for o in found.resized.origins] == [(0,), (0,)]


def test_the_rows_are_written_where_a_text_part_has_them(tmp_path: Path) -> None:
    folder = small(tmp_path / "old", 50, llama())
    config = json.loads((folder / "config.json").read_text())
    whole = {"model_type": "llava", "text_config": config, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(whole))
    resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("new",)))
    written = json.loads((tmp_path / "new" / "config.json").read_text())
    assert written == whole | {"text_config": config | {"vocab_size": 51}}


def test_settings_that_list_added_tokens_list_the_new_ones(tmp_path: Path) -> None:
    folder = small(tmp_path / "old", 50, llama())
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({"added_tokens_decoder": {}, "model_max_length": 64}))
    resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("<new>",), special=True))
    said = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())
    assert said["model_max_length"] == 64
    assert said["added_tokens_decoder"]["50"]["content"] == "<new>"
    settings.write_text(json.dumps({"added_tokens_decoder": {"50": {"content": "<other>"}}}))
    with pytest.raises(UsageError, match=r"has a token 50 that tokenizer\.json lacks"):
        resize_checkpoint(folder, tmp_path / "no", ResizeOptions(add=("<new>",)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rule": "zeros"}, "a row of zeros has the logit 0"),
        ({"rule": "best"}, "the rule for new rows is 'best'; choose mean, covariance, pieces"),
        ({"add": ("",)}, "a new token is empty"),
        ({"add": ("a", "a")}, "the token 'a' is given twice"),
        ({}, "has 50 rows for 50 tokens, and stays as it is"),
        ({"rows": 49}, "49 rows were asked for, and the tokenizer has 50 tokens; ask for 50"),
        ({"rows": 50, "add": ("a",)}, "has 51 tokens, the new ones among them; ask for 51"),
        ({"add": ("w7",)}, "'w7' is token 7 of this tokenizer already"),
        ({"rows": 51, "rule": "covariance", "share": 0.0}, "share is 0"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_left(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    folder = small(tmp_path / "old", 50, llama())
    with pytest.raises(UsageError, match=said):
        resize_checkpoint(folder, tmp_path / "new", ResizeOptions(**options))
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_checkpoints_whose_rows_cannot_be_written_are_refused(
    tmp_path: Path, smollm2_gguf: Path, numbers: Numbers
) -> None:
    add = ResizeOptions(add=("a",))
    with pytest.raises(UsageError, match="is a GGUF, whose rows are quantised in blocks"):
        resize_checkpoint(smollm2_gguf, tmp_path / "new", add)
    folder = small(tmp_path / "old", 50, llama(tie_word_embeddings=False))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="a folder with files in it"):
        resize_checkpoint(folder, tmp_path / "full", add)
    weights = load_file(folder / "model.safetensors")
    extra = {"model.layers.2.embed_tokens.weight": numbers(50, 16)}
    save_file(weights | extra, folder / "model.safetensors")
    with pytest.raises(UsageError, match=r"has more tensors with 50 rows: model\.layers\.2\.embed"):
        resize_checkpoint(folder, tmp_path / "new", add)
    packed = weights | {EMBED: weights[EMBED].to(torch.float8_e4m3fn)}
    save_file(packed, folder / "model.safetensors")
    with pytest.raises(UsageError, match="is stored as F8_E4M3, and rows are made of plain floats"):
        resize_checkpoint(folder, tmp_path / "new", add)
    save_file({n: t for n, t in weights.items() if n != HEAD}, folder / "model.safetensors")
    with pytest.raises(ModelFileError, match="the head's weights are missing"):
        resize_checkpoint(folder, tmp_path / "new", add)
    save_file(weights, folder / "model.safetensors")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"has no tokenizer\.json to add tokens to.*--rows"):
        resize_checkpoint(folder, tmp_path / "new", add)
    assert resize_checkpoint(folder, tmp_path / "new", ResizeOptions(rows=60)).resized.tokens == 60
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match=r"takes a folder with config\.json"):
        resize_checkpoint(folder, tmp_path / "none", add)


def test_weights_of_other_formats_stay_behind_and_a_failure_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small(tmp_path / "old", 50, llama())
    (folder / "pytorch_model.bin").touch()
    (folder / "original").mkdir()
    found = resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("a",)))
    assert found.left_out == ("original", "pytorch_model.bin")
    assert open_tables(found.path).table("input").rows == 51
    shutil.rmtree(found.path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ropewalk.tables.resized_checkpoint.shutil.copymode", full)
    with pytest.raises(StoreError, match="No space left on device; nothing is left of it"):
        resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("a",)))
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


@pytest.fixture(autouse=True)
def quiet() -> None:
    """transformers tells of the mean that it resizes by."""
    logging.getLogger("transformers").setLevel(logging.ERROR)


def test_the_input_table_may_be_named_and_no_other_matrix_is_taken_for_it(tmp_path: Path) -> None:
    folder = small(tmp_path / "old", 50, llama(tie_word_embeddings=False))
    found = resize_checkpoint(folder, tmp_path / "new", ResizeOptions(add=("a",), tensor=EMBED))
    assert (found.rows_before, found.rows) == (50, 51)
    other = "model.layers.0.mlp.up_proj.weight"
    with pytest.raises(UsageError, match=f"no input table '{other}'; choose one of {EMBED}"):
        resize_checkpoint(folder, tmp_path / "more", ResizeOptions(add=("a",), tensor=other))
    assert not (tmp_path / "more").exists()
