"""Findings about a model's position settings, each with its reason and its remedy.

`audit` reads a `PositionSpec` into an `Audit`; `to_json` is its stable JSON form. `live` compares
a loaded module with what its configuration says, and is imported on its own: it needs torch.
"""

from ropewalk.findings.json_form import to_json
from ropewalk.findings.result import Audit, Horizon, Origin, RotaryAudit
from ropewalk.findings.spec_findings import audit
from ropewalk.rope.spec import Finding

__all__ = ["Audit", "Finding", "Horizon", "Origin", "RotaryAudit", "audit", "to_json"]
