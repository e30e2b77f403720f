"""What the details of kept answers say of the servers that gave them: counts, cuts, cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from ropewalk.proof.cells import Answer, Outcome, Row


def counts_of(answer: Answer) -> tuple[int | None, int | None]:
    """Prompt tokens of an answer and how many of them came from a cache, where the server said."""
    if not answer.details:
        return None, None
    details = json.loads(answer.details)
    read, cached = details.get("prompt_tokens"), details.get("cached_tokens")
    return (
        read if isinstance(read, int) else None,
        cached if isinstance(cached, int) else None,
    )


def cached_share(rows: Iterable[Row]) -> tuple[int, int]:
    """Prompt tokens from caches, and all prompt tokens, of the answers that say both."""
    pairs = [counts_of(row.answer) for row in rows]
    told = [(read, cached) for read, cached in pairs if read is not None and cached is not None]
    return sum(cached for _, cached in told), sum(read for read, _ in told)


def served_facts(rows: Sequence[Row]) -> dict[str, str]:
    """Lines about the servers for a report; none for a model that was run here."""
    answered = [row for row in rows if row.answer.details]
    if not answered:
        return {}
    facts = {}
    cached, read = cached_share(answered)
    if read:
        facts["server's cache"] = (
            f"{cached / read:.1%} of {read:,} prompt tokens were in it ({cached:,})"
        )
    else:
        facts["server's cache"] = "the server does not say what was in it"
    silent = sum(counts_of(row.answer)[0] is None for row in answered)
    if silent:
        facts["not counted"] = (
            f"{silent} of {len(answered)} replies do not say how many tokens were read: a cut "
            "prompt among them would not be seen"
        )
    cut = [counts_of(r.answer)[0] or 0 for r in rows if r.answer.outcome is Outcome.TRUNCATED]
    if cut:
        facts["cut prompts"] = f"{len(cut)}, of which the server read {max(cut):,} tokens at most"
    return facts
