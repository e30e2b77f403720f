"""Where a model's layers pull the meanings of one token apart.

A row of the table is the same wherever its token stands. Layer by layer the states of one word in
several sentences part; the cosines between them say where, and how far. In most models all states
of a layer point much the same way (Ethayarajh, "How contextual are contextualized word
representations?", EMNLP 2019, section 4.1), so that a cosine alone says little: beside it stand
the mean cosine of other tokens of the same sentences, and the cosine after the mean of those
tokens is taken away.

Occurrences fall into groups, one for each sense: given, or found from their cosines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ropewalk.errors import UsageError
from ropewalk.explain.occurrences import Occurrence, Pieces, find_occurrences
from ropewalk.explain.watch import Parts, States, find_parts, layer_states
from ropewalk.short import short

MOST = 4096
"""Other tokens whose pairs are all compared; of more, a seeded sample of this many is."""

Square = tuple[tuple[float, ...], ...]


@short
@dataclass(frozen=True, slots=True)
class LayerCosines:
    """One layer. `cosines` (n, n) between the occurrences; `centred` the same, less the mean of
    the other tokens; `others` the mean cosine of pairs of those. None without other tokens.
    """

    name: str
    cosines: Square
    centred: Square | None
    others: float | None


@short
@dataclass(frozen=True, slots=True)
class Meaning:
    """A word's occurrences, layer by layer.

    `causal`: whether a token sees only what stands before it; None where no sentence can tell,
    because the word ends it. `others` other tokens were compared, `dropped` more were not.
    """

    name: str
    word: str
    pieces: Pieces
    occurrences: tuple[Occurrence, ...]
    layers: tuple[LayerCosines, ...]
    senses: Senses | None
    causal: bool | None
    others: int
    dropped: int

    @property
    def unseen(self) -> tuple[int, ...]:
        """Occurrences (from 0) before which a causal model sees nothing that tells them apart."""
        if not self.causal:
            return ()
        return tuple(
            i for i, o in enumerate(self.occurrences) if all(p in o.special for p in range(o.first))
        )


def meaning(
    model: Any,
    tokenizer: Any,
    word: str,
    sentences: Sequence[str],
    *,
    name: str,
    occurrence: int | None = None,
    pieces: Pieces = Pieces.LAST,
    groups: Sequence[str] = (),
) -> Meaning:
    """Follow `word` through a transformers model without a head, in eval mode on the CPU.

    `occurrence` as in `find_occurrences`; `groups` names the sense of each occurrence in order,
    or is empty: then, from three on, the two groups that part furthest are looked for.
    Raises UsageError for what cannot be compared, RowError for a token without a row,
    ModelFileError for models without plain layers.
    """
    occurrences = find_occurrences(tokenizer, word, sentences, occurrence)
    parts = find_parts(model, name)
    for o in occurrences:
        parts.check_rows(o.ids, tokenizer, f"sentence {o.sentence + 1}")
    senses = given_senses(groups, len(occurrences)) if groups else None
    states = {o.sentence: _run(model, parts, o, name) for o in occurrences}
    causal = _is_causal(model, parts, occurrences, states)
    places = _other_places(occurrences, causal=causal is not False)
    kept = _sample(places)
    names = next(iter(states.values())).names
    layers = tuple(
        _cosines(names[i], i, occurrences, states, kept, pieces) for i in range(len(names))
    )
    if senses is None and len(occurrences) > 2:
        senses = found_senses([(c.name, c.centred or c.cosines) for c in layers[2:]])
    return Meaning(
        name=name,
        word=word,
        pieces=pieces,
        occurrences=occurrences,
        layers=layers,
        senses=senses,
        causal=causal,
        others=len(kept),
        dropped=len(places) - len(kept),
    )


def _run(model: Any, parts: Parts, occurrence: Occurrence, name: str) -> States:
    longest = getattr(parts.positions, "num_embeddings", None)
    if longest is not None and len(occurrence.ids) > longest:
        raise UsageError(
            f"sentence {occurrence.sentence + 1} has {len(occurrence.ids)} tokens, and {name} "
            f"has {longest} positions; give a shorter one"
        )
    return layer_states(model, parts, torch.tensor([occurrence.ids]))


def _is_causal(
    model: Any, parts: Parts, occurrences: Sequence[Occurrence], states: dict[int, States]
) -> bool | None:
    """Whether the word's state stays as it is when all that follows is cut off."""
    for o in occurrences:
        if o.last + 1 < len(o.ids):
            whole = states[o.sentence].values[-1][0, o.last]
            cut = layer_states(model, parts, torch.tensor([o.ids[: o.last + 1]])).values[-1][0, -1]
            # Shorter sequences may take other kernels, which round differently.
            return bool((whole - cut).norm() < 1e-3 * whole.norm())
    return None


def _other_places(occurrences: Sequence[Occurrence], *, causal: bool) -> list[tuple[int, int]]:
    """Sentence and place of every token that is neither special nor the word's.

    In causal models the first token of all is left out, too: it sees nothing, attention rests on
    it, and its state is far longer than any other and points elsewhere.
    """
    taken: dict[int, set[int]] = {}
    for o in occurrences:
        taken.setdefault(o.sentence, set(o.special) | ({0} if causal else set())).update(o.own)
    lengths = {o.sentence: len(o.ids) for o in occurrences}
    return [(s, p) for s, held in taken.items() for p in range(lengths[s]) if p not in held]


def _sample(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if len(places) <= MOST:
        return places
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(0))
    return [places[i] for i in sorted(order[:MOST].tolist())]


def _cosines(
    name: str,
    layer: int,
    occurrences: Sequence[Occurrence],
    states: dict[int, States],
    places: Sequence[tuple[int, int]],
    pieces: Pieces,
) -> LayerCosines:
    at = {sentence: s.values[layer][0].double() for sentence, s in states.items()}
    words = torch.stack([at[o.sentence][list(o.chosen(pieces))].mean(dim=0) for o in occurrences])
    if not places:
        return LayerCosines(name, _square(words), None, None)
    others = torch.stack([at[sentence][place] for sentence, place in places])
    ids = {o.sentence: o.ids for o in occurrences}
    tokens = torch.tensor([ids[s][p] for s, p in places])
    sentences = torch.tensor([s for s, _ in places])
    mean = others.mean(dim=0)
    return LayerCosines(
        name, _square(words), _square(words - mean), _mean_cosine(others, tokens, sentences)
    )


def _mean_cosine(states: Tensor, tokens: Tensor, sentences: Tensor) -> float | None:
    """Of all pairs of different tokens in different sentences (in one, where there is but one)."""
    apart = tokens[:, None] != tokens
    if len(sentences.unique()) > 1:
        apart &= sentences[:, None] != sentences
    unit = _unit(states)
    pairs = (unit @ unit.T)[apart]
    return float(pairs.mean()) if len(pairs) else None


def _square(states: Tensor) -> Square:
    unit = _unit(states)
    return tuple(tuple(row) for row in (unit @ unit.T).clamp(-1.0, 1.0).tolist())


def _unit(states: Tensor) -> Tensor:
    """Each state over its length; a state of zeros stays one, and is like nothing."""
    norm = states.norm(dim=-1, keepdim=True)
    unit: Tensor = states / norm.where(norm > 0, 1.0)
    return unit


@short
@dataclass(frozen=True, slots=True)
class Senses:
    """`labels[i]` is the group of occurrence i. `layer` is where they were found, None if given."""

    labels: tuple[str, ...]
    layer: str | None = None

    def within(self, cosines: Square) -> float | None:
        """The mean cosine of pairs in one group; None where every group is one occurrence."""
        return self._mean(cosines, same=True)

    def across(self, cosines: Square) -> float:
        """The mean cosine of pairs in different groups."""
        found = self._mean(cosines, same=False)
        return 0.0 if found is None else found

    def _mean(self, cosines: Square, *, same: bool) -> float | None:
        pairs = [
            cosines[i][j]
            for i, j in combinations(range(len(self.labels)), 2)
            if (self.labels[i] == self.labels[j]) is same
        ]
        return fmean(pairs) if pairs else None


def given_senses(labels: Sequence[str], count: int) -> Senses:
    """The groups a caller names. Raises UsageError unless there is one name for each occurrence,
    and more than one group.
    """
    made = tuple(label.strip() for label in labels)
    if len(made) != count or "" in made:
        raise UsageError(
            f"{len(made)} groups were given for {count} occurrences; name one for each, in order, "
            "like river,river,money,money"
        )
    if len(set(made)) < 2:
        raise UsageError(f"all occurrences are in one group, {made[0]!r}; name two or more")
    return Senses(made)


def found_senses(layers: Sequence[tuple[str, Square]]) -> Senses:
    """Two groups by average linkage at the layer where within and across part furthest.

    `layers`: names and cosines. With three occurrences or more there is always an answer: it says
    how they part, not that they differ in sense.
    """
    best: tuple[float, Senses] | None = None
    for name, cosines in layers:
        senses = Senses(_linked(cosines), name)
        gap = (senses.within(cosines) or 0.0) - senses.across(cosines)
        if best is None or gap > best[0]:
            best = gap, senses
    if best is None:
        raise UsageError("no layers were given to find groups in")
    return best[1]


def _linked(cosines: Square) -> tuple[str, ...]:
    """ "A" or "B" for each: the closest two groups are joined until two are left."""
    groups = [[i] for i in range(len(cosines))]
    while len(groups) > 2:
        one, other = max(
            combinations(range(len(groups)), 2),
            key=lambda pair: fmean(cosines[i][j] for i in groups[pair[0]] for j in groups[pair[1]]),
        )
        groups[one] += groups.pop(other)
    # The first occurrence is always in A.
    return tuple(
        "A" if i in next(g for g in groups if 0 in g) else "B" for i in range(len(cosines))
    )
