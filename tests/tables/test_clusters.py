"""Clusters of rows: planted ones are found, scikit-learn agrees, what cannot be is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from ropewalk.errors import UsageError
from ropewalk.tables.clusters import cluster
from ropewalk.tables.open import EmbeddingTable, open_table
from ropewalk.tables.sample import choose_rows


def _table(folder: Path, rows: torch.Tensor, words: list[str] | None = None) -> EmbeddingTable:
    save_file({"embed_tokens.weight": rows}, folder / "model.safetensors")
    if words is not None:
        (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "BertTokenizer"})
        )
    return open_table(folder / "model.safetensors")


def _planted(sizes: tuple[int, ...], width: int = 24, noise: float = 0.1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    centres = torch.eye(width)[: len(sizes)]
    rows = centres.repeat_interleave(torch.tensor(sizes), 0)
    rows = rows + noise * torch.randn(rows.shape, generator=generator)
    # Lengths must not matter.
    return rows * torch.rand(len(rows), 1, generator=generator).add(0.1).mul(10)


def test_two_planted_clusters_are_found_whatever_the_lengths(tmp_path: Path) -> None:
    found = cluster(_table(tmp_path, _planted((70, 130))), 2)
    assert [c.size for c in found.clusters] == [130, 70]
    assert found.labels.tolist() == [1] * 70 + [0] * 130
    assert all(row >= 70 for row, _ in found.clusters[0].central)
    assert found.silhouette is not None
    assert found.silhouette > 0.5


def test_clusters_fitted_on_all_rows_are_those_of_scikit_learn(tmp_path: Path) -> None:
    rows = _planted((50, 60, 70, 80), noise=0.2)
    found = cluster(_table(tmp_path, rows), 4, seed=3)
    units = (rows / rows.norm(dim=1, keepdim=True)).numpy()
    theirs = KMeans(4, n_init=10, random_state=11).fit(units)
    assert adjusted_rand_score(found.labels.numpy(), theirs.labels_) == 1.0
    assert found.inertia == pytest.approx(theirs.inertia_ / len(units), rel=1e-4)
    assert found.judged == 260
    assert found.silhouette == pytest.approx(silhouette_score(units, theirs.labels_), rel=1e-4)
    for place, one in enumerate(found.clusters):
        members = units[found.labels.numpy() == place]
        centre = members.mean(0) / np.linalg.norm(members.mean(0))
        assert one.cosine == pytest.approx(float((members @ centre).mean()), abs=1e-4)
        cosines = units @ centre
        cosines[found.labels.numpy() != place] = -2
        assert [row for row, _ in one.central] == np.argsort(-cosines)[:8].tolist()


def test_centres_of_a_sample_serve_every_row(tmp_path: Path) -> None:
    table = _table(tmp_path, _planted((400, 500)))
    found = cluster(table, 2, fitted=40)
    assert found.fitted == 40
    assert sorted(c.size for c in found.clusters) == [400, 500]
    again = cluster(table, 2, fitted=40)
    assert torch.equal(found.labels, again.labels)
    assert found.clusters == again.clusters


def test_rows_without_direction_are_named_and_in_no_cluster(tmp_path: Path) -> None:
    rows = _planted((50, 50))
    rows[3], rows[60] = 0.0, torch.nan
    found = cluster(_table(tmp_path, rows), 2)
    assert (found.zero, found.not_finite) == ((3,), (60,))
    assert found.labels[[3, 60]].tolist() == [-1, -1]
    assert sum(c.size for c in found.clusters) == 98


def test_rows_without_a_token_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    rows = _planted((4, 4))
    table = _table(tmp_path, rows, [f"w{i}" for i in range(6)])
    found = cluster(table, 2)
    assert found.labels[6:].tolist() == [-1, -1]
    assert "6 rows with a token; 2 rows without a token are left out" in found.chosen.line
    assert (cluster(table, 2, all_rows=True).labels >= 0).all()


def test_central_tokens_that_tie_stand_by_id(tmp_path: Path) -> None:
    found = cluster(_table(tmp_path, torch.eye(4).repeat(3, 1)), 4)
    for one in found.clusters:
        ids = [row for row, _ in one.central]
        assert ids == sorted(ids)
        assert one.cosine == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "said"),
    [
        (0, "0 clusters were asked for; ask for 1 or more"),
        (-3, "-3 clusters"),
        (101, "101 clusters were asked for, to be fitted on 100 of 100 rows"),
    ],
)
def test_numbers_of_clusters_that_cannot_be_are_refused(tmp_path: Path, k: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        cluster(_table(tmp_path, _planted((50, 50))), k)


def test_more_clusters_than_directions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have fewer different directions"):
        cluster(_table(tmp_path, torch.eye(4).repeat(5, 1)), 6)


def test_one_cluster_has_no_silhouette(tmp_path: Path) -> None:
    found = cluster(_table(tmp_path, _planted((5, 5))), 1)
    assert (found.silhouette, found.judged) == (None, 0)


def test_samples_are_even_seeded_and_told(tmp_path: Path) -> None:
    table = _table(tmp_path, torch.ones(1000, 4))
    counts = torch.zeros(1000)
    for seed in range(40):
        drawn = choose_rows(table, 250, seed=seed)
        assert torch.equal(drawn.ids, drawn.ids.unique())
        counts[drawn.ids] += 1
    # Each row is drawn 10 times of 40 on average, by a binomial whose spread is 2.7.
    assert counts.min() > 0
    assert counts.max() < 25
    assert abs(float(counts[:500].sum()) - 5000) < 300
    assert torch.equal(choose_rows(table, 250, seed=1).ids, choose_rows(table, 250, seed=1).ids)
    assert choose_rows(table, 250, seed=1).line.startswith("250 of 1,000 rows, drawn without")
    assert choose_rows(table, 5000).line == "all 1,000 rows"
    with pytest.raises(UsageError, match="a sample of 0 rows"):
        choose_rows(table, 0)


def test_all_minilm_puts_numbers_and_its_unused_rows_apart(minilm: Path) -> None:
    table = open_table(minilm)
    found = cluster(table, 10, fitted=4000)
    words = [{table.label(row) for row, _ in one.central} for one in found.clusters]
    assert any(sum(w.isdigit() for w in own) >= 6 for own in words)
    years = [int(found.labels[table.vocabulary.ids(str(y).encode())[0]]) for y in range(1900, 2000)]  # type: ignore[union-attr]
    assert max(years.count(place) for place in set(years)) >= 95
