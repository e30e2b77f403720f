"""From kept answers to intervals, verdicts and an effective length.

The interval is Wilson's score interval (E. B. Wilson, 1927) at 95 %, or where the questions of a
trial are asked of one document an interval over documents (`clusters`). Lengths are judged pooled
over their depths, because a single cell of a few trials says almost nothing: three hits of
three have a lower end of 0.44. Outcomes other than HIT, MISS and WRONG never count in an
accuracy, and a length of which too few answers could be judged (COVERAGE) gets no verdict.
"""

from ropewalk.proof.statistics.evidence import (
    FEWEST_DOCUMENTS,
    Evidence,
    Independent,
    Repeated,
    SharedDocuments,
    evidence_of,
    further_trials,
)
from ropewalk.proof.statistics.intervals import Z, over_documents, wilson
from ropewalk.proof.statistics.tally import grid_of, summarise
from ropewalk.proof.statistics.verdicts import (
    AbsoluteThreshold,
    RelativeThreshold,
    Threshold,
    parse_threshold,
)

__all__ = [
    "FEWEST_DOCUMENTS",
    "AbsoluteThreshold",
    "Evidence",
    "Independent",
    "RelativeThreshold",
    "Repeated",
    "SharedDocuments",
    "Threshold",
    "Z",
    "evidence_of",
    "further_trials",
    "grid_of",
    "over_documents",
    "parse_threshold",
    "summarise",
    "wilson",
]
