"""A summary made from a folder's texts is the one that was made from the values."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ropewalk.errors import StoreError
from ropewalk.proof.cells import Answer, Cell, Outcome, Row, Sharing
from ropewalk.proof.facts import RunFacts, read, with_plan, written
from ropewalk.proof.plan import Plan, make_plan
from ropewalk.proof.statistics.tally import by_task, own_rows, summarise, summary_of
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold, RelativeThreshold
from ropewalk.rope.spec import LayerGroup, Length, PositionSpec, RotarySpec

ROWS = [
    Row(Cell(n, d, t), n, d, "k", "1", Answer(Outcome.HIT, -0.1, "1", 0.5), f"{n}{d}{t}")
    for n in (1000, 2000)
    for d in (0.0, 1 / 3)
    for t in range(2)
]
PLAN = make_plan([1000, 2000, 3000], [0.0, 1 / 3, 1.0], 3, 0)


def spec(claimed: int | None, trained: int | None) -> PositionSpec:
    return PositionSpec(
        model_type="llama",
        format="test",
        groups=(),
        claimed=Length(claimed, "max_position_embeddings"),
        trained=Length(trained, "somewhere"),
    )


@pytest.mark.parametrize("threshold", [RelativeThreshold(0.85), AbsoluteThreshold(1 / 3)])
@pytest.mark.parametrize("lengths", [(8192, 2048), (None, None)])
def test_texts_give_back_grid_threshold_and_lengths(
    threshold: RelativeThreshold | AbsoluteThreshold, lengths: tuple[int | None, int | None]
) -> None:
    facts = read(written(with_plan(RunFacts(), PLAN, threshold, spec(*lengths))))
    summary = summary_of(ROWS, facts)
    wanted = summarise(
        ROWS,
        lengths=PLAN.lengths,
        depths=PLAN.depths,
        trials=PLAN.trials,
        threshold=threshold,
        claimed_length=lengths[0],
        claimed_source="max_position_embeddings",
        trained_length=lengths[1],
        trained_source="somewhere" if lengths[1] else "",
        facts={
            **facts.said(),
            "asked": "8 prompts, 12,000 tokens, 4 s, 3,000 tokens a second",
        },
    )
    assert summary == wanted


def test_prompts_that_did_not_fit_are_not_counted_as_read() -> None:
    answer = Answer(Outcome.OVERFLOW, None, "the learned table has 512 positions", 0.0)
    too_long = Row(Cell(3000, 0.0, 0), 3000, 0.0, "k", "1", answer, "too long")
    facts = with_plan(RunFacts(), PLAN, RelativeThreshold(0.85), spec(8192, None))
    asked = summary_of([*ROWS, too_long], facts).facts["asked"]
    assert asked == "8 prompts, 12,000 tokens, 4 s, 3,000 tokens a second; 1 more were not read"


def test_text_that_prompts_share_counts_once_as_read_and_so_does_the_speed() -> None:
    shared = [replace(row, sharing=Sharing.BRANCHES, tokens_read=50) for row in ROWS[1:]]
    first = replace(ROWS[0], sharing=Sharing.BRANCHES, tokens_read=1000)
    asked = summary_of([first, *shared], RunFacts(sharing=Sharing.BRANCHES)).facts["asked"]
    # 1,000 and seven times 50 tokens, in eight halves of a second.
    assert asked == "8 prompts, 12,000 tokens (1,350 of them read), 4 s, 338 tokens a second"


def test_another_threshold_stands_in_for_the_runs_own() -> None:
    facts = with_plan(RunFacts(), PLAN, RelativeThreshold(0.85), spec(8192, None))
    summary = summary_of(ROWS, facts, AbsoluteThreshold(0.3))
    assert summary.effective.threshold == 0.3


def test_without_a_stated_grid_the_kept_rows_span_it() -> None:
    summary = summary_of(ROWS, RunFacts())
    assert (summary.lengths, summary.depths, summary.trials) == ((1000, 2000), (0.0, 1 / 3), 2)


@pytest.mark.parametrize(
    "damage",
    [
        {"lengths": "many"},
        {"depths": []},
        {"trials": "x"},
        {"trials": 0},
        {"controls": 9},
        {"grown": [512]},
        {"claimed": "much"},
        {"sharing": "sideways"},
        {"threshold": {"share": 2}},
        {"left_out": [[1, "why"]]},
    ],
)
def test_a_record_that_cannot_be_is_a_sentence(damage: dict[str, object]) -> None:
    facts = with_plan(RunFacts(), PLAN, RelativeThreshold(0.85), spec(8192, None))
    record = json.loads(written(facts))
    assert read(json.dumps(record)) == facts
    with pytest.raises(StoreError, match="damaged"):
        read(json.dumps(record | damage))


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_what_is_no_record_is_a_sentence(text: str) -> None:
    with pytest.raises(StoreError, match="damaged"):
        read(text)


def test_a_length_below_the_threshold_has_what_the_schedule_predicted_beside_it() -> None:
    group = LayerGroup("all", (0,), RotarySpec(128, 128, 10000.0))
    spec = PositionSpec("llama", "t", (group,), Length(4096, "t"), Length(4096, "c"))
    plan = make_plan((1024, 8192), (0.0, 1.0), 1, 0)
    rows = [
        Row(cell, cell.length, cell.depth, "k", "v", Answer(outcome, -1.0, "", 1.0), repr(cell))
        for cell in plan.cells
        for outcome in [Outcome.HIT if cell.length == 1024 else Outcome.MISS]
    ]
    (reason,) = summary_of(rows, with_plan(RunFacts(), plan, RelativeThreshold(), spec)).reasons
    assert (reason.length, reason.depth) == (8192, 0.0)
    assert reason.likely[0].startswith("18 of 64 rotary pairs")


def test_lengths_that_were_given_more_trials_are_summed_up_with_them() -> None:
    rows = [
        Row(cell, 512, 0.5, "k", "v", Answer(Outcome.HIT, -1.0, "", 1.0), repr(cell))
        for cell in [Cell(512, 0.5, trial) for trial in range(33)]
    ]
    plan = make_plan([512], [0.5], 1, 0)
    facts = with_plan(RunFacts(), plan, AbsoluteThreshold(0.85), spec(8192, None))
    assert summary_of(rows, facts).columns[0].pooled.judged == 1
    # That others lie there does not make them this run's.
    until = replace(facts, until_certain=50)
    assert summary_of(rows, until).columns[0].pooled.judged == 1
    until = until.with_further([row.cell for row in rows[1:7]])
    assert summary_of(rows, until).columns[0].pooled.judged == 7
    until = until.with_further([row.cell for row in rows[7:]])
    grown = summary_of(rows, until)
    assert (grown.columns[0].pooled.judged, grown.columns[0].verdict) == (33, "passes")
    assert "at all looks together" in grown.interval


def test_a_run_that_fell_back_from_branches_is_judged_by_answers() -> None:
    nested = RunFacts(sharing=Sharing.BRANCHES)
    summary = summary_of(ROWS, nested)
    assert summary.interval.startswith("95 %, over documents")
    assert summary.facts["sharing"] == "branches"
    fallen = summary_of(ROWS, replace(nested, fallback=Sharing.PREFIX))
    assert fallen.interval == "Wilson 95 %"
    assert fallen.facts["sharing"] == "prefix"
    assert fallen.facts["fallback"].startswith("from branches, which")


def plans() -> list[Plan]:
    """Neighbours of a plan, each apart from it in one thing."""
    single = ("single",)
    return [
        make_plan(lengths, depths, trials, controls, tasks)
        for lengths, depths, trials, controls, tasks in (
            ((64, 128), (0.0, 0.5), 2, 1, single),
            ((64,), (0.0, 0.5), 2, 1, single),
            ((128,), (0.0, 0.5), 2, 1, single),
            ((64, 96, 128), (0.0, 0.5), 2, 1, single),
            ((64, 128), (0.0, 1.0), 2, 1, single),
            ((64, 128), (0.0, 0.5, 1.0), 2, 1, single),
            ((64, 128), (0.5,), 2, 1, single),
            ((64, 128), (0.0, 0.5), 3, 1, single),
            ((64, 128), (0.0, 0.5), 1, 1, single),
            ((64, 128), (0.0, 0.5), 2, 0, single),
            ((64, 128), (0.0, 0.5), 2, 2, single),
            ((64, 128), (0.0, 0.5), 2, 1, ("single", "order")),
            ((64, 128), (0.0, 0.5), 2, 1, ("order",)),
        )
    ]


@pytest.mark.parametrize("plan", plans(), ids=range(len(plans())))
def test_of_what_many_plans_left_in_a_folder_a_summary_counts_its_own_plan(plan: Plan) -> None:
    """As if no other had been there; controls and calibrations of others among them."""
    asked = {cell for each in plans() for cell in each.cells}
    answer = Answer(Outcome.HIT, -0.1, "1", 0.5)
    rows = [
        Row(cell, cell.length, cell.depth, "k", "1", answer, f"{way}{cell}", way)
        for cell in sorted(asked)
        for way in Sharing
    ]
    facts = with_plan(
        RunFacts(sharing=Sharing.PREFIX), plan, RelativeThreshold(0.85), spec(8192, None)
    )
    own = own_rows(rows, facts)
    assert len(own) == len(plan.cells)
    assert {row.cell for row in own} == set(plan.cells)
    assert {row.sharing for row in own} == {Sharing.PREFIX}
    assert summary_of(rows, facts) == summary_of(own, facts)
    tasks = by_task(rows, facts)
    assert tasks == by_task(own, facts)
    assert set(tasks) == set(plan.tasks)
    assert all(f.asked == f.planned == plan.trials for each in tasks.values() for f in each.cells)
