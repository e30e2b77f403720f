from __future__ import annotations

import importlib.util
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ropewalk.errors import (
    MissingPartError,
    ModelFileError,
    RowError,
    UnknownModelError,
    UsageError,
)
from ropewalk.tables.health.check import HealthOptions as HealthAsked
from ropewalk.tables.health.check import check_health
from ropewalk.tables.open import open_table, open_tables
from ropewalk.tables.stored import WAYS

Numbers = Callable[..., Tensor]
Sharded = Callable[..., Path]
EMBED = "model.embed_tokens.weight"


def test_quantised_rows_of_smollm2_are_those_of_the_model_that_transformers_loads(
    smollm2_gguf: Path, smollm2: Any
) -> None:
    table = open_table(smollm2_gguf)
    expected = smollm2.model.get_input_embeddings().weight
    ids = [2999, 17, 18, 17, 0]
    assert torch.equal(table[ids], expected[ids])
    assert (table.shape, table.storage, table.dtype) == ((49152, 576), "Q8_0", torch.float32)
    # Four different rows of 18 blocks of 34 bytes, 17 and 18 at once, 17 once.
    assert table.bytes_read == 4 * 18 * 34
    assert torch.equal(table[49151], expected[49151])
    first, tile = next(table.tiles(3000))
    assert (first, torch.equal(tile, expected[:3000])) == (0, True)


def test_smollm2_by_name_is_tied_and_every_row_has_its_token(smollm2: Any) -> None:
    tables = open_tables("smollm2")
    table = tables.table()
    assert tables.tie.sentence == (
        "tied: no head is stored, so a head, if the model has one, is the input table "
        "(llama.cpp goes by the file)"
    )
    assert tables.table("output").name == table.name == "token_embd.weight"
    assert table.coverage() == "49,152 rows, 49,152 tokens, 0 rows without a token"
    vocabulary = table.vocabulary
    assert vocabulary is not None
    for text in (" cat", "cat", " naïve", "\n\n", "你"):
        ids = smollm2.tokenizer(text, add_special_tokens=False)["input_ids"]
        keys = [t.key for i in ids if (t := vocabulary.token(i)) is not None]
        assert b"".join(keys) == text.encode()


def test_all_minilms_words_and_positions_are_those_of_its_file(minilm: Path) -> None:
    tables = open_tables(minilm)
    words, positions = tables.table(), tables.table("positions")
    with safe_open(minilm / "model.safetensors", "pt") as file:
        assert torch.equal(words[[7592, 2088]], file.get_tensor(words.name)[[7592, 2088]])
        assert torch.equal(positions.whole(), file.get_tensor(positions.name))
    assert words.line() == (
        "input table embeddings.word_embeddings.weight, 30,522 x 384 F32, raw; "
        "read 3,072 of the table's 46,881,792 bytes (0.00), 1 file of weights opened"
    )
    assert (positions.shape, positions.label(511)) == ((512, 384), "position 511")
    assert words.coverage() == "30,522 rows, 30,522 tokens, 0 rows without a token"
    assert [words.label(i) for i in (0, 7592, 2075)] == ["[PAD]", "hello", "##ing"]
    assert positions.vocabulary is None


def test_only_the_shard_with_the_table_is_opened(save_sharded: Sharded, numbers: Numbers) -> None:
    table = numbers(50, 8, torch.bfloat16)
    folder = save_sharded(
        {"model.layers.0.mlp.weight": numbers(4, 8)},
        {EMBED: table, "model.norm.weight": numbers(1, 8)[0]},
        {"lm_head.weight": numbers(50, 8)},
    )
    # Were they opened, these two could not be read.
    for number in (1, 3):
        (folder / f"model-0000{number}-of-00003.safetensors").write_bytes(b"nothing")
    opened = open_table(folder)
    assert torch.equal(opened[[3, 49]], table[[3, 49]])
    assert [p.name for p in opened.matrix.reads.files] == [
        "model.safetensors.index.json",
        "model-00002-of-00003.safetensors",
    ]
    assert opened.bytes_read == 2 * 8 * 2
    assert torch.equal(torch.cat([tile for _, tile in opened.tiles(7)]), table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_both_ways_to_read_the_whole_give_the_files_own_numbers(
    tmp_path: Path, numbers: Numbers, dtype: torch.dtype
) -> None:
    path = tmp_path / "model.safetensors"
    # An odd count of bytes before it, so that the table lies at no round place.
    save_file({"a": numbers(1, 3).to(torch.uint8), EMBED: numbers(9, 5, dtype)}, path)
    for way in WAYS:
        table = open_table(path)
        whole = table.whole(way)
        assert whole.dtype == dtype
        assert torch.equal(whole, numbers(9, 5, dtype))
        assert table.bytes_read == table.size == 45 * dtype.itemsize
    with pytest.raises(UsageError, match="way to read is 'fast'"):
        open_table(path).whole("fast")  # type: ignore[arg-type]


def test_a_mapped_table_shares_the_files_pages_and_cannot_change_it(
    tmp_path: Path, numbers: Numbers
) -> None:
    path = tmp_path / "model.safetensors"
    save_file({EMBED: numbers(9, 4)}, path)
    before = path.read_bytes()
    open_table(path).whole().zero_()
    assert path.read_bytes() == before


def sparse_layout(folder: Path, rows: int, width: int, shards: int, shard_bytes: int) -> None:
    """A checkpoint of `shards` files that only claim their size: nothing but headers is stored."""
    homes = {}
    for number in range(1, shards + 1):
        name = f"model-{number:05d}-of-{shards:05d}.safetensors"
        tensors: dict[str, list[int]] = {}
        if number == shards // 2:
            tensors[EMBED] = [rows, width]
        left = shard_bytes // 2 - sum(r * w for r, w in tensors.values())
        tensors[f"model.layers.{number}.mlp.weight"] = [left // width, width]
        header, end = {}, 0
        for tensor, shape in tensors.items():
            start, end = end, end + shape[0] * shape[1] * 2
            header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
            homes[tensor] = name
        raw = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(len(raw).to_bytes(8, "little") + raw)
            file.truncate(8 + len(raw) + end)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": homes}))
    config = {"model_type": "llama", "vocab_size": rows, "hidden_size": width}
    (folder / "config.json").write_text(json.dumps(config))


def test_a_layout_of_40_gigabytes_opens_one_shard_and_reads_the_table_once(tmp_path: Path) -> None:
    rows, width = 128_256, 2048
    sparse_layout(tmp_path, rows, width, shards=10, shard_bytes=4 * 10**9)
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) >= 39.9e9
    began = time.perf_counter()
    table = open_table(tmp_path)
    table[[0, rows - 1]]
    started = time.perf_counter() - began
    assert started < 2
    assert table.bytes_read == 2 * width * 2
    weights = [p for p in table.matrix.reads.files if p.suffix == ".safetensors"]
    assert [p.name for p in weights] == ["model-00005-of-00010.safetensors"]
    assert table.matrix.reads.header < 10_000
    table = open_table(tmp_path)
    for first, tile in table.tiles(16_384):
        assert tile.shape == (min(16_384, rows - first), width)
    assert table.bytes_read / table.size == 1.0
    assert table.line().endswith(
        "read 525,336,576 of the table's 525,336,576 bytes (1.00), 1 file of weights opened"
    )


@pytest.mark.parametrize(
    ("flag", "stored", "tied", "said"),
    [
        (True, False, True, "tied: the head is not stored, and the configuration says tied"),
        (True, True, True, "tied: the configuration says tied .*, and yet the file stores a head"),
        (
            False,
            True,
            False,
            r"untied: the head is lm_head\.weight, and the configuration says unt",
        ),
        (False, False, None, "untied: no head is stored, and the configuration says untied"),
        (
            None,
            True,
            False,
            "untied: .* configuration does not say; llama models are untied by def",
        ),
        (None, False, None, "untied: no head is stored, .* llama models are untied by default"),
    ],
)
def test_flag_and_file_are_told_apart_in_all_combinations(
    save_sharded: Sharded,
    numbers: Numbers,
    flag: bool | None,
    stored: bool,
    tied: bool | None,
    said: str,
) -> None:
    config = {"model_type": "llama"} | ({} if flag is None else {"tie_word_embeddings": flag})
    head = {"lm_head.weight": numbers(6, 4, seed=1)} if stored else {"x.bias": numbers(1, 4)}
    tables = open_tables(save_sharded({EMBED: numbers(6, 4)}, head, config=config))
    assert re.match(said, tables.tie.sentence), tables.tie.sentence
    if tied is None:
        for ask in (lambda: tables.table("output"), lambda: tables.tie.tied):
            with pytest.raises(ModelFileError, match="the head's weights are missing"):
                ask()
        return
    assert tables.tie.tied is tied
    output = tables.table("output")
    assert output.name == ("lm_head.weight" if stored else EMBED)
    assert torch.equal(output.whole(), numbers(6, 4, seed=1 if stored else 0))


@pytest.mark.parametrize(
    ("model_type", "stored", "tied", "said"),
    [
        ("gemma", False, True, r"tied: .*; gemma models are tied by default"),
        ("gemma", True, True, r"tied: .* gemma models .* yet the file stores a head of its own"),
        ("t5", False, True, r"tied: .*, and t5 models are tied whatever the configuration says"),
        ("mine", False, None, r"not known whether tied: .* what mine models do is not known here"),
        (
            "mine",
            True,
            False,
            r"untied: the head is lm_head\.weight \(the configuration does not s",
        ),
        (None, False, None, r"not known whether tied: no head .* no configuration names the model"),
        (None, True, False, r"untied: the head is lm_head\.weight"),
    ],
)
def test_without_a_flag_and_a_head_the_family_decides_and_no_other_is_called_tied(
    save_sharded: Sharded,
    numbers: Numbers,
    model_type: str | None,
    stored: bool,
    tied: bool | None,
    said: str,
) -> None:
    config: dict[str, object] | None = None if model_type is None else {"model_type": model_type}
    head = {"lm_head.weight": numbers(6, 4, seed=1)} if stored else {"x.bias": numbers(1, 4)}
    folder = save_sharded({EMBED: numbers(6, 4)}, head, config=config)
    tables = open_tables(folder)
    assert re.match(said, tables.tie.sentence), tables.tie.sentence
    assert tables.tie.tied is tied
    if tied is None:
        remedy = "put the model's config.json beside it" if config is None else "write tie_word_"
        with pytest.raises(UsageError, match=remedy):
            tables.table("output")
    else:
        assert tables.table("output").name == ("lm_head.weight" if stored else EMBED)


def test_the_flag_is_read_where_the_family_reads_it(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    def config(kind: str) -> dict[str, object]:
        text = {"model_type": f"{kind}_text", "tie_word_embeddings": True}
        return {"model_type": kind, "tie_word_embeddings": False, "text_config": text}

    folder = save_sharded({"model.language_model.embed_tokens.weight": numbers(6, 4)})
    for kind, tied in (("qwen2_vl", True), ("qwen3_vl", False)):
        (folder / "config.json").write_text(json.dumps(config(kind)))
        tables = open_tables(folder)
        assert tables.tie.missing is not tied
        assert tables.table().name == "model.language_model.embed_tokens.weight"


def test_a_packed_head_is_stored_and_not_tied(save_sharded: Sharded, numbers: Numbers) -> None:
    packed = {
        "lm_head.qweight": torch.zeros(2, 4, dtype=torch.int32),
        "lm_head.scales": numbers(1, 4, torch.float16),
    }
    for flag in ({}, {"tie_word_embeddings": False}):
        config = {"model_type": "llama", **flag}
        folder = save_sharded({EMBED: numbers(6, 4)}, packed, config=config)
        tables = open_tables(folder)
        assert tables.tie.sentence.startswith("untied: the head is lm_head.qweight, and")
        with pytest.raises(UsageError, match=r"lm_head\.qweight' is stored as I32"):
            tables.table("output")
        drift = check_health(tables.table(), HealthAsked(sample=4, top=2)).drift
        assert drift is not None
        assert "it cannot be compared" in drift.sentence
        shutil.rmtree(folder)


def test_of_two_tied_tables_either_name_is_both(save_sharded: Sharded, numbers: Numbers) -> None:
    folder = save_sharded(
        {"lm_head.weight": numbers(6, 4)},
        config={"model_type": "llama", "tie_word_embeddings": True},
    )
    tables = open_tables(folder)
    assert tables.tie.sentence.startswith("tied: lm_head.weight is both tables")
    assert torch.equal(tables.table().whole(), numbers(6, 4))
    assert tables.table("output").name == tables.table("input").name == "lm_head.weight"
    (folder / "config.json").write_text('{"model_type": "llama", "tie_word_embeddings": false}')
    with pytest.raises(UsageError, match="no tensor with a name that is known for the input"):
        open_table(folder)


def test_several_candidates_are_listed_and_none_is_taken(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded(
        {"encoder.embed_tokens.weight": numbers(6, 4), "decoder.embed_tokens.weight": numbers(7, 4)}
    )
    with pytest.raises(
        UsageError,
        match=r"2 tensors .* decoder\.embed_tokens\.weight \(7 x 4\), encoder\.embed_tokens\.weight"
        r" \(6 x 4\); choose one with tensor=NAME",
    ):
        open_table(folder)
    assert open_table(folder, tensor="decoder.embed_tokens.weight").rows == 7


def test_tables_of_single_layers_are_not_the_models(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded(
        {EMBED: numbers(6, 4), "model.layers.61.embed_tokens.weight": numbers(6, 4)}
    )
    assert open_table(folder).name == EMBED


def test_unknown_names_are_listed_by_shape_and_not_guessed(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded(
        {"my.words": numbers(9, 4), "my.other": numbers(4, 4), "my.bias": numbers(1, 4)[0]},
        config={"model_type": "mine", "vocab_size": 8, "hidden_size": 4},
    )
    with pytest.raises(UsageError, match=r"by their shape these fit: my\.words \(9 x 4\)\. Choose"):
        open_table(folder)
    with pytest.raises(UsageError, match=r"no tensor 'my\.word'"):
        open_table(folder, tensor="my.word")
    with pytest.raises(UsageError, match="no tensor with a name that is known for the positions"):
        open_table(folder, "positions")


def test_rows_beyond_the_tokenizer_have_a_label_and_rows_beyond_the_table_are_errors(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded({EMBED: numbers(8, 4)})
    (folder / "vocab.txt").write_text("[PAD]\na\nb\n##c\n\nlast\n")
    table = open_table(folder)
    assert table.tokens == 6
    assert [table.label(i) for i in range(8)] == [
        *("[PAD]", "a", "b", "##c", "<id 4>", "last"),
        *("<row 6: no token>", "<row 7: no token>"),
    ]
    assert table.coverage() == "8 rows, 6 tokens, 2 rows without a token"
    assert torch.equal(table[7], numbers(8, 4)[7])
    said = r"row 8 \(number 2 of those asked for\) is not in .*: it has 8 rows, 0 to 7"
    with pytest.raises(RowError, match=said):
        table[[0, 8]]
    with pytest.raises(IndexError):
        table[-9]
    with pytest.raises(IndexError):
        table.label(8)
    assert table[[]].shape == (0, 4)


def test_a_vocabulary_larger_than_the_table_is_said(
    save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded({EMBED: numbers(4, 4)})
    (folder / "vocab.txt").write_text("a\nb\nc\nd\ne\n")
    assert open_table(folder).coverage() == "4 rows, 5 tokens, 1 without a row"


def test_nan_rows_are_handed_out_as_they_are(save_sharded: Sharded, numbers: Numbers) -> None:
    rows = numbers(4, 4)
    rows[2] = float("nan")
    table = open_table(save_sharded({EMBED: rows}))
    assert bool(table[2].isnan().all())
    assert torch.equal(table[[1, 3]], rows[[1, 3]])


def test_a_table_without_a_tokenizer_goes_by_ids(save_sharded: Sharded, numbers: Numbers) -> None:
    table = open_table(save_sharded({EMBED: numbers(4, 4)}))
    assert (table.label(2), table.coverage()) == ("<id 2>", "4 rows, no vocabulary")


def test_positions_of_opt_begin_behind_two_rows(save_sharded: Sharded, numbers: Numbers) -> None:
    name = "model.decoder.embed_positions.weight"
    folder = save_sharded({name: numbers(10, 4)}, config={"model_type": "opt", "hidden_size": 4})
    table = open_table(folder, "positions")
    assert [table.label(i) for i in (1, 2, 9)] == [
        "<row 1: no position>",
        "position 0",
        "position 7",
    ]


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "~nobody-of-this-name/x", "x" * 5000])
def test_names_that_are_no_path_are_refused(name: str) -> None:
    with pytest.raises(UnknownModelError):
        open_table(name)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    absent = lambda name, *rest: None if name == "torch" else find(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(MissingPartError, match=r'needs torch.*pip install "ropewalk\[prove\]"'):
        open_table("smollm2")


def test_wrong_questions_are_refused(
    tmp_path: Path, save_sharded: Sharded, numbers: Numbers
) -> None:
    folder = save_sharded({EMBED: numbers(4, 4)})
    with pytest.raises(UsageError, match="role is 'head'; choose one of input, output, positions"):
        open_table(folder, "head")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="view is 'scaled'"):
        open_table(folder, view="scaled")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="comes without a configuration"):
        open_table(folder, view="as_used")
    with pytest.raises(UsageError, match="a tile of 0 rows"):
        next(open_table(folder).tiles(0))
    with pytest.raises(UnknownModelError):
        open_table(tmp_path / "nowhere.safetensors")
    (tmp_path / "empty").mkdir()
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelFileError, match="holds no weights"):
        open_table(tmp_path / "config.json")
    with pytest.raises(ModelFileError, match="holds no weights"):
        open_table(tmp_path / "empty")
