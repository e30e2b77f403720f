"""The whole story on the embedded model: proved, stretched, tuned briefly, and proved again.

Nothing in it is known beforehand: each step is measured on the spot, in a folder of its own, so
that the same call goes on where an earlier one was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ropewalk.errors import ModelFileError
from ropewalk.files import write_whole
from ropewalk.listener import Listener
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.proof.cells import Sharing
from ropewalk.proof.progress import Event
from ropewalk.proof.prove import Proof, prove
from ropewalk.proof.settings import ProofSettings
from ropewalk.proof.statistics.verdicts import AbsoluteThreshold
from ropewalk.proof.summary import Share
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.schedules import ntk_base
from ropewalk.rope.spec import PositionSpec, RotarySpec
from ropewalk.short import short
from ropewalk.shown import Shown

if TYPE_CHECKING:
    from ropewalk.extension.tune.gate import Gate
    from ropewalk.extension.tune.loop import StepResult

MODEL = "tiny"
SCHEDULES = ("linear:{factor}", "ntk:{factor}", "yarn:{factor}", "base:{base}")
"""Tried without training; the base is the NTK-aware one for twice the factor."""
TUNED = "yarn"


@short
@dataclass(frozen=True, slots=True)
class StorySize:
    """How much is asked and trained. Lengths in tokens.

    `lengths` are proved before and after, `target` is what the schedules stretch to, `trials`
    prompts of each length and depth, `steps` of `rows` rows of `target` tokens.
    """

    lengths: tuple[int, ...] = (256, 512, 1024, 2048)
    target: int = 1024
    depths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    trials: int = 4
    steps: int = 60
    rows: int = 4
    rate: float = 1e-3
    documents: int = 400


@short
@dataclass(frozen=True, slots=True)
class Drifted:
    """Mean cosines of table rows, from the recipe's log: words of one list, and of two."""

    before_within: float
    before_across: float
    after_within: float
    after_across: float
    words: int


@short
@dataclass(frozen=True, slots=True)
class Chapter:
    """One proof of the story: its title, and what was found."""

    title: str
    proof: Proof

    def share(self, length: int) -> Share:
        """The hits of a length, over all depths."""
        return next(each.pooled for each in self.proof.summary.columns if each.length == length)

    def worst(self, length: int) -> Share:
        """The hits of a length at its worst depth."""
        return next(each.worst for each in self.proof.summary.columns if each.length == length)


@short
@dataclass(frozen=True, slots=True)
class Story(Shown):
    """All of it. `untrained` are the schedules before any training, in the order of SCHEDULES."""

    folder: Path
    scale: StorySize
    trained: int
    shipped: Chapter
    untrained: tuple[Chapter, ...]
    drifted: Drifted
    steps: tuple[StepResult, ...]
    gate: Gate
    tuned: Chapter
    written: Path


@short
@dataclass(frozen=True, slots=True)
class StoryListener:
    """Who is told how the story goes on: a new chapter, a phase of it, chapters as they end, steps
    of training, answers.
    """

    begin: Callable[[str], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    chapter: Callable[[Chapter], None] = lambda _: None
    step: Callable[[StepResult, int], None] = lambda _step, _total: None
    event: Callable[[Event], None] = lambda _: None


@dataclass(slots=True)
class _Teller:
    """Where the story is written down, and what it is told with."""

    folder: Path
    scale: StorySize
    tell: StoryListener

    def prove(self, title: str, model: str, lengths: tuple[int, ...], rope: str | None) -> Chapter:
        """A proof with pass keys, each prompt its own text."""
        self.tell.begin(title)
        # The embedded model was trained to find one fact among sentences, and not many facts.
        proof = prove(
            ProofSettings(
                model=model,
                lengths=lengths,
                depths=self.scale.depths,
                trials=self.scale.trials,
                threshold=AbsoluteThreshold(0.85),
                rope=rope,
                sharing=Sharing.PREFIX,
                controls=0,
                device="cpu",
                out=self.folder / _name(title),
                command="ropewalk demo --full",
            ),
            Listener(event=self.tell.event),
        )
        chapter = Chapter(title, proof)
        self.tell.chapter(chapter)
        return chapter


def tell(
    folder: Path, scale: StorySize | None = None, listener: StoryListener | None = None
) -> Story:
    """Tell the story in `folder`, which may hold a part of it already.

    Raises an error of `ropewalk.errors`; what was measured before it stays.
    """
    from ropewalk.extension.session import extend
    from ropewalk.extension.settings import ExtendSettings
    from ropewalk.extension.tune.session import tune
    from ropewalk.extension.tune.training_settings import Mix, TuneSettings
    from ropewalk.listener import Listener

    scale = scale or StorySize()
    folder.mkdir(parents=True, exist_ok=True)
    teller = _Teller(folder, scale, listener or StoryListener())
    files = resolve(MODEL)
    spec = read_spec(files)
    trained = trained_length(spec).tokens
    if trained is None:
        raise ModelFileError(f"{files.path} does not say how long it was trained")
    shipped = teller.prove("as shipped", MODEL, scale.lengths, None)
    stretched = tuple(n for n in scale.lengths if n <= scale.target)
    untrained = tuple(
        teller.prove(f"{rope}, no training", MODEL, stretched, rope)
        for rope in ropes(spec, trained, scale.target)
    )
    teller.tell.begin(f"{scale.steps} steps on packed documents of up to {scale.target} tokens")
    longer = folder / "stretched"
    if not longer.exists():
        extend(ExtendSettings(model=MODEL, target=scale.target, method=TUNED, out=longer))
    tuned = tune(
        TuneSettings(
            model=str(longer),
            data=(_documents(folder, scale),),
            steps=scale.steps,
            out=folder / "tuned",
            mix=Mix((scale.target,)),
            rows=scale.rows,
            at_once=2 if scale.rows % 2 == 0 else 1,
            lr=scale.rate,
            warmup=min(10, scale.steps),
            activation_checkpoints=False,
            tensorboard=False,
            device="cpu",
            command="ropewalk demo --full",
        ),
        Listener(
            say=teller.tell.say,
            begin=lambda _total, _steps: teller.tell.say("training"),
            step=lambda step: teller.tell.step(step, scale.steps),
        ),
    )
    if tuned is None:
        raise ModelFileError("the story is told by one process; start it without torchrun")
    after = teller.prove("stretched and tuned", str(tuned.model), scale.lengths, None)
    return Story(
        folder, scale, trained, shipped, untrained, drifted(files.path), tuned.steps, tuned.gate,
        after, tuned.model,
    )  # fmt: skip


def ropes(spec: PositionSpec, trained: int, target: int) -> tuple[str, ...]:
    """The schedules that are tried, as --rope takes them, from one length to another.

    Raises ModelFileError for a model that does not turn.
    """
    turned = next((g.encoding for g in spec.groups if isinstance(g.encoding, RotarySpec)), None)
    if turned is None:
        raise ModelFileError(f"{MODEL} has no rotary layers, so no schedule stretches it")
    factor = target / trained
    base = round(ntk_base(turned.rope_theta, turned.rotary_dim, 2 * factor))
    return tuple(each.format(factor=f"{factor:g}", base=base) for each in SCHEDULES)


def drifted(folder: Path) -> Drifted:
    """The figure of the recipe's log. Raises ModelFileError for a log that does not hold it."""
    try:
        lines = (folder / "training.jsonl").read_text(encoding="utf-8").splitlines()
        found = [entry["drift"] for line in lines if "drift" in (entry := json.loads(line))]
        first, last = found[0], found[-1]
        return Drifted(
            first["within"], first["across"], last["within"], last["across"], last["words"]
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ModelFileError(f"{folder} has no training log that can be read: {error}") from error


def _documents(folder: Path, scale: StorySize) -> Path:
    """Long reports to train on, written once: other ones than any that was or will be proved."""
    from tokenizers import Tokenizer

    from ropewalk.tiny.corpus import Corpus

    path = folder / "reports.jsonl"
    if not path.exists():
        tokenizer = Tokenizer.from_file(str(resolve(MODEL).path / "tokenizer.json"))
        corpus = Corpus(tokenizer, Random("training documents of the story"))
        # Boundaries of a token or two must fit the row as well.
        shortest, longest = max(150, scale.target * 2 // 3), scale.target - 4
        texts = (
            corpus.text(corpus.random.randint(shortest, longest), pass_keys=True)
            for _ in range(scale.documents)
        )
        write_whole(path, "".join(f"{json.dumps({'text': text})}\n" for text in texts))
    return path


def _name(title: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in title)
