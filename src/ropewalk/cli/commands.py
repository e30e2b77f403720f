"""The commands of a group as a table: name, what runs, the line in the help, and an example.

Each example is a line that runs. Models are `tiny`, which comes with the package; the proof of one
example is what the next one shows.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from ropewalk.cli.help import Command
from ropewalk.cli.pages import with_page

Commands = tuple[tuple[str, Callable[..., None], str], ...]
"""In the order of the help."""

EXAMPLES = {
    "": "ropewalk audit tiny",
    "audit": "ropewalk audit tiny --engines",
    "convert": "ropewalk convert tiny --to hf5 --rope yarn:4",
    "prove": "ropewalk prove tiny --lengths 128,256 --trials 2 --out proof",
    "prove diff": "ropewalk prove diff proof proof-yarn",
    "extend": "ropewalk extend tiny --to 1k --method yarn --out tiny-1k",
    "loss": "ropewalk loss tiny --length 256 --window 64 --stride 32",
    "tune": "ropewalk tune tiny --data texts --length 256 --steps 20 --out tuned",
    "pack": "ropewalk pack texts --tokenizer tiny --length 256 --out rows.parquet",
    "compare": "ropewalk compare --preset minute --encodings rope,alibi",
    "demo": "ropewalk demo --full",
    "window": "ropewalk window http://127.0.0.1:8080/v1",
    "show": "ropewalk show proof --cell 256,50,0",
    "trace": 'ropewalk trace tiny "The cat sat"',
    "doctor": "ropewalk doctor",
    "table": "ropewalk table tiny near river --top 5",
    "table near": "ropewalk table tiny near river --minus water --plus plant",
    "table similarity": "ropewalk table tiny similarity river garden island",
    "table health": "ropewalk table tiny health --top 5",
    "table positions": "ropewalk table tiny positions",
    "table clusters": "ropewalk table tiny clusters --number 8",
    "table map": "ropewalk table tiny map --html map.html",
    "table compare": "ropewalk table tiny compare tiny --top 5",
    "table context": 'ropewalk table tiny context mill "the old water mill" "a pepper mill"',
    "table score": "ropewalk table tiny score --set wordsim353 --pieces",
    "table export": "ropewalk table tiny export --npy table.npy",
    "table resize": 'ropewalk table tiny resize --add "<|tool|>" --multiple 64 --out tiny-tool',
    "explain": "ropewalk explain scale",
    "explain order": "ropewalk explain order",
    "explain scale": "ropewalk explain scale",
    "explain encodings": "ropewalk explain encodings",
    "explain join": "ropewalk explain join tiny --pairs 3",
}
"""By the command's name, as `add_commands` has it; "" is the program itself."""


def add_commands(app: typer.Typer, commands: Commands, group: str = "") -> None:
    """Give the group its commands, each with its example, and with a page of its result where one
    is asked for; `group` is the name of the group.
    """
    for name, command, line in commands:
        example = EXAMPLES.get(f"{group} {name}".strip())
        app.command(name, cls=Command, short_help=line, epilog=example)(with_page(command))
