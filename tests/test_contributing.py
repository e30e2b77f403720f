"""The map for contributors: every room is in it, in the order of the floors, and every path is."""

import re
from pathlib import Path

from tests.test_package import FLOORS, ROOT, SOURCE

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[tuple[str, ...]]:
    """The cells of the table whose first heading is this, without its heading."""
    (table,) = re.findall(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", TEXT, re.M)
    return [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in table.splitlines()]


def named(cell: str) -> list[str]:
    """What stands in backticks and is a path."""
    return [word for word in re.findall(r"`([^`]+)`", cell) if "/" in word or word.endswith(".py")]


def test_every_room_is_on_the_map_in_the_order_of_the_floors() -> None:
    rooms = [name for left, _ in rows("in `src/ropewalk/`") for name in named(left)]
    assert [name.removesuffix("/").removesuffix(".py") for name in rooms] == list(FLOORS)


def test_every_path_on_the_map_is_there() -> None:
    paths = [name for row in rows("in `src/ropewalk/`") for cell in row for name in named(cell)]
    paths += [name for _, answer in rows("question") for name in named(answer)]
    assert len(paths) > 40
    missing = [name for name in paths if not (SOURCE / name).exists()]
    assert not missing
    for place in ("tests/published/", "tests/conformance/", "benchmarks/results/", "docs/"):
        assert f"`{place}`" in TEXT
        assert Path(ROOT / place).is_dir()


def test_every_slow_file_is_there() -> None:
    tests = Path(__file__).parent
    named = [
        line
        for line in (tests / "slow.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    assert named
    assert [name for name in named if not (tests.parent / name).is_file()] == []
