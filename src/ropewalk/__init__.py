"""Audit and prove how much of its context window a language model really reads.

Public names load when they are first used (PEP 562), so that importing the package, and
auditing a file, costs no more than it must. The rooms of the package are nouns (`proof`,
`extension`, `findings`, `comparison`), because a room that is imported takes its name as an
attribute of the package, whatever was there before: the verbs stay free for functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ropewalk.accelerate.alibi import accelerate_alibi
    from ropewalk.accelerate.handle import Acceleration
    from ropewalk.accelerate.rotary import accelerate_rotary
    from ropewalk.errors import RopewalkError
    from ropewalk.findings import Audit, to_json
    from ropewalk.findings import audit as audit_spec
    from ropewalk.findings.live import audit_module
    from ropewalk.inputs import InputPath
    from ropewalk.models.resolve import read_spec, resolve
    from ropewalk.proof.prove import Proof, ProofSettings
    from ropewalk.proof.prove import prove as prove_model
    from ropewalk.rope.angles import Schedule
    from ropewalk.rope.frequencies import frequencies, schedule
    from ropewalk.rope.override import override
    from ropewalk.rope.spec import PositionSpec, RotarySpec
    from ropewalk.tables.module import TokenEmbedding
    from ropewalk.tables.open import open_table

__all__ = [
    "Acceleration",
    "Audit",
    "InputPath",
    "PositionSpec",
    "Proof",
    "ProofSettings",
    "RopewalkError",
    "RotarySpec",
    "Schedule",
    "TokenEmbedding",
    "__version__",
    "accelerate_alibi",
    "accelerate_rotary",
    "audit_module",
    "audit_spec",
    "frequencies",
    "open_table",
    "override",
    "prove_model",
    "read_spec",
    "resolve",
    "schedule",
    "to_json",
]

_HOMES = {
    "Acceleration": "ropewalk.accelerate.handle:Acceleration",
    "Audit": "ropewalk.findings:Audit",
    "InputPath": "ropewalk.inputs:InputPath",
    "PositionSpec": "ropewalk.rope.spec:PositionSpec",
    "Proof": "ropewalk.proof.prove:Proof",
    "ProofSettings": "ropewalk.proof.prove:ProofSettings",
    "RopewalkError": "ropewalk.errors:RopewalkError",
    "RotarySpec": "ropewalk.rope.spec:RotarySpec",
    "Schedule": "ropewalk.rope.angles:Schedule",
    "TokenEmbedding": "ropewalk.tables.module:TokenEmbedding",
    "accelerate_alibi": "ropewalk.accelerate.alibi:accelerate_alibi",
    "accelerate_rotary": "ropewalk.accelerate.rotary:accelerate_rotary",
    "audit_module": "ropewalk.findings.live:audit_module",
    "audit_spec": "ropewalk.findings:audit",
    "frequencies": "ropewalk.rope.frequencies:frequencies",
    "open_table": "ropewalk.tables.open:open_table",
    "override": "ropewalk.rope.override:override",
    "prove_model": "ropewalk.proof.prove:prove",
    "read_spec": "ropewalk.models.resolve:read_spec",
    "resolve": "ropewalk.models.resolve:resolve",
    "schedule": "ropewalk.rope.frequencies:schedule",
    "to_json": "ropewalk.findings:to_json",
}
"""Where each public name is defined, as module:name."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ropewalk")
    if name in _HOMES:
        module, _, own_name = _HOMES[name].partition(":")
        return getattr(import_module(module), own_name)
    raise AttributeError(f"module 'ropewalk' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
