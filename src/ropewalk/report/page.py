"""A page that is one HTML file: no network, no script but its own, nothing from a file unescaped.

`environment()` escapes whatever a template prints, and shows control characters. The content
security policy of a page allows its own style and script by `policy_hash` and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING

from ropewalk.errors import MissingPartError
from ropewalk.report.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment


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
