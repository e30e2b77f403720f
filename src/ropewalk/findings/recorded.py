"""How a context was made longer, where the file holds the record of the tool that did it.

A record counts as long as the schedule is the one that it was written with; for a schedule that
was changed since, it is named and not believed.
"""

from __future__ import annotations

from ropewalk.errors import ScheduleError
from ropewalk.findings.result import Origin
from ropewalk.rope.frequencies import schedule_fingerprint
from ropewalk.rope.spec import Extended, PositionSpec

_CODES = {
    "linear": "position-interpolation",
    "ntk": "ntk",
    "ntk-by-parts": "ntk-by-parts",
    "yarn": "yarn",
    "llama3": "llama3",
    "longrope": "longrope",
    "base": "larger-base",
    "search": "searched-divisors",
}
"""From a method of `ropewalk extend` to the code of an origin."""


def still_holds(record: Extended, spec: PositionSpec) -> bool:
    """Whether the spec claims the recorded length, and turns as it did then."""
    try:
        same = schedule_fingerprint(spec) == record.fingerprint
    except ScheduleError:
        return False
    return same and spec.claimed.tokens == record.target and record.method in _CODES


def by_record(record: Extended, base: float | None) -> Origin:
    """The origin that a record tells; `base` is the one in the file now."""
    s = record.made_for / record.trained
    raised = "" if base is None else f"from {record.rope_theta:,.10g} to {base:,.10g}"
    match record.method:
        case "base":
            what = f"Larger base: raised {raised}"
        case "ntk":
            what = f"NTK-aware base, the slowest pair divided by {s:g}: raised {raised}"
        case "linear":
            what = f"Position interpolation by {s:g}"
        case "ntk-by-parts":
            what = f"NTK by parts (factor {s:g} from {record.trained} tokens)"
        case "yarn":
            what = f"YaRN (factor {s:g} from {record.trained} tokens)"
        case "llama3":
            what = f"llama3 rule: slow pairs divided by {s:g}, reference length {record.trained}"
        case "longrope":
            what = f"longrope: a divisor for each pair past {record.trained} tokens"
        case _:
            what = "A divisor for each pair, found by a search"
    room = "" if record.made_for == record.target else f", made for {record.made_for:,}"
    return Origin(
        _CODES[record.method],
        f"{what}; extended from {record.trained:,} to {record.target:,} tokens{room}, by "
        f"{record.tool} (method {record.method}), as the file records. It does not say whether "
        "training followed.",
    )


def changed_since(record: Extended, origin: Origin) -> Origin:
    """The origin that the schedule shows, and that a record tells of another one."""
    return Origin(
        origin.code,
        f"{origin.sentence} The file records that {record.tool} extended it to "
        f"{record.target:,} tokens (method {record.method}); its schedule or its claim was changed "
        "since.",
    )
