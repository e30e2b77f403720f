"""`ropewalk table MODEL score`: a table, or every layer of a model, by benchmarks people know."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.progress import Progress
from ropewalk.cli.table.context import whole_model
from ropewalk.cli.table.options import (
    AsJson,
    Role,
    RoleName,
    Tensor,
    View,
    ViewName,
    at_work,
    close,
    model_of,
    opened,
    print_answer,
)

if TYPE_CHECKING:
    from ropewalk.explain.layer_score import LayerScores
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.score.benchmarks import AnalogyScore, PairScore
    from ropewalk.tables.score.datasets import AnalogySet, PairSet
    from ropewalk.tables.score.spellings import Lookup


class SetName(StrEnum):
    """The benchmarks that an installed gensim holds."""

    WORDSIM = "wordsim353"
    SIMLEX = "simlex999"
    ANALOGIES = "analogies"


class SpellingName(StrEnum):
    """Which token a word is."""

    EITHER = "either"
    SPACED = "spaced"
    BARE = "bare"


@dataclass(frozen=True)
class _Sets:
    pairs: list[PairSet]
    analogies: list[AnalogySet]


def score_command(
    context: typer.Context,
    sets: Annotated[
        list[SetName] | None,
        typer.Option("--set", help="A benchmark out of gensim; without any option, all three."),
    ] = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Judged pairs: word, word, number on a line."),
    ] = None,
    analogies: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Four words on a line, under lines `: section`."),
    ] = None,
    spelling: Annotated[
        SpellingName,
        typer.Option(help="A word with a space before it, bare, or the first of both that is."),
    ] = SpellingName.EITHER,
    fold: Annotated[
        bool, typer.Option("--fold", help="Find words in another case, too (casefold).")
    ] = False,
    pieces: Annotated[
        bool,
        typer.Option("--pieces", help="Take the mean of its pieces for a word of several tokens."),
    ] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Load the whole model; score every layer on the pairs.")
    ] = False,
    frame: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="With --layers: what words stand in, {} for the word."),
    ] = None,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """Score the table by WordSim-353, SimLex-999 and the Google analogies, with coverage.

    The benchmarks are read from an installed gensim, or from files. --layers sets the raw table
    beside every layer of its model.
    """
    held = _sets(sets, pairs, analogies)
    if layers:
        _print_layers(context, held, frame, as_json=as_json)
        return
    _refuse_frame(frame)
    from ropewalk.tables.score.spellings import Lookup, SpacingRule
    from ropewalk.tables.words import tokeniser

    with at_work("opening the table"):
        table = opened(context, role, tensor, view)
        cut = None
        if pieces and table.vocabulary is not None:
            cut = tokeniser(table.vocabulary)
        lookup = Lookup(table, SpacingRule(spelling.value), fold=fold, pieces=cut)
    _print_table(context, table, held, lookup, as_json=as_json)


def _sets(
    names: list[SetName] | None, pairs: list[Path] | None, analogies: list[Path] | None
) -> _Sets:
    """What was asked for; everything that gensim packs where nothing was."""
    from ropewalk.tables.score.datasets import packed_file, read_analogies, read_pairs

    if not (names or pairs or analogies):
        names = list(SetName)
    held = _Sets([], [])
    for name in names or []:
        if name is SetName.ANALOGIES:
            held.analogies.append(read_analogies(packed_file(name.value), "Google analogies"))
        else:
            held.pairs.append(read_pairs(packed_file(name.value), name.value))
    held.pairs.extend(read_pairs(path) for path in pairs or [])
    held.analogies.extend(read_analogies(path) for path in analogies or [])
    return held


def _print_table(
    context: typer.Context, table: EmbeddingTable, held: _Sets, lookup: Lookup, *, as_json: bool
) -> None:
    from ropewalk.report.table_score import document
    from ropewalk.tables.score.benchmarks import score_analogies, score_pairs, table_vectors

    vector = table_vectors(table, lookup)
    paired: list[PairScore] = []
    answered: list[AnalogyScore] = []
    with at_work("reading the rows") as shown:
        paired += (score_pairs(one, vector) for one in held.pairs)
        for one in held.analogies:
            shown.say(f"answering {one.name}")
            answered.append(score_analogies(table, one, lookup, share=shown.share))
    values: dict[str, object] = {
        "table": {"tensor": table.name, "shape": table.shape, "view": table.view},
        "spelling": lookup.spelling.value,
        "fold": lookup.fold,
        "found": dict(lookup.used),
        "pairs": [_pairs(score) for score in paired],
        "analogies": [_analogies(score) for score in answered],
    }
    made = document(table.tables.title, paired, answered, lookup.used, fold=lookup.fold)
    print_answer("score", made, values, as_json=as_json)
    close(context, table, as_json=as_json)


def _print_layers(context: typer.Context, held: _Sets, frame: str | None, *, as_json: bool) -> None:
    from ropewalk.errors import UsageError
    from ropewalk.explain.layer_score import NEUTRAL, layer_scores
    from ropewalk.report.table_score import layers_document

    if not held.pairs:
        raise UsageError("--layers scores judged pairs; give --set wordsim353 or --pairs FILE")
    with Progress() as shown:
        name, model, tokenizer = whole_model(model_of(context), shown)
        shown.say("reading words through the model")
        found: LayerScores = layer_scores(
            model,
            tokenizer,
            held.pairs,
            name=name,
            frame=NEUTRAL if frame is None else frame,
            share=shown.share,
        )
    layers = [
        {
            "name": layer.name,
            "pairs": [_pairs(score) for score in layer.scores],
            "less_mean": [_pairs(score) for score in layer.centred],
        }
        for layer in found.layers
    ]
    values = {"model": name, "frame": found.frame, "pieces": found.pieces.value, "layers": layers}
    print_answer("score", layers_document(name, found), values, as_json=as_json)


def _refuse_frame(frame: str | None) -> None:
    from ropewalk.errors import UsageError

    if frame is not None:
        raise UsageError("--frame is what words stand in within a model; give --layers, too")


def _pairs(score: PairScore) -> dict[str, object]:
    return {**dataclasses.asdict(score), "oov_ratio": score.oov_ratio}


def _analogies(score: AnalogyScore) -> dict[str, object]:
    sections = [
        {**dataclasses.asdict(section), "accuracy": section.accuracy}
        for section in (*score.sections, score.whole)
    ]
    return {"name": score.name, "source": score.source, "sections": sections}
