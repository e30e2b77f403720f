"""Documents of a row, against each alone, in every way of handing them over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ropewalk.errors import ModelFileError
from ropewalk.extension.tune.inputs import Handing, check_apart
from ropewalk.packing.layout import Counting, Layout
from ropewalk.packing.pack import PackedRow, stack

SIZES = (1, 9, 14, 4)
WINDOWED = {
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"],
    "num_hidden_layers": 2,
}


def models(kind: str, tiny_model: Callable[..., Any]) -> Any:
    changes: dict[str, Any] = {"num_hidden_layers": 2}
    return tiny_model(kind, **(WINDOWED if kind == "gemma3" else changes))


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
@pytest.mark.parametrize("positions", ["reset", "running"])
@pytest.mark.parametrize("mask", [True, False])
def test_a_packed_row_gives_what_each_document_gives_alone_or_the_whole_row_at_once(
    tiny_model: Callable[..., Any], kind: str, positions: Counting, *, mask: bool
) -> None:
    """Padding stands behind; gemma3 has a sliding layer, whose window is shorter than a piece."""
    model = models(kind, tiny_model)
    ids = torch.from_numpy(np.random.default_rng(0).integers(2, 1200, 32, dtype=np.int32))
    layout = Layout.of(list(SIZES), 32)
    batch = stack([PackedRow(ids.numpy(), layout)], positions)
    given = Handing(mask, positions).of(batch, model.config)
    with torch.no_grad():
        got = model(**given, use_cache=False).logits[0]
        parts = []
        for start, size in zip(layout.starts, SIZES, strict=True):
            places = layout.position_ids(positions)[start : start + size]
            alone = model(
                ids[start : start + size].long()[None],
                position_ids=places[None],
                use_cache=False,
            )
            parts.append(alone.logits[0])
        alone_all = torch.cat(parts)
        together = model(ids[:28].long()[None], use_cache=False).logits[0]
    if mask:
        torch.testing.assert_close(got[:28], alone_all, atol=1e-4, rtol=1e-4)
    elif positions == "running":
        torch.testing.assert_close(got[:28], together, atol=1e-4, rtol=1e-4)
    else:
        # Documents see one another, each counted from 0: neither of the two.
        assert float((got[:28] - alone_all).abs().max()) > 1e-2
        assert float((got[:28] - together).abs().max()) > 1e-2


@pytest.mark.parametrize("positions", ["reset", "running"])
@pytest.mark.parametrize("mask", [True, False])
def test_a_model_that_does_as_told_passes_the_check(
    tiny_model: Callable[..., Any], positions: Counting, *, mask: bool
) -> None:
    check_apart(models("llama", tiny_model), Handing(mask, positions), 1200)


def test_a_model_that_does_not_is_refused(
    tiny_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways: one that is handed less than it needs, and one that separates on its own."""
    model = models("llama", tiny_model)
    told = Handing.of

    def other(self: Handing, batch: Any, config: Any) -> dict[str, Any]:
        positions: Counting = "running" if self.mask else "reset"
        return told(Handing(not self.mask, positions), batch, config)

    monkeypatch.setattr(Handing, "of", other)
    with pytest.raises(ModelFileError, match="cannot be kept apart; give --no-mask"):
        check_apart(model, Handing(mask=True), 1200)
    with pytest.raises(ModelFileError, match="--no-mask cannot be done"):
        check_apart(model, Handing(mask=False, positions="reset"), 1200)
