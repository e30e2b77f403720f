"""`ropewalk table MODEL near WORD`: the rows nearest to a word, a row, a text or an analogy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.table.options import (
    AsJson,
    Role,
    RoleName,
    Tensor,
    View,
    ViewName,
    close,
    opened,
    print_json,
)

if TYPE_CHECKING:
    from ropewalk.tables.answer import Question
    from ropewalk.tables.open import EmbeddingTable

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Take words as the very bytes they show, ␣ for a space and <0x0A> for a byte; else "
        "the word with a space before it is taken where that is a token.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Option("--text", help="A text of several tokens, for the mean of their unit rows."),
]
Ids = Annotated[list[int] | None, typer.Option("--id", metavar="N", help="A row by its number.")]


def near_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="Words that are tokens.")
    ] = None,
    ids: Ids = None,
    texts: Texts = None,
    plus: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Add a word: an analogy.")
    ] = None,
    minus: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Take a word away: an analogy.")
    ] = None,
    by_product: Annotated[
        bool, typer.Option("--mul", help="Score analogies by 3CosMul instead of 3CosAdd.")
    ] = False,
    k: Annotated[int, typer.Option("-k", "--top", help="How many neighbours.")] = 10,
    exact: Exact = False,
    all_rows: Annotated[
        bool, typer.Option("--all-rows", help="Compare with rows without a token, too.")
    ] = False,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """The nearest rows by cosine, exact, of equal ones the lower id first; never the input itself.

    An analogy: near king --minus man --plus woman.
    """
    from ropewalk.report.table_near import near_document, near_lines
    from ropewalk.tables.answer import answer

    table = opened(context, role, tensor, view)
    questions = _questions(
        table, words or [], ids or [], texts or [], plus or [], minus or [], by_product, exact
    )
    answers = answer(table, questions, k, all_rows=all_rows)
    if as_json:
        print_json("near", near_document(answers, table))
        return
    for line in near_lines(answers, table):
        typer.echo(line)
    close(context, table)


def _questions(
    table: EmbeddingTable,
    words: list[str],
    ids: list[int],
    texts: list[str],
    plus: list[str],
    minus: list[str],
    by_product: bool,
    exact: bool,
) -> list[Question]:
    """Words, rows and texts in this order, each a question; an analogy has one."""
    from ropewalk.errors import UsageError
    from ropewalk.tables.answer import Question
    from ropewalk.tables.words import of_row, of_text, of_word

    asked = [
        *(of_word(table, word, exact=exact) for word in words),
        *(of_row(table, row) for row in ids),
        *(of_text(table, text) for text in texts),
    ]
    if not asked:
        raise UsageError("nothing was asked; give a WORD, --id N or --text TEXT")
    if not (plus or minus):
        if by_product:
            raise UsageError("--mul scores an analogy; give --plus or --minus, too")
        return [Question(one) for one in asked]
    if len(asked) != 1:
        raise UsageError(
            f"an analogy begins with one word, row or text, and {len(asked)} were given; put the "
            "others behind --plus"
        )
    added, taken = (
        tuple(of_word(table, word, exact=exact) for word in part) for part in (plus, minus)
    )
    return [Question(asked[0], added, taken, by_product)]
