"""Known-unused rows and the candidates near them, planted and in real tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from ropewalk.errors import RowError
from ropewalk.tables.health.check import Health, HealthOptions, check_health
from ropewalk.tables.health.scan import scan
from ropewalk.tables.health.undertrained import (
    Head,
    Indicator,
    Reference,
    Undertrained,
    undertrained_of,
)
from ropewalk.tables.health.unused import known_unused, says_unused
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.principal import spread_of
from ropewalk.tables.vocabulary import Token, TokenKind

Numbers = Callable[..., Tensor]
MakeTable = Callable[..., EmbeddingTable]

PIECES = ["[PAD]", "[unused0]", "[unused1]", "<|reserved_special_token_3|>"] + [
    f"w{n}" for n in range(56)
]


def _planted(normal: Numbers) -> Tensor:
    """Trained rows far out, unused ones about one place, and w40 and w41 among these."""
    rows = normal(64, 24) * 2
    place = normal(1, 24, seed=9)
    for row in (1, 2, 3, 60, 61, 62, 63, 44, 45):
        rows[row] = place + 0.01 * normal(1, 24, seed=row)
    return rows


def _candidates(health: Health) -> Undertrained:
    assert health.undertrained is not None
    return health.undertrained


def test_unused_rows_are_known_without_a_registry(make_table: MakeTable, normal: Numbers) -> None:
    unused = known_unused(scan(make_table(normal(64, 8), PIECES)), given=[7])
    assert {source.reason: source.rows.ranges for source in unused.sources} == {
        "named by --unused": ((7, 7),),
        "rows without a token": ((60, 63),),
        "named as unused or reserved": ((1, 3),),
    }
    assert unused.count == 8


@pytest.mark.parametrize(
    ("piece", "kind", "unused"),
    [
        ("[unused993]", TokenKind.TEXT, True),
        ("<|reserved_200017|>", TokenKind.SPECIAL, True),
        ("<RESERVED_5>", TokenKind.SPECIAL, True),
        ("<pad_of_a_gguf>", TokenKind.UNUSED, True),
        ("<extra_id_7>", TokenKind.UNUSED, False),
        ("unused", TokenKind.TEXT, False),
        ("▁reserved", TokenKind.TEXT, False),
        ("[preserved]", TokenKind.TEXT, False),
    ],
)
def test_a_name_says_unused_only_in_brackets(piece: str, kind: TokenKind, unused: bool) -> None:
    assert says_unused(Token(piece.encode(), kind, piece)) is unused


def test_planted_rows_rank_lowest_and_say_why(make_table: MakeTable, normal: Numbers) -> None:
    found = _candidates(check_health(make_table(_planted(normal), PIECES), HealthOptions(top=4)))
    assert {one.row for one in found.candidates[:2]} == {44, 45}
    assert found.ranked_by == "cosine distance, 1st PC removed"
    assert found.cohesion == pytest.approx(1, abs=1e-3)
    first, second, third, _ = found.candidates
    assert (first.scores[0].share, second.scores[0].share) == (1 / 57, 2 / 57)
    assert "known-unused rows; 56 of 57 tokens have more" in first.reason
    assert third.scores[0].value is not None
    assert first.scores[0].value is not None
    assert third.scores[0].value > 10 * first.scores[0].value


def test_distances_are_the_papers_by_a_loop_in_double_precision(normal: Numbers) -> None:
    rows, unused = normal(20, 6) + 1, normal(1, 6, seed=3)[0].double()
    wide = rows.double().numpy()
    mean = wide.mean(0)
    axis = np.linalg.svd(wide - mean)[2][0]
    found = Reference(unused, torch.from_numpy(mean), torch.from_numpy(axis)).scores(rows)

    def cosine(a: np.ndarray, b: np.ndarray) -> float:
        return float(1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    target = unused.numpy()
    for at, row in enumerate(wide):
        flat, flat_target = row - (row @ axis) * axis, target - (target @ axis) * axis
        expected = {
            Indicator.COSINE: cosine(row, target),
            Indicator.COSINE_MEAN: cosine(row - mean, target - mean),
            Indicator.COSINE_AXIS: cosine(flat, flat_target),
            Indicator.DISTANCE: np.linalg.norm(row - target),
            Indicator.DISTANCE_AXIS: np.linalg.norm(flat - flat_target),
        }
        for indicator, value in expected.items():
            assert float(found[indicator][at]) == pytest.approx(value, rel=1e-4, abs=1e-6)


def test_in_an_untied_model_the_input_norm_ranks_and_distances_are_the_heads(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows, head = normal(64, 24), _planted(normal)
    rows[45] *= 0.01
    table = make_table(rows, PIECES, head=head, bias=torch.arange(64.0))
    found = _candidates(check_health(table, HealthOptions(top=1)))
    assert (found.ranked_by, found.tensor) == ("L2 norm", "lm_head.weight")
    (lowest,) = found.candidates
    by_name = {score.indicator: score for score in lowest.scores}
    assert lowest.row == 45
    assert by_name["cosine distance, 1st PC removed"].share is not None
    assert by_name["cosine distance, 1st PC removed"].share <= 2 / 57
    assert by_name["output bias"].value == 45.0


def test_without_known_unused_rows_only_norms_are_left(
    make_table: MakeTable, normal: Numbers
) -> None:
    rows = normal(20, 8)
    rows[6] *= 1e-3
    found = _candidates(check_health(make_table(rows), HealthOptions(top=1)))
    assert (found.unused, found.tensor, found.ranked_by) == (0, None, "L2 norm")
    assert found.candidates[0].row == 6


def test_unused_rows_of_zeros_leave_l2_distances(make_table: MakeTable, normal: Numbers) -> None:
    rows = normal(64, 8)
    rows[[1, 2, 3, 60, 61, 62, 63]] = 0.0
    rows[20] *= 1e-3
    found = _candidates(check_health(make_table(rows, PIECES), HealthOptions(top=1)))
    assert (found.ranked_by, found.cohesion) == ("cosine distance, mean removed", None)
    values = {score.indicator: score.value for score in found.candidates[0].scores}
    assert "cosine distance" not in values
    assert found.unused == 7


def test_a_row_without_direction_in_the_head_is_not_scored_there(
    make_table: MakeTable, normal: Numbers
) -> None:
    head = _planted(normal)
    head[50] = torch.nan
    rows = normal(64, 24)
    rows[50] *= 1e-3
    found = _candidates(check_health(make_table(rows, PIECES, head=head), HealthOptions(top=1)))
    assert found.candidates[0].row == 50
    assert [score.value for score in found.candidates[0].scores[1:]] == [None] * 5


def test_an_unused_row_that_the_table_lacks_is_refused(
    make_table: MakeTable, normal: Numbers
) -> None:
    with pytest.raises(RowError, match=r"row 64 .* it has 64 rows, 0 to 63"):
        check_health(make_table(normal(64, 4)), HealthOptions(unused=(64,)))


def test_berts_unused_rows_are_known_and_close_to_one_another(minilm: Path) -> None:
    table = open_table(minilm)
    unused = known_unused(scan(table))
    assert [(s.reason, s.rows.count) for s in unused.sources] == [
        ("named as unused or reserved", 994)
    ]
    vocabulary = table.vocabulary
    assert vocabulary is not None
    assert unused.mask.nonzero().flatten().tolist() == [
        row
        for row, token in enumerate(vocabulary.tokens)
        if token is not None and token.piece.startswith("[unused")
    ]


def test_tokens_of_smollm2_equal_to_a_reserved_one_rank_lowest(smollm2_gguf: Path) -> None:
    table = open_table(smollm2_gguf)
    found = scan(table)
    # <issue_start>, <issue_closed>, <jupyter_code>, <jupyter_script>, <empty_output>: one row.
    unused = known_unused(found, given=(8, 10, 13, 15, 16))
    axes = spread_of(table.tiles(), table.width).axes(1)
    head = Head(table, axes.centre, axes.vectors[:, 0])
    ranked = undertrained_of(found, head, unused, top=4)
    assert ranked is not None
    labels = [one.label for one in ranked.candidates]
    assert labels[:2] == ["ManagementPlaneProtection", "␣InstancePreprocess"]
    assert ranked.candidates[0].scores[0].share == pytest.approx(2 / 49_147)


def test_llamas_impossible_bytes_are_known_unused(wordllama: Path) -> None:
    unused = known_unused(scan(open_table(wordllama)))
    assert [(s.reason, s.rows.count) for s in unused.sources] == [
        ("bytes that no UTF-8 text holds", 13)
    ]
    # <0xC0> of Llama 2's vocabulary is 3 + 0xC0.
    assert unused.sources[0].rows.ranges == ((195, 196), (248, 258))
