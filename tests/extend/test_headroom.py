"""Schedules made for more than they claim, as an audit sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ropewalk.audit import audit
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.extend.checkpoint import write_folder
from ropewalk.extend.methods import CLOSED_FORMS, extended
from ropewalk.models.resolve import read_spec, resolve

SaveFolder = Callable[..., Path]


@pytest.mark.parametrize("name", ["yarn", "linear"])
def test_a_factor_with_headroom_is_a_note_as_long_as_the_record_explains_it(
    folder: SaveFolder, tmp_path: Path, name: str
) -> None:
    source = folder()
    method = next(each for each in CLOSED_FORMS if each.name == name)
    after = extended(read_config(load_json(source / "config.json")), 2048, method, 1.5)
    out = write_folder(source, after, tmp_path / "longer", place="link", card="").path
    found = {f.code: f for f in audit(read_spec(resolve(str(out)))).findings}
    assert "factor-lengths-disagree" not in found
    assert found["made-for-longer"].severity == "note"
    assert "Factor 6 x trained 512 = 3072, and 2048 is claimed" in found["made-for-longer"].text
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["max_position_embeddings"] = 2560
    path.write_text(json.dumps(config))
    changed = {f.code: f for f in audit(read_spec(resolve(str(out)))).findings}
    assert changed["factor-lengths-disagree"].severity == "warning"
    assert "made-for-longer" not in changed
