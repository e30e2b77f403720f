"""Audit and prove how much of its context window a language model really reads.

The verbs are the commands as functions: the same names, options and defaults. Public names load
when they are first used (PEP 562), so that importing the package, and auditing a file, costs no
more than it must. The rooms of the package are nouns (`proof`, `extension`, `findings`,
`comparison`), because a room that is imported takes its name as an attribute of the package,
whatever was there before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.accelerate.alibi import accelerate_alibi
    from ropewalk.accelerate.rotary import accelerate_rotary
    from ropewalk.errors import RopewalkError
    from ropewalk.inputs import InputPath
    from ropewalk.listener import Listener
    from ropewalk.positions.rotary import Rotary
    from ropewalk.rope.spec import PositionSpec, RotarySpec
    from ropewalk.tables.module import TokenEmbedding
    from ropewalk.tables.open import open_table
    from ropewalk.verbs.proving import prove, window
    from ropewalk.verbs.reading import audit, convert
    from ropewalk.verbs.running import compare, extend, trace, tune

__all__ = [
    "InputPath",
    "Listener",
    "PositionSpec",
    "RopewalkError",
    "Rotary",
    "RotarySpec",
    "TokenEmbedding",
    "__version__",
    "accelerate_alibi",
    "accelerate_rotary",
    "audit",
    "compare",
    "convert",
    "extend",
    "open_table",
    "prove",
    "trace",
    "tune",
    "window",
]

_HOMES = {
    "InputPath": "ropewalk.inputs",
    "Listener": "ropewalk.listener",
    "PositionSpec": "ropewalk.rope.spec",
    "RopewalkError": "ropewalk.errors",
    "Rotary": "ropewalk.positions.rotary",
    "RotarySpec": "ropewalk.rope.spec",
    "TokenEmbedding": "ropewalk.tables.module",
    "accelerate_alibi": "ropewalk.accelerate.alibi",
    "accelerate_rotary": "ropewalk.accelerate.rotary",
    "audit": "ropewalk.verbs.reading",
    "compare": "ropewalk.verbs.running",
    "convert": "ropewalk.verbs.reading",
    "extend": "ropewalk.verbs.running",
    "open_table": "ropewalk.tables.open",
    "prove": "ropewalk.verbs.proving",
    "trace": "ropewalk.verbs.running",
    "tune": "ropewalk.verbs.running",
    "window": "ropewalk.verbs.proving",
}
"""The module in which each public name is defined."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ropewalk")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ropewalk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
