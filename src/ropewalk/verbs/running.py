"""`trace`, `extend`, `tune` and `compare`: a model is loaded and run, or trained.

torch and transformers are imported when one of them is called, and what cannot be done is refused
before that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ropewalk.errors import UsageError
from ropewalk.files import check_can_hold
from ropewalk.listener import Listener
from ropewalk.verbs.taken import (
    LiveModel,
    Named,
    Several,
    Tokens,
    depths_of,
    listed,
    named,
    path,
    seconds,
    taken,
    tokens,
)

if TYPE_CHECKING:
    from ropewalk.comparison.run import Comparison
    from ropewalk.explain.trace import Trace
    from ropewalk.extension.session import Extension
    from ropewalk.extension.tune.session import Tuned

Dtype = Literal["auto", "bf16", "fp16", "fp32"]
Engine = Literal["transformers", "vllm", "llamacpp", "mlx"]
Preset = Literal["minute", "lesson", "paper"]


def trace(
    model: Named | LiveModel, text: str, *, dtype: Dtype = "auto", tokenizer: Any = None,
    name: str | None = None, listener: Listener | None = None,
) -> Trace:  # fmt: skip
    """Follow a text into a model: ids, rows, scale, position, the first block, q and k.

    Each step is computed here and compared with the model's own.

    Args:
        model: a Hugging Face folder, a .gguf file, a hub id or a known name; or a loaded model of
            transformers in eval mode on the CPU, with its `tokenizer`.
        text: what to read.
        dtype: what to compute in; "auto" is fp32. A loaded model keeps its own.
        tokenizer: of a loaded model.
        name: what to call a loaded model.
        listener: who is told how it goes on.

    Returns:
        A `Trace`; `agrees` is False where the model and our own computation part.

    Raises:
        UsageError: a text without tokens, a loaded model without its tokenizer.
        RowError, PositionError: a token or a position without a row.
        ModelFileError: a model whose input path cannot be followed.

    Example:
        >>> ropewalk.trace("tiny", "The cat sat").agrees
        True
    """
    from ropewalk.explain import trace as room

    tell, given = listener or Listener(), taken(model)
    called = name or given.title
    if given.files is None:
        if given.module is None or tokenizer is None:
            raise UsageError(
                "trace runs a model: give its name or path, or a loaded one with its tokenizer="
            )
        tell.say("following the text")
        return room.trace(given.module, tokenizer, text, name=called, spec=given.spec)
    from ropewalk.models.load import check_device, load_blocks

    _, chosen = check_device("cpu", dtype, given.files)
    tell.say("loading torch and transformers")
    blocks, own = load_blocks(given.files, dtype=chosen, say=tell.say)
    tell.say("following the text")
    if given.files.kind == "gguf":
        return room.trace_gguf(blocks, own, text, name=called, spec=given.spec)
    return room.trace(blocks, own, text, name=called, spec=given.spec)


def extend(
    model: Named, to: Tokens, *, method: str = "auto", for_engine: Engine | None = None,
    factors: Named | None = None, rope_theta: float | None = None, headroom: float | None = None,
    lengths: Several | None = None, depths: Several = "5", trials: int = 2,
    minutes: float | None = None, tries: int | None = None, seed: int = 0,
    text: Named | None = None, out: Named | None = None, copy: bool = False,
    gguf: Literal["F16", "F32"] | None = None, work: Named | None = None, device: str = "auto",
    dtype: Dtype = "auto", force: bool = False, listener: Listener | None = None,
    command: str = "",
) -> Extension:  # fmt: skip
    """A longer context: schedule, factor, base and lengths together, measured on the model.

    Args:
        model: a Hugging Face folder, a .gguf file, a hub id or a known name.
        to: the new context length in tokens: 16384, "16k".
        method: "linear", "ntk", "ntk-by-parts", "yarn", "llama3", "longrope" or "base"; "auto"
            measures them all on the model, "search" looks for divisors of its own.
        for_engine: take only a schedule that this engine can serve, and say how.
        factors, rope_theta, headroom: numbers of a named method, as `ropewalk extend -h` has them.
        lengths, depths, trials: where "auto" and "search" ask, and of how many documents.
        minutes, tries: bounds of what is measured.
        text: a file of short text whose loss is watched.
        out: a new folder, or FILE.gguf. Without it nothing is written.
        copy, gguf, work, device, dtype, seed, force: as the command has them.
        listener, command: who is told how it goes on; what the card says it was made by.

    Returns:
        An `Extension`; `after` is the new `PositionSpec`, None where none could be found.

    Raises:
        ScheduleError, LengthError: a model, or a length, that cannot be stretched, or to.
        StoreError: a place that cannot be written to. UsageError: options that do not fit.

    Example:
        >>> ropewalk.extend("tiny", "1k", method="yarn").after.claimed.tokens
        1024
    """
    from ropewalk.extension.session import extend as run
    from ropewalk.extension.settings import ExtendSettings
    from ropewalk.proof.plan import parse_lengths
    from ropewalk.proof.settings import RUNS

    asked = listed(lengths)
    settings = ExtendSettings(
        named(model, "extend"), tokens(to, "--to"), method, for_engine, path(factors),
        rope_theta, headroom, () if asked is None else parse_lengths(asked), depths_of(depths),
        trials, tries, seconds(minutes), seed, path(text), path(out),
        "copy" if copy else "link", gguf, force, path(work), device, dtype, command,
    )  # fmt: skip
    if method in ("auto", "search"):
        check_can_hold(settings.work or RUNS, "--work")
    return run(settings, listener)


def tune(
    checkpoint: Named, *, data: Named | Iterable[Named], steps: int, out: Named,
    length: Tokens | None = None, rows: int = 8, at_once: int = 1, mask: bool = True,
    positions: Literal["reset", "document", "running"] = "reset",
    cutting: Literal["kept", "split"] = "kept", boundary: str | None = None, field: str = "text",
    column: str | None = None, encoding: str = "utf-8", lr: float = 2e-5, lr_end: float = 0.1,
    warmup: int | None = None, decay: Literal["cosine", "linear", "constant"] = "cosine",
    weight_decay: float = 0.0, clip: float = 1.0, dtype: Literal["auto", "bf16", "fp32"] = "auto",
    keep_activations: bool = False, attention: str = "auto", lora: int | None = None,
    checkpoint_every: int = 100, seed: int = 0, device: str = "auto", gate: float | None = None,
    gate_text: Named | None = None, prove: Several | None = None, trials: int = 5,
    context_parallel: int = 1, minutes: float | None = None, listener: Listener | None = None,
    command: str = "",
) -> Tuned | None:  # fmt: skip
    """Brief continued training on long packed documents, and what it gained.

    Every option is that of `ropewalk tune -h`, where it is explained.

    Args:
        checkpoint: a Hugging Face folder, a .gguf file, a hub id or a known name.
        data: text, JSON lines, Parquet, rows of `ropewalk pack`, or folders of them.
        steps: how often the weights are updated.
        out: the run folder; the same call goes on with what lies there.
        length: tokens of a row, or several with weights: "4k:3,1k:1".
        prove: lengths to prove before and after. gate: how much short text may get dearer.
        listener, command: who is told how it goes on; what is written down as the command.

    Returns:
        A `Tuned`, whose `model` is the folder of the tuned model; None on every process of
        torchrun but the first.

    Raises:
        TrainingError: a loss that is not finite. StoreError: another run in that folder.
        LengthError, UsageError: settings that cannot be. KeyboardInterrupt: with what is kept.

    Example:
        >>> ropewalk.tune("tiny", data="texts", length=256, steps=20, out="tuned").gate.passed
        True
    """
    from ropewalk.extension.tune.length import claimed_mix
    from ropewalk.extension.tune.session import tune as run
    from ropewalk.extension.tune.training_settings import TuneSettings, parse_mix
    from ropewalk.proof.plan import parse_lengths

    model, proved = named(checkpoint, "tune"), listed(prove)
    paths = [data] if isinstance(data, str | os.PathLike) else data
    settings = TuneSettings(
        model, tuple(map(Path, paths)), steps, Path(out),
        claimed_mix(model) if length is None else parse_mix(str(length)), rows, at_once, mask,
        positions, cutting, boundary, field, column, encoding, lr, lr_end,
        max(0, min(10, steps)) if warmup is None else warmup, decay, weight_decay, clip, dtype,
        not keep_activations, attention, lora, checkpoint_every, seed, device, gate,
        path(gate_text), () if proved is None else parse_lengths(proved), trials,
        context_parallel, seconds(minutes), command=command,
    )  # fmt: skip
    return run(settings, listener)


def compare(
    *, preset: Preset = "lesson", encodings: Several | None = None,
    seeds: str | int | Iterable[int] | None = None, steps: int | None = None,
    device: Literal["cpu", "cuda"] | None = None, out: Named = "ropewalk-compare",
    listener: Listener | None = None,
) -> Comparison:  # fmt: skip
    """Train one small decoder under each encoding of position, and measure it beyond its length.

    Args:
        preset: "minute" (one seed, under 6 minutes on 2 cores), "lesson" (three seeds), or
            "paper" (larger, for a GPU).
        encodings: which, like ["rope", "alibi", "sinusoidal+every"]; by default all.
        seeds: how many, counted from 0, or which ones: 3, or [0, 5, 7].
        steps: of training; by default as the preset has it.
        device: where to train; by default "cuda" for "paper", and "cpu" for the others.
        out: the folder of the trained decoders; what it holds is not trained again.
        listener: who is told how it goes on.

    Returns:
        A `Comparison`: losses in nats per token and recall, by encoding, seed and window.

    Raises:
        UsageError: an encoding, seed or device that is not there. StoreError: another comparison
        in that folder.

    Example:
        >>> found = ropewalk.compare(preset="minute", encodings="rope,alibi", steps=20)
    """
    from ropewalk.comparison import presets
    from ropewalk.comparison.run import compare as run

    words = listed(encodings)
    if isinstance(seeds, str | int):
        seeds = presets.parse_seeds(str(seeds))
    chosen = presets.preset(
        preset,
        variants=None if words is None else presets.parse_variants(words),
        seeds=None if seeds is None else tuple(seeds),
        steps=steps,
        device=device,
    )
    return run(chosen, Path(out), listener)
