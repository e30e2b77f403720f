"""What is wrong in the installed transformers: each still so there, and right here.

When one of these fails because the library has been mended, its entry in `left_out.toml` goes.
"""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import read_config
from ropewalk.errors import ConfigError
from ropewalk.rope.frequencies import schedule

pytest.importorskip("transformers")

LISTED = tomllib.loads((Path(__file__).parent.parent / "left_out.toml").read_text(encoding="utf-8"))
DEFECTS: list[dict[str, Any]] = LISTED["defect"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect["type"])
def test_a_listed_defect_is_still_there_upstream(defect: dict[str, Any], upstream: Any) -> None:
    def theirs() -> float:
        changes = copy.deepcopy(defect["config"])
        tables = upstream.tables(upstream.config_class(defect["type"])(**changes))
        return float(tables[defect["kind"]][0][defect["pair"]])

    if "raises" in defect:
        with pytest.raises(TypeError, match=defect["raises"]):
            theirs()
    else:
        assert theirs() == pytest.approx(defect["theirs"], rel=1e-6)
        assert theirs() != pytest.approx(defect.get("right", 0.0), rel=1e-2)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect["type"])
def test_what_is_wrong_upstream_is_right_here(defect: dict[str, Any]) -> None:
    config = {"model_type": defect["type"], **defect["config"]}
    if defect.get("refused"):
        with pytest.raises(ConfigError, match="21 of 42 channels"):
            read_config(config)
        return
    groups = {group.name: rotary for group, rotary in read_config(config).rotary_groups()}
    rotary = groups[defect["kind"].replace("_", " ") or "all layers"]
    assert schedule(rotary).inv_freq[defect["pair"]] == pytest.approx(defect["right"], rel=1e-9)
