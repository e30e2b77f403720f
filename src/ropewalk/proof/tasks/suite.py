"""Tasks by name, and sets of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ropewalk.errors import UsageError
from ropewalk.proof.needles import Task
from ropewalk.proof.tasks.hidden import (
    Contradiction,
    JoinTask,
    ManyKeys,
    ManyQueries,
    ManyValues,
    Single,
    Variables,
)
from ropewalk.proof.tasks.tally import CommonWord, Count, FrequentWords, OrderTask

_ALL: tuple[Task, ...] = (
    Single(),
    ManyKeys(),
    ManyValues(),
    ManyQueries(),
    Variables(),
    CommonWord(),
    FrequentWords(),
    OrderTask(),
    Count(),
    JoinTask(),
    Contradiction(),
)

TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _ALL})
"""Every task that needs nothing of the user; that over own documents is made by `read_own`."""

SUITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "quick": ("single", "many-keys", "variables"),
        "standard": (
            "single",
            "many-keys",
            "many-values",
            "many-queries",
            "variables",
            "order",
            "join",
            "contradiction",
        ),
        "full": tuple(TASKS),
    }
)
"""Quick: one of each kind of difficulty. Full: all."""


def parse_tasks(text: str) -> tuple[str, ...]:
    """Read "single,many-keys". Raises UsageError for an unknown or repeated name."""
    names = tuple(name.strip() for name in text.split(","))
    known = (*TASKS, "documents")
    for name in names:
        if name not in known:
            raise UsageError(f"there is no task {name!r}; the tasks are {', '.join(known)}")
        if names.count(name) > 1:
            raise UsageError(f"the task {name} is given twice: name each task once")
    return names


def suite(name: str) -> tuple[str, ...]:
    """The tasks of a suite. Raises UsageError for an unknown one."""
    if name not in SUITES:
        raise UsageError(f"there is no suite {name!r}; the suites are {', '.join(SUITES)}")
    return SUITES[name]
