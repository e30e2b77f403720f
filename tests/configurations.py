"""Configurations as plain dictionaries: what a test begins with, and what is written of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ropewalk.dialects.hf import read_config
from ropewalk.dialects.hf.family import ConfigSource, config_source
from ropewalk.dialects.hf.write import write_config
from ropewalk.rope.spec import PositionSpec


def source(config: Mapping[str, object]) -> ConfigSource:
    """What a spec carries that was read from `config`."""
    return config_source(read_config(config))


def write_json(
    spec: PositionSpec, before: Mapping[str, object], version: Literal[4, 5]
) -> dict[str, Any]:
    """The configuration `before`, made to say `spec`."""
    return dict(config_source(write_config(spec, source(before), version)).config)
