"""`ropewalk table MODEL context WORD SENTENCE ...`: one word, layer by layer."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropewalk.cli.progress import Progress
from ropewalk.cli.table.options import AsJson, model_of, print_answer

if TYPE_CHECKING:
    from ropewalk.explain.meaning import Meaning


class PiecesName(StrEnum):
    """What stands for a word of several tokens."""

    LAST = "last"
    FIRST = "first"
    MEAN = "mean"


def context_command(
    context: typer.Context,
    word: Annotated[str, typer.Argument(metavar="WORD", help="As it stands in the sentences.")],
    sentences: Annotated[
        list[str], typer.Argument(metavar="SENTENCE...", help="Two or more that hold the word.")
    ],
    occurrence: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Which, where a sentence holds the word several times; without it, the first.",
        ),
    ] = None,
    pieces: Annotated[
        PiecesName, typer.Option(help="What stands for a word of several tokens.")
    ] = PiecesName.LAST,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="The sense of each occurrence, in order; without it, groups are looked for.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plot as an HTML page, too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow one word through every layer, in sentences that may mean different things by it.

    Loads the whole model. Prints the cosine between the occurrences layer by layer, how alike
    other tokens of the sentences are there, and the cosines after their mean is taken away.
    """
    found = _meaning(model_of(context), word, sentences, occurrence, pieces, groups)
    from ropewalk.report.table_context import document

    made = document(found)
    if html is not None:
        from ropewalk.files import write_whole
        from ropewalk.report import html as page_of

        write_whole(html, page_of(made))
    print_answer("context", made, _values(found), as_json=as_json)


def _meaning(
    model: str,
    word: str,
    sentences: list[str],
    occurrence: str | None,
    pieces: PiecesName,
    groups: str | None,
) -> Meaning:
    from ropewalk.explain.occurrences import Pieces, find_places

    number = _number(occurrence)
    # Before a model is loaded for nothing.
    find_places(word, sentences, number)
    with Progress() as shown:
        name, blocks, tokenizer = whole_model(model, shown)
        from ropewalk.explain.meaning import meaning

        shown.say("reading the sentences")
        return meaning(
            blocks,
            tokenizer,
            word,
            sentences,
            name=name,
            occurrence=number,
            pieces=Pieces(pieces.value),
            groups=() if groups is None else groups.split(","),
        )


def whole_model(model: str, shown: Progress) -> tuple[str, Any, Any]:
    """The model's title, itself without a head in float32 on the CPU, and its tokenizer.

    Raises as `models.load.load_blocks`, and UsageError for a table without a model around it.
    """
    from ropewalk.errors import UsageError
    from ropewalk.models.load import check_device, load_blocks
    from ropewalk.models.resolve import read_spec, resolve

    path = Path(model)
    if path.is_file() and path.suffix.lower() in {".npy", ".safetensors", ".bin", ".pt", ".pth"}:
        raise UsageError(
            f"{model} holds tensors and no model to run; give the folder with its config.json and "
            "all of its weights, or a .gguf file"
        )
    files = resolve(model)
    spec = read_spec(files)
    shown.say("loading torch and transformers")
    _, dtype = check_device("cpu", "fp32")
    blocks, tokenizer = load_blocks(files, dtype=dtype, say=shown.say, share=shown.share)
    if files.kind == "gguf":
        from ropewalk.models.rotary_tables import install

        # transformers does not read a schedule that lies in a tensor of the file.
        install(blocks, spec, None)
    return files.title, blocks, tokenizer


def _number(occurrence: str | None) -> int | None:
    """The option as `find_occurrences` takes it. Raises UsageError."""
    from ropewalk.errors import UsageError

    if occurrence is None:
        return None
    if occurrence == "all":
        return 0
    if not (occurrence.isascii() and occurrence.isdigit() and int(occurrence) > 0):
        raise UsageError(f"--occurrence {occurrence!r} is not known; give 1, 2, ... or all")
    return int(occurrence)


def _values(found: Meaning) -> dict[str, object]:
    held = dataclasses.asdict(found)
    for occurrence in held["occurrences"]:
        occurrence["special"] = sorted(occurrence["special"])
    return held
