"""A document as one HTML file: no network, no script but its own, nothing from a file unescaped.

`html` renders any document by one template. `environment()` escapes whatever a template prints,
and shows control characters. The content security policy of a page allows its own style and
script by `policy_hash` and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from itertools import count
from typing import TYPE_CHECKING

from ropewalk.errors import MissingPartError
from ropewalk.report import scale, svg
from ropewalk.report.document import (
    Block,
    Details,
    Document,
    Folded,
    Heading,
    On,
    Prose,
    Widget,
)
from ropewalk.report.svg import drawings
from ropewalk.report.text import visible
from ropewalk.short import short

if TYPE_CHECKING:
    from jinja2 import Environment


@short
@dataclass(frozen=True, slots=True)
class Part:
    """A heading, or none, and the blocks below it."""

    heading: Heading | None
    blocks: list[Block] = field(default_factory=list)


def html(document: Document) -> str:
    """The document as one page. Raises MissingPartError without jinja2."""
    head: list[Block] = []
    parts = [Part(None)]
    for block in _of_page(document.blocks):
        if isinstance(block, Heading):
            parts.append(Part(block))
        elif _is_head(block):
            head.append(block)
        else:
            parts[-1].blocks.append(block)
    widgets = list(_widgets(document.blocks))
    style = asset("page.css")
    return _environment().get_template("document.html.j2").render(
        document=document,
        head=head,
        parts=[part for part in parts if part.heading or part.blocks],
        maps=count(),
        shape=svg,
        swatches=[scale.colour(i / 8) for i in range(9)],
        scripts=[trusted(asset(each.script)) for each in widgets if each.script],
        data=next((embedded(each.data) for each in widgets if each.data is not None), None),
        style=trusted(style),
        style_hash=policy_hash(style),
    )  # fmt: skip


def framed(document: Document) -> str:
    """The page in a frame of its own, for a notebook, whose styles it neither takes nor gives."""
    page = escape(html(document), quote=True)
    return (
        f'<iframe srcdoc="{page}" sandbox="allow-scripts" width="100%" height="560" '
        'style="border:0"></iframe>'
    )


def _is_head(block: Block) -> bool:
    """Whether a page has it above its sections: the result and the large numbers."""
    return (isinstance(block, Prose) and block.verdict) or (
        isinstance(block, Details) and block.large
    )


def _of_page(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks without those of a terminal, those for pages opened."""
    for block in blocks:
        if not isinstance(block, On):
            yield block
        elif block.where == "page":
            yield from _of_page(block.blocks)


def _widgets(blocks: Iterable[Block]) -> Iterator[Widget]:
    for block in _of_page(blocks):
        if isinstance(block, Widget):
            yield block
        elif isinstance(block, Folded):
            yield from _widgets(block.blocks)


def _environment() -> Environment:
    return environment(
        {
            "kind": lambda block: type(block).__name__,
            "drawings": drawings,
            "figure": svg.figure,
            "trusted": trusted,
            "policy_hash": policy_hash,
            "tokens": scale.tokens,
        }
    )


def environment(filters: Mapping[str, Callable[..., object]] | None = None) -> Environment:
    """The template engine: escapes everything, and shows control characters.

    Raises MissingPartError without jinja2.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingPartError(
            "an HTML report needs the package jinja2, which is not installed; "
            'install it with: pip install "ropewalk[prove]"'
        ) from error

    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters or {})
    return made


def asset(name: str) -> str:
    """A file of the folder `templates`."""
    return (resources.files("ropewalk.report") / "templates" / name).read_text(encoding="utf-8")


def trusted(text: str) -> object:
    """Mark our own style, script and base64 as markup."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704


def embedded(value: object) -> object:
    """A value as JSON for a script element of type application/json.

    "<" is written as an escape, so that no string in it can end the element, or begin a comment.
    """
    return trusted(json.dumps(value).replace("<", "\\u003c"))


def policy_hash(text: str) -> str:
    """What a content security policy calls a style or a script that may be in the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: object) -> object:
    """Make control characters visible in every plain string that the template prints."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value, newlines=True)
    return f"{value:g}" if isinstance(value, float) else value
