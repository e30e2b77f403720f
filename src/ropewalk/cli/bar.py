"""A plain progress bar on stderr, for work that is counted in steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shared_bar(words: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to be told how many steps of how many are done.

    On a terminal a bar stands until the work ends; elsewhere nothing is drawn.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        yield lambda _done, _total: None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(words, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
