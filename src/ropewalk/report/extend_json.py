"""An extension as plain JSON values."""

from __future__ import annotations

from dataclasses import asdict

from ropewalk.extension.score import Score
from ropewalk.extension.session import Extension
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.lengths import trained_length

SCHEMA = "ropewalk.extend/1"


def extend_json(found: Extension) -> dict[str, object]:
    """Everything that was measured and chosen; frequencies are radians a token."""
    after = found.after
    trained = trained_length(found.before)
    return {
        "schema": SCHEMA,
        "model": found.files.title,
        "trained": trained.tokens,
        "trained_source": trained.source,
        "target": None if after is None else after.claimed.tokens,
        "method": found.method,
        "schedule": None
        if after is None
        else [
            {
                "layers": group.name,
                "inv_freq": list(frequencies(group, after.claimed.tokens).inv_freq),
                "attention_factor": frequencies(group, after.claimed.tokens).attention_factor,
                "fingerprint": frequencies(group, after.claimed.tokens).fingerprint(),
            }
            for group, _ in after.rotary_groups()
        ],
        "headrooms": None
        if found.headrooms is None
        else {
            "reason": found.headrooms.reason,
            "tried": [
                {
                    "method": each.stretch.method.name,
                    "headroom": each.stretch.headroom,
                    "gaps": each.gaps,
                    "short_change": each.change,
                    "measured": each.stretch in found.headrooms.chosen,
                }
                for each in found.headrooms.tried
            ],
        },
        "scores": [_score(score) for score in found.scores],
        "search": None
        if found.found is None
        else {
            "tries": found.found.tries,
            "best": asdict(found.found.best),
            "closed_forms": [list(row) for row in found.found.table],
            "verdict": asdict(found.found.verdict),
            "wins": found.found.verdict.wins,
        },
        "why": list(found.why),
        "warnings": list(found.warnings),
        "options": [asdict(each) for each in found.options],
        "written": None
        if found.written is None
        else {**asdict(found.written), "path": str(found.written.path)},
    }


def _score(score: Score) -> dict[str, object]:
    return {
        "name": score.name,
        "writable": score.candidate.writable,
        "hits": score.hits,
        "asked": score.asked,
        "log_probability": score.log_probability,
        "short_loss": score.short,
        "short_change": score.change,
        "stopped": score.stopped,
        "cells": [
            {
                "length": row.cell.length,
                "depth": row.cell.depth,
                "trial": row.cell.trial,
                "outcome": row.answer.outcome.value,
                "log_probability": row.answer.log_probability,
            }
            for row in score.rows
        ],
    }
