"""A whole run: measured before, trained, written, measured after.

Every part of it can be stopped by force, and the same command goes on where it was: measurements
are kept in the run folder, training has its checkpoints, and the model appears whole.

The first process measures, on the whole model, while the others wait; so the numbers are those of
the model as it will be used, and not of its sharded form.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ropewalk.errors import StoreError, TrainingError, UsageError
from ropewalk.extension.tune import data
from ropewalk.extension.tune.attention import handing, set_attention
from ropewalk.extension.tune.checkpoint import CHECKPOINTS, Checkpoints, Whole
from ropewalk.extension.tune.gate import Gate, ShortText
from ropewalk.extension.tune.inputs import check_apart
from ropewalk.extension.tune.interrupt import Interrupted, Interrupts, what_is_kept
from ropewalk.extension.tune.journal import Journal, read_losses
from ropewalk.extension.tune.length import Memory, check_length
from ropewalk.extension.tune.loop import StepResult, Trainer, precision
from ropewalk.extension.tune.loss import LossModel
from ropewalk.extension.tune.model import Trainee, bring_up
from ropewalk.extension.tune.optimiser import adamw
from ropewalk.extension.tune.record import RunRecord, facts_of
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.extension.tune.world import World, gathered, joined, shard
from ropewalk.extension.tune.written import write_model
from ropewalk.listener import Listener
from ropewalk.models.dtypes import AUTO, computes_bf16, stored_dtype, torch_dtype
from ropewalk.models.resolve import ModelFiles, resolve
from ropewalk.packing.files import boundary_named
from ropewalk.packing.table_rows import padding_of
from ropewalk.packing.texts import Sources, sources
from ropewalk.proof.lock import FolderLock
from ropewalk.rope.lengths import trained_length
from ropewalk.short import short
from ropewalk.shown import Shown

if TYPE_CHECKING:
    from ropewalk.proof.prove import Proof

MODEL, FAILED, CANDIDATE = "model", "model-failed-gate", ".candidate"


@short
@dataclass(frozen=True, slots=True)
class Proofs:
    """The proofs of one set of lengths before and after."""

    before: Proof
    after: Proof


@short
@dataclass(frozen=True, slots=True)
class Tuned(Shown):
    """A run that is done. `model` is the tuned model's folder, kept apart if the gate failed."""

    folder: Path
    model: Path
    adapter: Path | None
    steps: tuple[StepResult, ...]
    gate: Gate
    proofs: Proofs | None
    about: dict[str, Any]
    settings: TuneSettings


def tune(settings: TuneSettings, listener: Listener | None = None) -> Tuned | None:
    """Run, or go on with, a tuning run. None on every process but the first.

    Raises an error of `ropewalk.errors`; TrainingError for a loss that is not finite, with the
    checkpoint before it kept; and Interrupted, a KeyboardInterrupt that says what is kept, when
    the user ends it.
    """
    settings.check()
    tell = listener or Listener()
    first = True
    try:
        files = resolve(settings.model)
        check_length(settings, files)
        found = sources(settings.data)
        tell.say("loading torch and transformers")
        with joined(settings.device) as world:
            first = world.first
            settings = _with_dtype(settings, files, world)
            if settings.rows % world.size:
                raise UsageError(
                    f"--rows {settings.rows} do not divide over {world.size} processes; give a "
                    f"multiple of {world.size}"
                )
            with _locked(settings.out, world):
                run = _Run(settings, files, found, world, tell if world.first else Listener())
                run.train()
                return run.finish() if world.first else None
    except KeyboardInterrupt as error:
        written = any((settings.out / name).exists() for name in (MODEL, FAILED, CANDIDATE))
        raise Interrupted(what_is_kept(settings, written=written) if first else "") from error


def _with_dtype(settings: TuneSettings, files: ModelFiles, world: World) -> TuneSettings:
    """The settings with what is computed in by name, as the record of the run keeps it."""
    if settings.dtype != AUTO:
        return settings
    half = stored_dtype(files) in ("bf16", "fp16") and computes_bf16(world.device)
    taken = replace(settings, dtype="bf16" if half else "fp32")
    taken.check()
    return taken


@contextlib.contextmanager
def _locked(out: Path, world: World) -> Iterator[None]:
    """The run folder, made and held by the first process."""
    if not world.first:
        yield
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{out} cannot be made: {error.strerror or error}; choose another --out"
        ) from error
    lock = FolderLock.take(out)
    try:
        yield
    finally:
        lock.release()


class _Run:
    """The parts of a run on one process, in order."""

    def __init__(
        self, settings: TuneSettings, files: ModelFiles, found: Sources, world: World,
        tell: Listener,
    ) -> None:  # fmt: skip
        self.settings, self.files, self.world, self.tell = settings, files, world, tell
        self.out = settings.out
        trainee = bring_up(files, settings, world.device, tell.say)
        self.folder, self.spec = trainee.folder, trainee.spec
        self.vocabulary, self.counts = trainee.vocabulary, trainee.counts()
        memory = Memory.of(trainee.causal.config, self.counts, settings, world.device, world.size)
        tell.note(memory.note(settings, trainee.spec.claimed.tokens))
        facts = facts_of(settings, trainee.identity, data.identity(found.files))
        self.record = RunRecord.open(self.out, facts) if world.first else None
        self.source = self._open_source(found, trainee)
        within = trained_length(trainee.spec).tokens
        self.text = ShortText.of(trainee.tokenizer, settings.gate_text, within, trainee.vocabulary)
        self.trainee: Trainee | None = trainee

    def _open_source(self, found: Sources, trainee: Trainee) -> data.DataFile:
        settings, tokenizer = self.settings, trainee.tokenizer
        word = settings.boundary
        if word is None:
            word = "none" if tokenizer.eos_token_id is None else "eos"
        return data.open_source(
            found, tokenizer, settings.mix, cutting=settings.cutting,
            boundary=boundary_named(word, tokenizer, trainee.vocabulary),
            padding_id=padding_of(tokenizer, trainee.vocabulary),
            reading=settings.reading,
            rows=trainee.vocabulary,
        )  # fmt: skip

    def train(self) -> None:
        """Measure, take the steps that are left, and write the model."""
        if self.world.agree(any((self.out / name).exists() for name in (MODEL, FAILED, CANDIDATE))):
            return
        settings, world, trainee = self.settings, self.world, self.trainee
        if trainee is None:
            raise RuntimeError("a run is trained once")
        self._measure_before(trainee)
        trainee.causal.eval()
        set_attention(trainee.causal, trainee.attention)
        with precision(world.device, settings.dtype):
            check_apart(trainee.causal, handing(trainee.causal, settings), self.vocabulary)
        trainee.causal.train()
        model = LossModel(trainee.causal, kept=not settings.activation_checkpoints)
        if world.several:
            shard(model, trainee.causal, world, torch_dtype(settings.dtype))
        optimiser = adamw(model, settings)
        rows = data.StepRows(
            self.source, settings.mix, settings.rows, self.vocabulary, settings.seed,
            places=self.spec.claimed.tokens if settings.positions == "document" else None,
        )  # fmt: skip
        with Interrupts(world) as interrupts:
            trainer = Trainer(model, optimiser, rows, settings, world, interrupts.hold)
            self._steps(trainer, interrupts)
        weights = gathered(model, world)
        self.trainee = None
        if world.first:
            self.tell.say("writing the tuned model")
            trained = {name: weights[name] for name in weights if name in _trained(model)}
            del model, optimiser, trainer, trainee
            write_model(self.folder, trained, self.out / CANDIDATE, settings.lora)

    def _measure_before(self, trainee: Trainee) -> None:
        if self.record is None:
            return
        if self.record.get("before") is None:
            self.tell.say("reading short text")
            trainee.causal.eval()
            losses = self.text.losses(trainee.causal, self.spec)
            self.record.keep("before", losses)
        if self.settings.prove:
            self._prove(str(self.settings.model), "proof-before")

    def _steps(self, trainer: Trainer, interrupts: Interrupts) -> None:
        """Take the steps that are left, with a checkpoint now and then and at the end."""
        settings, rows = self.settings, trainer.rows
        kept = Checkpoints(self.out / CHECKPOINTS, self.world)
        kept.prepare()
        done = kept.newest()
        if done is not None:
            self.tell.say(f"going on from step {done}")
            kept.load(trainer.model, trainer.optimiser, done)
            rows.go_to(done)
        journal = None
        if self.world.first:
            journal = Journal(self.out, done or 0, tensorboard=settings.tensorboard)
            if journal.note:
                self.tell.note(journal.note)
        self.tell.begin(settings.steps, read_losses(self.out))
        begun = time.monotonic()
        whole, late = Whole(trainer.model, trainer.optimiser, done or 0, self.world), False
        try:
            while rows.step < settings.steps and not late:
                result = trainer.step()
                if journal is not None:
                    journal.add(result)
                self.tell.step(result)
                late = self._would_be_late(begun, result)
                if result.step % settings.every == 0 or result.step == settings.steps or late:
                    kept.save(trainer.model, trainer.optimiser, result.step, {})
                whole = Whole(trainer.model, trainer.optimiser, result.step, self.world)
                interrupts.release()
        except KeyboardInterrupt:
            # A second one may come between weights, and then they are of no step.
            if not interrupts.held and whole.step > (kept.newest() or 0):
                self.tell.say(f"interrupted; keeping step {whole.step}")
                whole.keep(kept)
            raise
        except TrainingError as error:
            last = kept.newest()
            words = (
                "no checkpoint had been written yet"
                if last is None
                else f"the checkpoint of step {last} is kept in {kept.path(last)}"
            )
            raise TrainingError(f"{error}; {words}") from error
        finally:
            self.tell.end()
            if journal is not None:
                journal.close()
        if self.record is not None:
            self.record.keep("data", self._data_facts(rows))

    def _would_be_late(self, begun: float, last: StepResult) -> bool:
        """Whether another step like the last would end after the time given; all agree."""
        given = self.settings.seconds
        if given is None:
            return False
        late: bool = self.world.agree(time.monotonic() - begun + last.seconds > given)
        return late

    def _data_facts(self, rows: data.StepRows) -> dict[str, Any]:
        """What was read, for the report: by length, rows taken and readings begun."""
        found: dict[str, Any] = {}
        reports = getattr(self.source, "reports", {})
        for length, stream in rows.streams.items():
            about: dict[str, Any] = {"rows": stream.taken, "readings": stream.readings}
            if length in reports:
                report = reports[length]
                about |= {
                    "fill": report.fill,
                    "documents": report.documents,
                    "tokens": report.tokens,
                    "longest": max(report.seq_lens, default=0),
                }
            found[str(length)] = about
        return found

    def finish(self) -> Tuned:
        """Measure the written model, put it in its place or apart, and say what came of it."""
        import torch

        from ropewalk.models.load import load

        self.trainee = None
        where = next(
            self.out / name for name in (CANDIDATE, MODEL, FAILED) if (self.out / name).exists()
        )
        files = ModelFiles(str(where), self.files.title, "folder", where)
        record = self.record
        if record is None:
            raise RuntimeError("only the first process finishes a run")
        self.tell.say("reading short text again")
        loaded = load(files, device=self.world.device, dtype=torch.float32, say=self.tell.say)
        after = self.text.losses(loaded.model, self.spec)
        del loaded
        gate = Gate.of(self.text, record.get("before") or after, after, self.settings.gate)
        proofs = None
        if self.settings.prove:
            proofs = Proofs(
                self._prove(str(self.settings.model), "proof-before"),
                self._prove(str(where), "proof-after"),
            )
        place = self.out / (MODEL if gate.passed else FAILED)
        if where != place:
            where.replace(place)
        adapter = self.out / "adapter"
        return Tuned(
            folder=self.out,
            model=place,
            adapter=adapter if adapter.exists() else None,
            steps=tuple(read_losses(self.out)),
            gate=gate,
            proofs=proofs,
            about={
                "title": self.files.title,
                "trained": self.counts[0],
                "parameters": self.counts[1],
                "processes": self.world.size,
                "asked": self.settings.steps,
                "dtype": self.settings.dtype,
                "data": record.get("data") or {},
            },
            settings=self.settings,
        )

    def _prove(self, model: str, name: str) -> Proof:
        from ropewalk.listener import Listener
        from ropewalk.proof.prove import prove
        from ropewalk.proof.settings import ProofSettings

        proof = ProofSettings(
            model=model,
            lengths=self.settings.prove,
            trials=self.settings.trials,
            out=self.out / name,
            seed=self.settings.seed,
            device=str(self.world.device),
            # As short text is read before and after.
            dtype="fp32",
            command=self.settings.command,
        )
        self.tell.say(f"proving, {name.replace('-', ' ')}")
        done = prove(proof, Listener(note=self.tell.note))
        if done.result.interrupted:
            raise KeyboardInterrupt
        return done


def _trained(model: LossModel) -> set[str]:
    return {name for name, each in model.named_parameters() if each.requires_grad}
