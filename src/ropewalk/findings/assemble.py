"""From a `PositionSpec` to an `Audit`: numbers for each rotary group, origin, findings."""

from __future__ import annotations

from ropewalk.errors import ScheduleError
from ropewalk.findings.findings import find
from ropewalk.findings.origin import how_obtained
from ropewalk.findings.result import Audit, Finding, Horizon, RotaryAudit
from ropewalk.rope.diagnostics import pair_rows, similarity_horizon, trained_inv_freq
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.schedules import UnknownScaling
from ropewalk.rope.schedules.longrope import critical_dimension
from ropewalk.rope.spec import LayerGroup, PositionSpec, RotarySpec

HORIZON_SEARCH = 1 << 18
"""The longest distance searched for a horizon, in tokens; `Horizon.searched` says how far.

A window ends the search earlier: no score of its layer spans more.
"""


def audit(spec: PositionSpec, *, name: str = "") -> Audit:
    """Read `spec` into numbers, an origin and findings. `name` is what to call the model.

    A group whose schedule cannot be computed becomes a finding, not an error: the rest of the
    model is still described.
    """
    trained = trained_length(spec)
    groups: list[RotaryAudit] = []
    impossible: list[Finding] = []
    for group, rotary in spec.rotary_groups():
        if isinstance(rotary.scaling, UnknownScaling):
            continue
        try:
            groups.append(_read_group(group, rotary, trained.tokens, spec.claimed.tokens))
        except ScheduleError as error:
            text = f"{group.name}: no schedule can be built: {error}."
            remedy = "Correct the value in the file, then audit again."
            impossible.append(Finding("schedule-impossible", "warning", text, remedy))
    rotary_groups = tuple(groups)
    origin = how_obtained(spec, trained)
    findings = (*impossible, *find(spec, trained, rotary_groups, origin))
    return Audit(name, spec, trained, rotary_groups, origin, findings)


def _read_group(
    group: LayerGroup, rotary: RotarySpec, trained: int | None, claimed: int | None
) -> RotaryAudit:
    claim = frequencies(group, claimed)
    still = (rotary.head_dim - rotary.rotary_dim) // 2

    def horizon(inv_freq: tuple[float, ...], length: int | None) -> Horizon | None:
        if length is None or length < 1:
            return None
        limit = min(length, HORIZON_SEARCH, group.window.reach if group.window else length)
        return Horizon(similarity_horizon(inv_freq, limit, still), limit)

    in_training, critical = None, None
    if trained is not None and trained >= 1:
        in_training = horizon(trained_inv_freq(rotary, trained, claimed), trained)
        critical = critical_dimension(rotary.rotary_dim, rotary.rope_theta, trained)
    return RotaryAudit(
        group=group,
        rotary=rotary,
        start=frequencies(group),
        claim=claim,
        pairs=pair_rows(rotary, trained, claimed, group.window),
        critical_dimension=critical,
        horizon=horizon(claim.inv_freq, claimed),
        trained_horizon=in_training,
    )
