"""Tables of floats of 8 bits: torch's own numbers, and none where a scale lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ropewalk.errors import UsageError
from ropewalk.tables.formats.safetensors import float8_values
from ropewalk.tables.open import open_table

EMBED = "model.embed_tokens.weight"
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
