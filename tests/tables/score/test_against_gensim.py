"""Scores of the real table of all-MiniLM beside gensim's own on the same vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.score.benchmarks import score_analogies, score_pairs, table_vectors
from ropewalk.tables.score.datasets import packed_file, read_analogies, read_pairs
from ropewalk.tables.score.spellings import Lookup

gensim = pytest.importorskip("gensim.models")


@pytest.fixture(scope="module")
def table(minilm: Path) -> EmbeddingTable:
    return open_table(minilm)


@pytest.fixture(scope="module")
def keyed(table: EmbeddingTable) -> Any:
    """The same rows in gensim, under the pieces of the vocabulary."""
    assert table.vocabulary is not None
    made = gensim.KeyedVectors(table.width)
    pieces = [token.piece for token in table.vocabulary.tokens if token is not None]
    assert len(pieces) == table.rows
    made.add_vectors(pieces, table.whole().numpy())
    return made


@pytest.mark.parametrize("name", ["wordsim353", "simlex999"])
@pytest.mark.parametrize("fold", [False, True])
def test_pairs_have_gensims_correlations_and_coverage(
    table: EmbeddingTable, keyed: Any, name: str, fold: bool
) -> None:
    path = packed_file(name)
    theirs = keyed.evaluate_word_pairs(str(path), case_insensitive=fold)
    lookup = Lookup(table, fold=fold)
    ours = score_pairs(read_pairs(path, name), table_vectors(table, lookup))
    assert ours.pearson == pytest.approx(theirs[0][0], abs=1e-6)
    assert ours.spearman == pytest.approx(theirs[1][0], abs=1e-6)
    assert ours.oov_ratio == pytest.approx(theirs[2], abs=1e-9)
    assert set(lookup.used) == {"bare"}


def test_analogies_are_answered_as_gensim_answers_them(
    table: EmbeddingTable, keyed: Any, tmp_path: Path
) -> None:
    held = packed_file("analogies").read_text().splitlines()
    # Every 40th question, and every section.
    some = tmp_path / "some.txt"
    some.write_text("\n".join(x for i, x in enumerate(held) if x[0] == ":" or i % 40 == 0))
    _, sections = keyed.evaluate_word_analogies(str(some), case_insensitive=True)
    ours = score_analogies(table, read_analogies(some), Lookup(table, fold=True))
    theirs = {s["section"]: s for s in sections if s["section"] != "Total accuracy"}
    assert {s.name for s in ours.sections} == set(theirs)
    for section in ours.sections:
        mine = {
            tuple(w.upper() for w in (q.a, q.b, q.c, q.expected))
            for q in ours.correct
            if q.section == section.name
        }
        other = theirs[section.name]
        assert mine == set(other["correct"]), section.name
        assert section.asked == len(other["correct"]) + len(other["incorrect"])
    assert 0.2 < (ours.whole.accuracy or 0) < 1
    # gensim folds by itself here; without folding names of cities are no words of this table.
    assert score_analogies(table, read_analogies(some), Lookup(table)).whole.asked < 300
