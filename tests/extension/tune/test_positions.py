"""Documents longer than a row, counted from their beginning or anew, on a model that can tell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from ropewalk.extension.tune.data import StepRows
from ropewalk.extension.tune.session import tune
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.packing.pack import PackedRow

WORDS = "The harbour lay still, and the rope was long. "


@pytest.fixture
def learned(tmp_path: Path, tiny_tokenizer: Callable[[str], Any]) -> Path:
    """A GPT-2 of 256 learned positions: rotary ones would not show where a piece begins."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=1200, n_positions=256, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
            eos_token_id=1, initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip
    model.save_pretrained(tmp_path / "gpt2")
    tiny_tokenizer("bos-eos").save_pretrained(tmp_path / "gpt2")
    return tmp_path / "gpt2"


def _piece_by_piece(model: Any, row: PackedRow, *, anew: bool) -> tuple[float, int]:
    """The sum of the losses of the row's pieces, each read alone at its own positions."""
    total, tokens = 0.0, 0
    for piece, start in zip(row.layout.pieces, row.layout.starts, strict=True):
        ids = torch.from_numpy(row.token_ids[start : start + piece.length]).long()
        first = 0 if anew else piece.start
        places = torch.arange(first, first + piece.length)
        with torch.no_grad():
            logits = model(ids[None], position_ids=places[None], use_cache=False).logits[0]
        total += float(cross_entropy(logits[:-1], ids[1:], reduction="sum"))
        tokens += piece.length - 1
    return total, tokens


def test_positions_run_on_over_rows_where_documents_are_to_be_counted(
    settings: Callable[..., TuneSettings],
    learned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A document over three rows: its later pieces are read at positions 64 to 191."""
    from transformers import GPT2LMHeadModel

    (tmp_path / "texts").mkdir()
    for number, words in enumerate((15, 2, 3)):
        (tmp_path / "texts" / f"{number}.txt").write_text(WORDS * words)
    taken: list[PackedRow] = []
    following = StepRows.next

    def noted(self: StepRows) -> list[PackedRow]:
        rows = following(self)
        taken.extend(rows)
        return rows

    monkeypatch.setattr(StepRows, "next", noted)
    losses = {}
    for positions in ("document", "reset"):
        asked = settings(
            model=str(learned),
            data=(tmp_path / "texts",),
            positions=positions,
            steps=1,
            warmup=1,
            rows=4,
            out=tmp_path / positions,
        )
        done = tune(asked)
        assert done is not None
        losses[positions] = done.steps[0].loss
    half = len(taken) // 2
    assert max(piece.start for row in taken[:half] for piece in row.layout.pieces) >= 128
    model = GPT2LMHeadModel.from_pretrained(learned).eval()
    for positions, rows in (("document", taken[:half]), ("reset", taken[half:])):
        parts = [_piece_by_piece(model, row, anew=positions == "reset") for row in rows]
        wanted = sum(total for total, _ in parts) / sum(tokens for _, tokens in parts)
        assert losses[positions] == pytest.approx(wanted, abs=2e-5)
    assert abs(losses["document"] - losses["reset"]) > 0.01
