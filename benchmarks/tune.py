"""A step of `ropewalk tune` beside the same step in a plain loop of transformers and torch.

Both train the same model from the same weights on the same packed rows of 1,024 tokens with
AdamW, and their first losses must be equal to 1e-4 before anything is timed. The plain loop hands
rows over with positions that begin again, which keeps documents apart there too, by a mask, and has
the logits of a whole row at once; `tune` takes documents through attention one at a time and runs
the head over pieces of a row. Each is timed with all activations kept and with blocks computed
twice; there `tune`, whose default this is, computes the head twice as well, which costs time and
saves the logits' memory. All four take turns in every round; a ratio is the median of the rounds'
ratios.

    python -m benchmarks.tune [--model tiny|smollm2] [--rounds 12] [--rows 4] [--write]

`--write` keeps the results in benchmarks/results/tune-MODEL.md. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from benchmarks.closing import Row, closing_line
from benchmarks.cpu_report import machine
from benchmarks.cpu_timing import measure
from ropewalk.extension.session import extend
from ropewalk.extension.settings import ExtendSettings
from ropewalk.extension.tune.attention import set_attention
from ropewalk.extension.tune.data import StepRows
from ropewalk.extension.tune.loop import Trainer
from ropewalk.extension.tune.loss import LossModel
from ropewalk.extension.tune.model import bring_up
from ropewalk.extension.tune.optimiser import adamw
from ropewalk.extension.tune.training_settings import Mix, TuneSettings
from ropewalk.extension.tune.world import World
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.packing.pack import Boundary, PackedRow, pack, stack
from ropewalk.packing.texts import Text
from ropewalk.packing.tokens import Encoder
from ropewalk.proof.haystack import GeneratedHaystack

LENGTH, COMPARED, RATE = 1024, 3, 1e-4
NAMES = ("plain, kept", "tune, kept", "plain, twice", "tune, twice")


@dataclass(frozen=True)
class Prepared:
    """Rows that were packed before, so that no step reads and tokenises anything."""

    held: tuple[PackedRow, ...]

    def rows(self, _length: int) -> Iterator[PackedRow]:
        """All of them."""
        return iter(self.held)


class Plain:
    """The loop that one writes by hand."""

    def __init__(self, causal: Any, rows: StepRows, settings: TuneSettings) -> None:
        self._causal, self._rows = causal, rows
        self._optimiser = adamw(causal, settings)

    def step(self) -> float:
        """The loss of a step."""
        batch = stack(self._rows.next())
        loss = self._causal(
            input_ids=batch.input_ids, position_ids=batch.position_ids, labels=batch.labels,
            use_cache=False,
        ).loss  # fmt: skip
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._causal.parameters(), 1.0)
        for group in self._optimiser.param_groups:
            group["lr"] = RATE
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        return float(loss.detach())


def prepared(tokenizer: Any) -> Prepared:
    """Rows of generated documents of a few tokens to several hundred."""
    random = Random(0)
    sentences = GeneratedHaystack(random).sentences()
    texts = (" ".join(next(sentences) for _ in range(random.randrange(2, 60))) for _ in range(400))
    documents = Encoder(tokenizer).documents(Text("", iter((text,))) for text in texts)
    rows = pack(documents, LENGTH, boundary=Boundary(after=tokenizer.eos_token_id))
    return Prepared(tuple(row for row in rows if sum(row.layout.seq_lens) > 0.9 * LENGTH))


def measured(model: str, home: Path, rows: int, rounds: int) -> Iterator[Row]:
    """Tokens a second of each, and the ratios."""
    files = resolve(model)
    if (read_spec(files).claimed.tokens or LENGTH) < LENGTH:
        extend(ExtendSettings(model, LENGTH, method="yarn", out=home / "longer"))
        files = resolve(str(home / "longer"))
    steps: dict[str, Any] = {}
    source: Prepared | None = None
    for name in NAMES:
        settings = TuneSettings(
            model=files.name, data=(), steps=10**6, out=home, mix=Mix((LENGTH,)), rows=rows,
            at_once=rows, lr=RATE, warmup=0, decay="constant", tensorboard=False, device="cpu",
            activation_checkpoints=name.endswith("twice"),
        )  # fmt: skip
        trainee = bring_up(files, settings, torch.device("cpu"))
        source = source or prepared(trainee.tokenizer)
        taken = StepRows(source, settings.mix, rows, trainee.vocabulary, 0)
        if name.startswith("plain"):
            steps[name] = Plain(trainee.causal, taken, settings).step
        else:
            set_attention(trainee.causal, trainee.attention)
            loss = LossModel(trainee.causal, kept=not settings.activation_checkpoints)
            world = World(0, 1, torch.device("cpu"))
            steps[name] = Trainer(loss, adamw(loss, settings), taken, settings, world).step
    yield from _compared(steps)
    times = measure(steps, rounds)
    for name in NAMES:
        yield Row(f"{name}", rows * LENGTH / times.median(name), "tokens/s")
    for kind in ("kept", "twice"):
        ratio = times.ratio(f"plain, {kind}", f"tune, {kind}")
        yield Row(f"activations {kind}: tune's tokens a second by the plain loop's", ratio)


def _compared(steps: dict[str, Any]) -> Iterator[Row]:
    """The first losses of all, which must be the same. Raises AssertionError where not."""
    first = steps[NAMES[0]]
    furthest = 0.0
    for _ in range(COMPARED):
        wanted = first()
        for name in NAMES[1:]:
            got = steps[name]()
            loss = got if isinstance(got, float) else got.loss
            assert abs(loss - wanted) <= 1e-4, f"{name}: a loss of {loss}, {wanted} in a plain loop"
            furthest = max(furthest, abs(loss - wanted))
    yield Row(f"largest difference of the first {COMPARED} losses", furthest, "nats")


def markdown(model: str, rows: list[Row], options: argparse.Namespace, load: float) -> str:
    """The results as a page."""
    lines = [
        "# A step of tune",
        "",
        f"`python -m benchmarks.tune --model {model} --rows {options.rows} --rounds "
        f"{options.rounds}` on {machine()}. The machine is shared with other work (load average "
        f"{load:.1f} when this began), so believe the ratios alone.",
        "",
        " ".join((__doc__ or "").split("\n\n")[1].split()),
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {row.name} | {row.value:,.4g} {row.unit} |" for row in rows),
    ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Compare, time, print, and write where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--rows", type=int, default=4, help="of a step")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as home:
        rows = list(measured(options.model, Path(home), options.rows, options.rounds))
    for row in rows:
        print(f"{row.name:<66} {row.value:>12,.4g} {row.unit}")
    if options.write:
        result = Path(__file__).parent / "results" / f"tune-{options.model}.md"
        result.write_text(markdown(options.model, rows, options, load), encoding="utf-8")
    print(closing_line("tune", rows, machine=machine(), model=options.model))


if __name__ == "__main__":
    main()
