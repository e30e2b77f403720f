from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save, save_file
from torch import Tensor

from ropewalk.errors import ConfigError, ModelFileError, RopewalkError, UsageError
from ropewalk.tables.formats.safetensors import float8_values
from ropewalk.tables.open import open_table

EMBED = "model.embed_tokens.weight"
SHARD = "model-00001-of-00002.safetensors"
Sharded = Callable[..., Path]


def with_header(header: object, data: int = 64) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + bytes(data)


def entry(dtype: object = "F32", shape: object = (4, 4), span: object = (0, 64)) -> object:
    return {EMBED: {"dtype": dtype, "shape": shape, "data_offsets": span}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes, too few for a header"),
        (b"\x00" * 9, "9 bytes, too few"),
        ((2**62).to_bytes(8, "little") + b"{}", "a header of 4611686018427387904 bytes is stated"),
        ((500).to_bytes(8, "little") + b"{}", "header of 500 bytes is stated, and the file has 10"),
        (with_header(b"{nonsense"), "the header is no JSON"),
        (with_header(b"[" * 100_000), "the header is no JSON"),
        (with_header([1]), "the header is no JSON object"),
        (with_header({EMBED: 3}), "no dtype, shape and data_offsets"),
        (with_header(entry(shape=[4, -4])), "no dtype, shape and data_offsets"),
        (with_header(entry(shape=[4, True])), "no dtype, shape and data_offsets"),
        (with_header(entry(span=[0, 64, 64])), "no dtype, shape and data_offsets"),
        (with_header(entry(span=[64, 0])), "cannot take -64 bytes"),
        (with_header(entry(shape=[4, 5])), r"shape \(4, 5\) and type F32 cannot take 64 bytes"),
        (with_header(entry(), data=63), "end at byte .*, and the file has"),
    ],
)
def test_a_damaged_file_is_a_located_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"model\.safetensors: .*{said}"):
        open_table(path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(at=st.integers(0, 100), byte=st.integers(0, 255), end=st.integers(0, 200))
def test_no_damage_ends_in_anything_but_an_error_of_ours(
    tmp_path: Path, at: int, byte: int, end: int
) -> None:
    whole = bytearray(save({EMBED: torch.ones(4, 4)}))
    whole[at] = byte
    path = tmp_path / "model.safetensors"
    for content in (whole, whole[:end]):
        path.write_bytes(content)
        try:
            table = open_table(path, tensor=EMBED)
            assert table.whole("stream").numel() == table.rows * table.width
        except RopewalkError as error:
            assert str(error)  # noqa: PT017 - that it is one of ours is the test


def test_a_file_cut_after_it_was_opened_is_a_located_error(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({EMBED: torch.ones(4, 4)}, path)
    table = open_table(path)
    path.write_bytes(path.read_bytes()[:-10])
    assert table[0].tolist() == [1.0] * 4
    with pytest.raises(ModelFileError, match="ends 10 bytes early"):
        table[3]


def sharded(save_sharded: Sharded) -> Path:
    return save_sharded({EMBED: torch.ones(4, 4)}, {"lm_head.weight": torch.ones(4, 4)})


def test_a_missing_shard_is_named_only_when_it_is_needed(save_sharded: Sharded) -> None:
    folder = sharded(save_sharded)
    (folder / SHARD).unlink()
    assert open_table(folder, "output").shape == (4, 4)
    with pytest.raises(ModelFileError, match=f"'{EMBED}' is in {SHARD}, which is not there; fetch"):
        open_table(folder)


def test_an_index_that_names_a_tensor_the_shard_lacks(save_sharded: Sharded) -> None:
    folder = sharded(save_sharded)
    save_file({"other": torch.ones(2, 2)}, folder / SHARD)
    with pytest.raises(ModelFileError, match="the shard has no such tensor; the two do not belong"):
        open_table(folder)


@pytest.mark.parametrize("home", ["../secret.safetensors", "/etc/passwd", "", 3, "a/b.safetensors"])
def test_an_index_does_not_lead_out_of_its_folder(save_sharded: Sharded, home: object) -> None:
    folder = sharded(save_sharded)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {EMBED: home}}))
    with pytest.raises(ModelFileError, match="a shard is a file beside its index"):
        open_table(folder)


@pytest.mark.parametrize("content", ["[]", "{", '{"weight_map": {}}', '{"weight_map": 1}'])
def test_an_index_that_is_none_is_refused(save_sharded: Sharded, content: str) -> None:
    folder = sharded(save_sharded)
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises((ModelFileError, ConfigError), match=r"index\.json"):
        open_table(folder)


def test_files_without_an_index_are_taken_together(save_sharded: Sharded) -> None:
    folder = sharded(save_sharded)
    (folder / "model.safetensors.index.json").unlink()
    assert open_table(folder).name == EMBED
    save_file({EMBED: torch.zeros(4, 4)}, folder / "more.safetensors")
    with pytest.raises(ModelFileError, match=f"no index, and both {SHARD} and more.* hold"):
        open_table(folder)


@pytest.mark.parametrize(
    ("tensor", "said"),
    [
        (torch.ones(4, 4, dtype=torch.int8), "is stored as I8; tables of F64, F32, F16 and BF16"),
        (torch.ones(4, 4, dtype=torch.uint8), "is stored as U8; .* need the code that packed them"),
        (torch.ones(2, 2, 2), r"has shape \(2, 2, 2\), and a table has rows and columns"),
        (torch.ones(0, 4), r"has shape \(0, 4\)"),
    ],
)
def test_what_is_no_table_of_floats_is_refused(tmp_path: Path, tensor: Tensor, said: str) -> None:
    save_file({EMBED: tensor}, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match=said):
        open_table(tmp_path)


def test_positions_with_a_leading_axis_of_one_are_a_table(tmp_path: Path) -> None:
    rows = torch.arange(12.0).view(1, 3, 4)
    save_file({"vit.pos_embed": rows}, tmp_path / "model.safetensors")
    assert torch.equal(open_table(tmp_path, "positions").whole(), rows[0])


TYPES = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}


@pytest.mark.parametrize("storage", TYPES)
def test_every_byte_is_the_number_that_torch_has_for_it(storage: str) -> None:
    every = torch.arange(256, dtype=torch.uint8).view(TYPES[storage]).float()
    torch.testing.assert_close(
        torch.from_numpy(float8_values(storage)), every, rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
@pytest.mark.parametrize("storage", TYPES)
def test_a_table_without_a_scale_is_read_as_float32(
    tmp_path: Path, storage: str, kind: str
) -> None:
    torch.manual_seed(0)
    rows = torch.randn(9, 5).to(TYPES[storage])
    path = tmp_path / f"model.{kind}"
    if kind == "pt":
        torch.save({EMBED: rows}, path)
    else:
        save_file({EMBED: rows, "model.norm.weight": torch.ones(5)}, path)
    table = open_table(path)
    assert (table.dtype, table.size, table.shape) == (torch.float32, 45, (9, 5))
    assert table.storage.startswith("F8")
    assert torch.equal(table.whole(), rows.float())
    assert torch.equal(table[[7, 2]], rows.float()[[7, 2]])
    # The file's bytes are not the numbers that are handed out.
    assert table.pages() is None


@pytest.mark.parametrize(
    "scale",
    [
        f"{EMBED}_scale_inv",
        f"{EMBED}_scale",
        "model.embed_tokens.scale_weight",
        "model.embed_tokens.scale",
    ],
)
@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_a_table_with_a_scale_beside_it_is_refused_and_the_scale_named(
    tmp_path: Path, scale: str, kind: str
) -> None:
    held = {EMBED: torch.ones(4, 4).to(torch.float8_e4m3fn), scale: torch.ones(1, 1)}
    path = tmp_path / f"model.{kind}"
    if kind == "pt":
        torch.save(held, path)
    else:
        save_file(held, path)
    with pytest.raises(UsageError, match=rf"{scale} beside it is what its numbers are multiplied"):
        open_table(path)


def test_the_scale_of_another_tensor_is_none_of_its_own(tmp_path: Path) -> None:
    rows = torch.ones(4, 4).to(torch.float8_e4m3fn)
    held = {EMBED: rows, "model.layers.0.mlp.up_proj.weight_scale_inv": torch.ones(1, 1)}
    save_file(held, tmp_path / "model.safetensors")
    assert torch.equal(open_table(tmp_path / "model.safetensors").whole(), rows.float())
