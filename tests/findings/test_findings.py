"""Each finding in the case that calls for it, and in a near case that must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ropewalk.findings import Audit, Finding, audit
from ropewalk.rope.schedules import (
    DynamicNtk,
    Linear,
    Llama3,
    LongRope,
    PairDivisors,
    UnknownScaling,
    Yarn,
)
from ropewalk.rope.spec import (
    IncompleteRotary,
    LayerGroup,
    LearnedPositions,
    Length,
    PositionSpec,
    RelativeBuckets,
    RotarySpec,
    SinusoidalSpec,
    Window,
)

MakeSpec = Callable[..., PositionSpec]


def found(result: Audit, code: str) -> Finding | None:
    matching = [finding for finding in result.findings if finding.code == code]
    assert len(matching) <= 1, "the same finding twice"
    return matching[0] if matching else None


def must(result: Audit, code: str) -> Finding:
    finding = found(result, code)
    assert finding is not None, [f.code for f in result.findings]
    assert finding.text.endswith(".")
    assert finding.remedy.endswith(".")
    return finding


def test_a_guessed_trained_length_is_said_and_a_stated_one_is_not(make_spec: MakeSpec) -> None:
    guess = must(audit(make_spec(claimed=16384, scaling=Linear(4.0))), "trained-length-guessed")
    assert "4096 is taken: a guess, claimed 16384 / linear factor 4" in guess.text
    assert found(audit(make_spec(trained=4096)), "trained-length-guessed") is None


def test_a_factor_that_contradicts_the_lengths_is_a_warning(make_spec: MakeSpec) -> None:
    # AFM-4.5B: factor 20 on 4096, and 65536 claimed.
    afm = audit(make_spec(scaling=Yarn(20.0, 4096), trained=4096, claimed=65536))
    finding = must(afm, "factor-lengths-disagree")
    assert finding.severity == "warning"
    assert "81920" in finding.text
    assert "ratio of 16" in finding.text
    # DeepSeek-V3: 40 x 4096 = 163840, as claimed.
    deepseek = audit(make_spec(scaling=Yarn(40.0, 4096), trained=4096, claimed=163840))
    assert found(deepseek, "factor-lengths-disagree") is None
    # By arithmetic a guess always agrees, which says nothing.
    assert found(audit(make_spec(scaling=Linear(4.0))), "factor-lengths-disagree") is None


@pytest.mark.parametrize(
    ("factor", "claimed", "reach", "side"),
    [(8.0, 131072, 65536, "short of"), (32.0, 131072, 262144, "beyond"),
     (16.0, 10485760, 131072, "short of")],
)  # fmt: skip
def test_a_llama3_claim_rests_on_its_own_field(
    make_spec: MakeSpec, factor: float, claimed: int, reach: int, side: str
) -> None:
    scaling = Llama3(factor, 1.0, 4.0, 8192)
    result = audit(make_spec(scaling=scaling, base=5e5, trained=8192, claimed=claimed))
    finding = must(result, "llama3-claim")
    assert f"= {reach}, {side} the claimed {claimed}" in finding.text
    assert "max length alone" in finding.text
    assert found(result, "factor-lengths-disagree") is None


def test_a_llama3_factor_that_reaches_the_claim_needs_no_words(make_spec: MakeSpec) -> None:
    scaling = Llama3(16.0, 1.0, 4.0, 8192)
    result = audit(make_spec(scaling=scaling, base=5e5, trained=8192, claimed=131072))
    assert found(result, "llama3-claim") is None


def test_a_horizon_below_the_trained_length_is_a_diagnostic_and_no_verdict(
    make_spec: MakeSpec,
) -> None:
    finding = must(audit(make_spec(claimed=4096)), "horizon-below-trained")
    assert finding.severity == "note"
    assert "1707" in finding.text
    assert "not a verdict" in finding.text
    # Base 500000 has its horizon at 18438.
    assert found(audit(make_spec(base=5e5, claimed=8192)), "horizon-below-trained") is None
    # A window of 1024 never spans 1707 tokens.
    assert found(audit(make_spec(window=1024)), "horizon-below-trained") is None


def test_static_yarn_changes_short_prompts_unless_the_model_was_trained_with_it(
    make_spec: MakeSpec,
) -> None:
    yarn = Yarn(4.0, 32768)
    qwen = make_spec(scaling=yarn, base=1e6, model_type="qwen2", trained=32768, claimed=131072)
    assert "within 32768 tokens" in must(audit(qwen), "static-yarn").text
    deepseek = make_spec(
        scaling=Yarn(40.0, 4096), model_type="deepseek_v3", trained=4096, claimed=163840
    )
    assert found(audit(deepseek), "static-yarn") is None
    idle = make_spec(scaling=Yarn(1.0, 4096), trained=4096, claimed=4096)
    assert found(audit(idle), "static-yarn") is None


def test_schedules_that_depend_on_the_length_name_the_engines(make_spec: MakeSpec) -> None:
    dynamic = must(audit(make_spec(scaling=DynamicNtk(2.0, 4096))), "depends-on-length")
    assert dynamic.severity == "note"
    assert "vLLM" in dynamic.text
    phi = LongRope((1.0,) * 64, (4.0,) * 64, 4096, 32.0)
    longrope = audit(make_spec(scaling=phi, trained=4096, claimed=131072))
    finding = must(longrope, "depends-on-length")
    assert finding.severity == "warning"
    assert "mlx" in finding.text
    assert found(audit(make_spec(scaling=Linear(2.0))), "depends-on-length") is None
    equal = LongRope((4.0,) * 64, (4.0,) * 64, 4096, 32.0)
    same = audit(make_spec(scaling=equal, trained=4096, claimed=131072))
    assert found(same, "depends-on-length") is None


def test_short_factors_other_than_one_are_told(make_spec: MakeSpec) -> None:
    stretched = LongRope((1.05,) * 63 + (3.05,), (4.0,) * 64, 4096, 32.0)
    finding = must(
        audit(make_spec(scaling=stretched, trained=4096, claimed=131072)), "short-factors-stretch"
    )
    assert "1.05 to 3.05" in finding.text
    plain = LongRope((1.0,) * 64, (4.0,) * 64, 4096, 32.0)
    result = audit(make_spec(scaling=plain, trained=4096, claimed=131072))
    assert found(result, "short-factors-stretch") is None


def test_a_window_in_every_rotary_layer_bounds_what_is_seen(make_spec: MakeSpec) -> None:
    # Mistral-7B v0.1: 4096 tokens back in all layers, 32768 claimed.
    everywhere = must(audit(make_spec(window=4096, claimed=32768)), "window-below-claim")
    assert "at most 4096" in everywhere.text
    # Gemma 2 alternates.
    full = LayerGroup("full", (1,), RotarySpec(128, 128, 1e4))
    mixed = audit(make_spec(window=4096, claimed=8192, more=(full,)))
    assert found(mixed, "window-below-claim") is None
    assert found(audit(make_spec(window=8192, claimed=8192)), "window-below-claim") is None


def test_a_table_of_positions_is_a_hard_limit(make_spec: MakeSpec) -> None:
    gpt2 = must(audit(make_spec(LearnedPositions(1024), claimed=1024)), "hard-limit")
    assert gpt2.severity == "note"
    assert "1024 tokens" in gpt2.text
    # RoBERTa states 514 rows, of which 2 serve no position.
    roberta = must(audit(make_spec(LearnedPositions(512, 2), claimed=514)), "hard-limit")
    assert roberta.severity == "warning"
    assert "serves 512 tokens, and the file claims 514" in roberta.text
    assert must(audit(make_spec(SinusoidalSpec(512), claimed=512)), "hard-limit")
    assert found(audit(make_spec()), "hard-limit") is None


def test_pairs_with_new_angles_are_counted(make_spec: MakeSpec) -> None:
    plain = must(audit(make_spec(trained=4096, claimed=8192)), "unseen-angles")
    assert plain.severity == "warning"
    assert "18 of 64 pairs" in plain.text
    assert found(audit(make_spec(trained=4096, claimed=4096)), "unseen-angles") is None
    yarn = audit(make_spec(scaling=Yarn(4.0, 4096), trained=4096, claimed=16384))
    assert found(yarn, "unseen-angles") is None


def test_new_angles_under_llama3_are_a_note(make_spec: MakeSpec) -> None:
    scaling = Llama3(8.0, 1.0, 4.0, 8192)
    result = audit(make_spec(scaling=scaling, base=5e5, trained=8192, claimed=131072))
    finding = must(result, "unseen-angles")
    assert finding.severity == "note"
    assert "reference length" in finding.text


def test_new_angles_under_longrope_are_a_note_unless_its_factors_end_too_early(
    make_spec: MakeSpec,
) -> None:
    # Phi-3-mini-128k stretches its slowest pairs 64.8 times, and claims 32.
    enough = LongRope((1.0,) * 64, (1.0,) * 40 + (2.0,) * 8 + (64.8,) * 16, 4096, 32.0)
    result = audit(make_spec(scaling=enough, trained=4096, claimed=131072))
    assert must(result, "unseen-angles").severity == "note"
    assert found(result, "long-factors-short") is None
    # A copy of Phi-3.5's file that goes about has a list that ends at 1.23.
    early = LongRope((1.0,) * 64, (1.0,) * 48 + (1.23,) * 16, 4096, 32.0)
    finding = must(
        audit(make_spec(scaling=early, trained=4096, claimed=131072)), "long-factors-short"
    )
    assert finding.severity == "warning"
    assert "reach 1.23 at most, and 131072 tokens are 32 times 4096" in finding.text


def test_a_model_without_a_length_key_is_told_without_a_guess(make_spec: MakeSpec) -> None:
    t5 = audit(make_spec(RelativeBuckets(32, 128), claimed=None))
    assert "no last position" in must(t5, "no-claimed-length").text
    assert found(t5, "trained-length-guessed") is None
    assert found(audit(make_spec()), "no-claimed-length") is None


def test_an_amplitude_whose_other_half_is_missing_is_a_warning(make_spec: MakeSpec) -> None:
    pair = Yarn(40.0, 4096, mscale=0.707, mscale_all_dim=1.0)
    half = audit(make_spec(scaling=pair, trained=4096, claimed=163840))
    assert "1.8739" in must(half, "amplitude-incomplete").text  # (0.1 ln 40 + 1)^2
    whole = make_spec(scaling=pair, trained=4096, claimed=163840, softmax=1.87385)
    assert found(audit(whole), "amplitude-incomplete") is None
    stated = Yarn(40.0, 4096, attention_factor=1.0)
    result = audit(make_spec(scaling=stated, trained=4096, claimed=163840))
    assert found(result, "amplitude-incomplete") is None
    lone = Yarn(20.0, 4096, mscale=1.0)
    result = audit(make_spec(scaling=lone, trained=4096, claimed=81920))
    assert found(result, "amplitude-incomplete") is None


def test_a_pair_that_cancels_is_a_note_that_says_to_leave_it(make_spec: MakeSpec) -> None:
    # Ministral 3: 1.0 on cos and sin is meant; without the keys it would be 0.1 ln 16 + 1.
    pair = Yarn(16.0, 16384, mscale=1.0, mscale_all_dim=1.0)
    result = audit(make_spec(scaling=pair, trained=16384, claimed=262144))
    assert found(result, "amplitude-incomplete") is None
    finding = must(result, "mscale-pair-cancels")
    assert finding.severity == "note"
    assert finding.remedy.startswith("Leave both keys")
    assert "1.2773" in finding.remedy
    assert result.rotary[0].claim.attention_factor == 1.0


def test_unknown_scaling_is_a_warning_and_the_rest_is_described(make_spec: MakeSpec) -> None:
    result = audit(make_spec(scaling=UnknownScaling("telescope")))
    assert "'telescope'" in must(result, "unknown-scaling-type").text
    assert result.rotary == ()


def test_an_incomplete_encoding_names_what_is_missing(make_spec: MakeSpec) -> None:
    result = audit(make_spec(IncompleteRotary(("rope_theta", "head_dim"), reason="old file")))
    finding = must(result, "incomplete-rotary")
    assert "rope_theta, head_dim (old file)" in finding.text


def test_a_schedule_that_cannot_be_built_is_a_finding_not_an_error(make_spec: MakeSpec) -> None:
    result = audit(make_spec(scaling=Yarn(4.0, 4), trained=4096))
    assert "4 tokens is too short" in must(result, "schedule-impossible").text


def test_scaling_that_lies_in_a_tensor_may_be_dropped_by_loaders(make_spec: MakeSpec) -> None:
    tensor = audit(make_spec(scaling=PairDivisors((1.0,) * 64)))
    assert "transformers" in must(tensor, "schedule-in-tensor").text
    rule = audit(make_spec(scaling=Llama3(8.0, 1.0, 4.0, 8192)))
    assert found(rule, "schedule-in-tensor") is None


def test_other_lengths_are_listed_and_a_sentinel_is_not_a_length(make_spec: MakeSpec) -> None:
    other = (Length(131072, "model_max_length"),)
    finding = must(audit(make_spec(claimed=8192, others=other)), "other-lengths")
    assert "131072 (model_max_length)" in finding.text
    huge = (Length(10**30, "tokenizer"), Length(8192, "n_ctx"))
    assert found(audit(make_spec(claimed=8192, others=huge)), "other-lengths") is None


def test_a_readers_remark_is_kept_and_not_said_again(make_spec: MakeSpec) -> None:
    remark = Finding(
        "lengths-disagree", "warning", "the file says 8192 and 131072", "ask the authors"
    )
    others = (Length(131072, "model_max_length"),)
    result = audit(make_spec(claimed=8192, others=others, remarks=(remark,)))
    finding = must(result, "lengths-disagree")
    assert finding.text == "The file says 8192 and 131072."
    assert finding.severity == "warning"
    assert found(result, "other-lengths") is None


def test_a_remark_without_a_remedy_gives_way_to_the_finding_that_has_one(
    make_spec: MakeSpec,
) -> None:
    remark = Finding("hard-limit", "note", "positions are a learned table")
    table = LearnedPositions(512, 2)
    result = audit(make_spec(table, claimed=514, remarks=(remark,)))
    assert must(result, "hard-limit").severity == "warning"


def test_a_remark_that_begins_with_a_field_keeps_its_spelling(make_spec: MakeSpec) -> None:
    remark = Finding("mscale-ignored", "note", "rope_scaling.mscale stands alone", "remove it")
    result = audit(make_spec(remarks=(remark,)))
    assert must(result, "mscale-ignored").text == "rope_scaling.mscale stands alone."


def test_each_group_speaks_for_itself(make_spec: MakeSpec) -> None:
    local = LayerGroup("local", (1,), RotarySpec(128, 128, 1e4), Window(1024))
    result = audit(make_spec(base=1e6, claimed=131072, more=(local,)))
    assert [part.group.name for part in result.rotary] == ["all layers", "local"]
    # The global layers' horizon is 27115; the local ones never look that far.
    assert "all layers" in must(result, "horizon-below-trained").text


def test_what_holds_for_several_groups_is_said_once_with_their_names(make_spec: MakeSpec) -> None:
    # Gemma 2: sliding and full layers share base 10000.
    local = LayerGroup("local", (1,), RotarySpec(128, 128, 1e4), Window(4096))
    result = audit(make_spec(claimed=8192, more=(local,)))
    assert must(result, "horizon-below-trained").text.startswith("all layers and local: base")
    single = must(audit(make_spec(claimed=8192)), "horizon-below-trained")
    assert single.text.startswith("Base 10,000")


def test_a_scaling_is_judged_even_where_the_base_is_missing(make_spec: MakeSpec) -> None:
    # The two keys that Qwen documents for longer prompts, on their own.
    snippet = IncompleteRotary(("rope_theta", "head_dim"), scaling=Yarn(4.0, 32768))
    result = audit(make_spec(snippet, model_type="", trained=32768, claimed=131072))
    assert result.origin.code == "yarn"
    assert must(result, "static-yarn")
    assert found(result, "factor-lengths-disagree") is None


def test_a_horizon_is_not_searched_past_a_window(make_spec: MakeSpec) -> None:
    horizon = audit(make_spec(window=1024)).rotary[0].horizon
    assert horizon is not None
    assert (horizon.tokens, horizon.searched) == (None, 1024)


def test_a_very_long_claim_says_how_far_the_horizon_was_searched(make_spec: MakeSpec) -> None:
    horizon = audit(make_spec(base=1e12, claimed=10_485_760)).rotary[0].horizon
    assert horizon is not None
    assert (horizon.tokens, horizon.searched) == (None, 262_144)
