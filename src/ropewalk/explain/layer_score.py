"""The raw table's score on judged pairs of words beside that of every layer of its model.

Each word is put through the model once, alone or in a neutral frame, and its tokens' states at a
layer, averaged, are its vector there. The row of the table is the mean of the same tokens' rows,
so that every layer is scored on the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.explain.occurrences import Occurrence, Pieces, Place, occurrence_at
from ropewalk.explain.watch import Parts, find_parts, layer_states
from ropewalk.short import short
from ropewalk.tables.score.benchmarks import PairScore, score_pairs
from ropewalk.tables.score.datasets import PairSet

ALONE = "{}"
"""The frame that is none."""
NEUTRAL = "This is about the word {}"
"""What a word stands in unless told otherwise. In a causal model a word alone is the first token
of all, which sees nothing and on which attention rests."""

_AT_ONCE = 64


@short
@dataclass(frozen=True, slots=True)
class LayerScore:
    """One layer: a score for each benchmark, as it is and less the mean vector of all words."""

    name: str
    scores: tuple[PairScore, ...]
    centred: tuple[PairScore, ...]


@short
@dataclass(frozen=True, slots=True)
class LayerScores:
    """All layers, from the table on. `pieces` stands for a word of several tokens."""

    name: str
    frame: str
    pieces: Pieces
    layers: tuple[LayerScore, ...]


def layer_scores(
    model: Any,
    tokenizer: Any,
    sets: Sequence[PairSet],
    *,
    name: str,
    frame: str = NEUTRAL,
    pieces: Pieces = Pieces.MEAN,
    share: Callable[[int, int], None] = lambda _done, _total: None,
) -> LayerScores:
    """Score a transformers model without a head, in eval mode on the CPU, layer by layer.

    `frame` holds {} once, for the word; `share` is told how many words of how many are done.
    Raises UsageError for another frame and for no pairs, RowError for a word's token without a row,
    ModelFileError as `layer_states`.
    """
    if frame.count("{}") != 1:
        raise UsageError(f"the frame is {frame!r:.80}; it holds {{}} once, in the word's place")
    words = sorted({w for held in sets for p in held.pairs for w in (p.one, p.other)})
    if not words:
        raise UsageError("no pairs were given to score layers on")
    start = frame.index("{}")
    placed = [
        occurrence_at(tokenizer, word, frame.replace("{}", word), Place(0, start, 1, 1))
        for word in words
    ]
    parts = find_parts(model, name)
    for each in placed:
        parts.check_rows(each.ids, tokenizer, f"the text {each.text!r}")
    names, states = _states(model, parts, placed, pieces, share)
    at = {word: i for i, word in enumerate(words)}
    return LayerScores(
        name,
        frame,
        pieces,
        tuple(
            LayerScore(layer, _scores(sets, vectors, at), _scores(sets, _less_mean(vectors), at))
            for layer, vectors in zip(names, states, strict=True)
        ),
    )


def _states(
    model: Any,
    parts: Parts,
    placed: Sequence[Occurrence],
    pieces: Pieces,
    share: Callable[[int, int], None],
) -> tuple[tuple[str, ...], list[Tensor]]:
    """The layers' names, and of each layer the words' vectors (words, d_model)."""
    # Texts of one length go together, and none is padded.
    order = sorted(range(len(placed)), key=lambda i: (len(placed[i].ids), i))
    batches: list[list[int]] = []
    for i in order:
        last = batches[-1] if batches else []
        if not last or len(last) == _AT_ONCE or len(placed[last[0]].ids) != len(placed[i].ids):
            batches.append([])
        batches[-1].append(i)
    names: tuple[str, ...] = ()
    rows: list[list[Tensor]] = []
    done = 0
    for batch in batches:
        seen = layer_states(model, parts, torch.tensor([placed[i].ids for i in batch]))
        names = seen.names
        rows = rows or [[] for _ in names]
        for layer, values in zip(rows, seen.values, strict=True):
            layer += [
                values[at, list(placed[i].chosen(pieces))].mean(dim=0) for at, i in enumerate(batch)
            ]
        done += len(batch)
        share(done, len(placed))
    back = torch.tensor([i for batch in batches for i in batch]).argsort()
    return names, [torch.stack(layer)[back] for layer in rows]


def _less_mean(vectors: Tensor) -> Tensor:
    wide = vectors.double()
    return wide - wide.mean(dim=0)


def _scores(sets: Sequence[PairSet], vectors: Tensor, at: dict[str, int]) -> tuple[PairScore, ...]:
    return tuple(score_pairs(held, lambda word: vectors[at[word]]) for held in sets)
