"""`ropewalk table MODEL near WORD` and `similarity A B ...`: words against rows, or each other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ropewalk.cli.output import columns, console
from ropewalk.cli.table.options import (
    TABLE,
    AsJson,
    Role,
    RoleName,
    Tensor,
    View,
    ViewName,
    at_work,
    close,
    opened,
    print_json,
)

if TYPE_CHECKING:
    from ropewalk.tables.answer import NearQuestion
    from ropewalk.tables.open import EmbeddingTable
    from ropewalk.tables.words import WordRows

Exact = Annotated[
    bool,
    typer.Option(
        "--exact",
        help="Take words as the very bytes they show: U+2423 for a space, <0x0A> for a byte. "
        "Without it, the word with a space before it is taken where that is a token.",
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
        list[str] | None,
        typer.Argument(metavar="WORD...", help="Words that are tokens; or give --id or --text."),
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
        bool,
        typer.Option(
            "--all-rows", help="Compare with rows without a token, too.", rich_help_panel=TABLE
        ),
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

    with at_work("opening the table") as shown:
        table = opened(context, role, tensor, view)
        questions = _questions(
            asked_for(table, words, ids, texts, exact=exact),
            asked_for(table, plus, exact=exact),
            asked_for(table, minus, exact=exact),
            by_product=by_product,
        )
        shown.say("reading the rows")
        answers = answer(table, questions, k, all_rows=all_rows)
    if as_json:
        print_json("near", near_document(answers, table))
        return
    for line in near_lines(answers, table, columns()):
        typer.echo(line)
    close(context, table)


def asked_for(
    table: EmbeddingTable,
    words: list[str] | None,
    ids: list[int] | None = None,
    texts: list[str] | None = None,
    *,
    exact: bool,
) -> list[WordRows]:
    """Words, rows and texts, in this order. Raises what `ropewalk.tables.words` raises."""
    from ropewalk.tables.words import of_row, of_text, of_word

    return [
        *(of_word(table, word, exact=exact) for word in words or []),
        *(of_row(table, row) for row in ids or []),
        *(of_text(table, text) for text in texts or []),
    ]


def _questions(
    asked: list[WordRows], plus: list[WordRows], minus: list[WordRows], *, by_product: bool
) -> list[NearQuestion]:
    """Each that was asked for is a question; an analogy has one."""
    from ropewalk.errors import UsageError
    from ropewalk.tables.answer import NearQuestion

    if not asked:
        raise UsageError("nothing was asked; give a WORD, --id N or --text TEXT")
    if not (plus or minus):
        if by_product:
            raise UsageError("--mul scores an analogy; give --plus or --minus, too")
        return [NearQuestion(one) for one in asked]
    if len(asked) != 1:
        raise UsageError(
            f"an analogy begins with one word, row or text, and {len(asked)} were given; put the "
            "others behind --plus"
        )
    return [NearQuestion(asked[0], tuple(plus), tuple(minus), by_product)]


def similarity_command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORD...", help="Words that are tokens; or give --id or --text."),
    ] = None,
    ids: Ids = None,
    texts: Texts = None,
    exact: Exact = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the heat map as a page, too.")
    ] = None,
    role: Role = RoleName.INPUT,
    tensor: Tensor = None,
    view: View = ViewName.RAW,
    as_json: AsJson = False,
) -> None:
    """The cosine of two words, or a heat map of more, with the rows of --id and --text behind."""
    from ropewalk.report.table_similarity import (
        similarity_document,
        similarity_html,
        similarity_lines,
    )
    from ropewalk.tables.answer import cosines_between

    with at_work("opening the table"):
        table = opened(context, role, tensor, view)
    asked = asked_for(table, words, ids, texts, exact=exact)
    cosines = cosines_between(table, asked)
    if html is not None:
        from ropewalk.files import write_whole

        write_whole(html, similarity_html(asked, cosines, table))
    if as_json:
        print_json("similarity", similarity_document(asked, cosines, table))
        return
    out = console()
    for line in similarity_lines(asked, cosines, table, out.width):
        out.print(line, soft_wrap=True, markup=False)
    close(context, table)
