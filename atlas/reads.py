"""Which keys of its configuration a class reads while it is built and run."""

from __future__ import annotations

import re
from typing import Any

BEARS = re.compile(
    "rope|rotary|theta|alibi|window|sliding|scalar|layer_types|relative|attention_multiplier|"
    "attention_chunk|temperature|max_position|partial|interleave|rel_"
)
"""How keys are spelled that may bear on position or on scores."""

BESIDE = re.compile("logit|pattern|max_window_layers")
"""Keys of the output head, which is no part of what is built here, and keys that a switch wakes."""


def unread(text: Any) -> list[str]:
    """Keys of a type's default configuration that bear on position and that no code asked for.

    What a configuration class makes of a key for itself is not seen here.
    """
    from atlas.hints import fed
    from atlas.observe import positions_within
    from atlas.probe import run, run_within
    from atlas.shapes import CLAIMED, model_of, small

    config = small(text)
    asked: set[str] = set()
    base = type(config)

    class Asked(base):  # type: ignore[misc, valid-type]
        """The same configuration, which notes what is asked of it."""

        def __getattribute__(self, name: str) -> Any:
            asked.add(name)
            return super().__getattribute__(name)

    stated = config.to_dict()
    said = [
        key
        for key, value in stated.items()
        if BEARS.search(key) and value is not None and not BESIDE.search(key)
    ]
    model = model_of(config, asking=Asked)
    at = positions_within(
        next((stated[k] for k in CLAIMED if isinstance(stated.get(k), int)), None)
    )
    seen = run(model, at, **fed(config))
    if not seen.calls:
        run_within(model, seen, **fed(config))
    names = {other: key for key, other in base.attribute_map.items()}
    still = [key for key in said if not {key, names.get(key, key)} & asked]
    return sorted(key for key in still if not turned_into(text, key))


def turned_into(text: Any, key: str) -> bool:
    """Whether the configuration class makes another key of this one."""
    was = text.to_dict()
    value = was[key]
    other = not value if isinstance(value, bool) else 2 * value if isinstance(value, int) else None
    if other is None:
        return True
    try:
        made = type(text)(**{key: other}).to_dict()
    except Exception:  # noqa: BLE001 - what it checks it reads
        return True
    return any(made.get(name) != was[name] for name in was if name != key)
