"""`--html FILE` and `--open` for every command that prints a result.

A command with a page of its own takes `html` itself, writes there, and gets `--open` only. Of any
other the page is the document that it printed; of one without a document, its text. The page comes
last: should the disk be full, the result has been seen.
"""

from __future__ import annotations

import inspect
import io
import re
import shlex
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from ropewalk.cli import output
from ropewalk.cli.output import tell
from ropewalk.cli.places import check_file
from ropewalk.errors import ASKED_WRONGLY

Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Also write the result as one page that needs no network."
    ),
]
Open = Annotated[
    bool,
    typer.Option(
        "--open", help="Open the page in a browser; without --html it is a temporary file."
    ),
]


_COLOURS = re.compile("\x1b\\[[0-9;]*m")


def with_page(command: Callable[..., None]) -> Callable[..., None]:
    """The command with `--html` and `--open` added to its options."""
    signature = inspect.signature(command, eval_str=True)
    own = "html" in signature.parameters
    added = [] if own else [_option("html", Html, None)]
    added.append(_option("open_page", Open, False))

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        opened = kwargs.pop("open_page")
        html = kwargs.get("html") if own else kwargs.pop("html")
        if html is None and not opened:
            command(*args, **kwargs)
            return
        with _page(html, command.__name__) as page:
            if own:
                kwargs["html"] = page
                with _even_if_it_failed(lambda: _say(page, opened)):
                    command(*args, **kwargs)
            else:
                with (
                    _kept() as kept,
                    _copied() as text,
                    _even_if_it_failed(lambda: _write(page, text(), kept, opened)),
                ):
                    command(*args, **kwargs)

    parameters = [*signature.parameters.values(), *added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


@contextmanager
def _page(html: Path | None, name: str) -> Iterator[Path]:
    """Where the page goes: `html`, or a file in a folder of its own, which is left only with it.

    Raises UsageError, before the work, where it cannot be written.
    """
    if html is not None:
        check_file(html, "--html")
        yield html
        return
    stem = name.removesuffix("_command").replace("_", "-")
    page = Path(tempfile.mkdtemp(prefix="ropewalk-")) / f"{stem}.html"
    try:
        yield page
    finally:
        if not page.exists():
            page.parent.rmdir()


@contextmanager
def _even_if_it_failed(finish: Callable[[], None]) -> Iterator[None]:
    """Runs `finish` behind a command that gave a result, also where its exit code says no."""
    try:
        yield
    except typer.Exit as ended:
        if ended.exit_code != ASKED_WRONGLY:
            finish()
        raise
    finish()


def _write(page: Path, text: str, kept: output.Kept, opened: bool) -> None:
    from ropewalk.files import write_whole
    from ropewalk.report import Document, html
    from ropewalk.report.document import Listing

    if not text.strip():
        return
    command = shlex.join(["ropewalk", *sys.argv[1:]])
    if kept.title:
        document = Document(kept.title, tuple(kept.blocks), f"$ {command}", kept.question)
    else:
        document = Document(command, (Listing(_COLOURS.sub("", text)),), f"$ {command}")
    write_whole(page, html(document))
    _say(page, opened)


def _say(page: Path, opened: bool) -> None:
    """Name a page that is there, and open it where that is wanted."""
    if not page.is_file():
        return
    tell(f"page: {page}")
    if opened and not webbrowser.open(page.absolute().as_uri()):
        tell("ropewalk: no browser could be started; open the page yourself")


@contextmanager
def _kept() -> Iterator[output.Kept]:
    """What is printed by documents, for the page."""
    output.kept = output.Kept()
    try:
        yield output.kept
    finally:
        output.kept = None


@contextmanager
def _copied() -> Iterator[Callable[[], str]]:
    """Everything that is printed on stdout, which is printed all the same."""
    before = sys.stdout
    copy = _Copy(before)
    sys.stdout = copy
    try:
        yield copy.text
    finally:
        sys.stdout = before


class _Copy:
    """A stream that also keeps what goes through it. Bytes are text in UTF-8."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._kept: list[str] = []

    def text(self) -> str:
        """All that was written."""
        return "".join(self._kept)

    def write(self, text: str) -> int:
        """Write and keep."""
        written: int = self._stream.write(text)
        self._kept.append(text)
        return written

    @property
    def buffer(self) -> Any:
        """For bytes."""
        return _Bytes(self._stream.buffer, self._kept)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Bytes(io.RawIOBase):
    """The binary side of a _Copy."""

    def __init__(self, stream: Any, kept: list[str]) -> None:
        super().__init__()
        self._stream, self._kept = stream, kept

    def writable(self) -> bool:
        """It is written to."""
        return True

    def write(self, data: Any) -> int:
        """Write and keep."""
        written: int = self._stream.write(data)
        self._kept.append(bytes(data).decode("utf-8", "backslashreplace"))
        return written

    def flush(self) -> None:
        """What is behind it."""
        self._stream.flush()
