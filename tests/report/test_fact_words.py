"""Facts as a reader wants them."""

from __future__ import annotations

from ropewalk.report.fact_words import readable_facts


def test_hashes_stand_beside_names_and_what_is_shown_elsewhere_is_left_out() -> None:
    facts = {
        "asked": "6 prompts",
        "chat": "base prompt",
        "claimed": "8192",
        "claimed_source": "max_position_embeddings",
        "command": "ropewalk prove smollm2",
        "date": "2026-01-01",
        "depths": "0.0,1.0",
        "device": "cpu",
        "dtype": "fp32",
        "haystack": "generated",
        "lengths": "2048",
        "model": "b179c952",
        "name": "SmolLM2-135M-Instruct",
        "recipe": "1, distractors 0",
        "rope": "yarn:2",
        "schedule": "03fdab54",
        "seed": "0",
        "threshold": "relative:0.85",
        "tokenizer": "5d5d5d5d",
        "trained": "8192",
        "trials": "4",
        "versions": "ropewalk 0.1.0",
    }
    assert list(readable_facts(facts).items()) == [
        ("model", "SmolLM2-135M-Instruct (weights b179c952)"),
        ("schedule", "yarn:2 (fingerprint 03fdab54)"),
        ("prompts", "base prompt, layout 1, distractors 0"),
        ("ran on", "cpu, fp32"),
        ("haystack", "generated"),
        ("seed", "0"),
        ("asked", "6 prompts"),
        ("versions", "ropewalk 0.1.0"),
        ("date", "2026-01-01"),
        ("command", "ropewalk prove smollm2"),
    ]


def test_facts_that_are_not_known_pass_and_missing_ones_leave_no_trace() -> None:
    assert readable_facts({"model": "toy", "mood": "calm"}) == {"model": "toy", "mood": "calm"}
    assert readable_facts({}) == {}
