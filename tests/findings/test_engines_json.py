"""The engines in JSON: pure types, and every two engines compared."""

from __future__ import annotations

import json
from typing import Any

from ropewalk.dialects.engines import ENGINES, engine_views
from ropewalk.dialects.hf import read_config
from ropewalk.findings.json_form import engines_json

CONFIG: dict[str, Any] = {
    "model_type": "phi3",
    "hidden_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 16384,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 16, "long_factor": [4.0] * 16},
}


def test_the_document_is_json_and_names_pair_and_position() -> None:
    found = engines_json(engine_views(read_config(CONFIG)))
    document = json.loads(json.dumps(found, allow_nan=False))
    assert [view["engine"] for view in document["views"]] == [engine.name for engine in ENGINES]
    computing = [view for view in document["views"] if view["inv_freq"]]
    assert all(len(view["inv_freq"]) == 16 for view in computing)
    count = len(computing)
    assert len(document["partings"]) == count * (count - 1)
    (mlx,) = (
        p
        for p in document["partings"]
        if (p["first"], p["second"], p["length"]) == ("transformers 5.24", "mlx-lm", 1024)
    )
    # Pair 0 rotates 1 rad per token by the short factors and 0.25 by the long: off at once.
    assert (mlx["pair"], mlx["position"], mlx["agree"]) == (0, 1, False)
