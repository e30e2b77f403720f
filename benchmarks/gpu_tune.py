"""SmolLM2-135M stretched to 32,768 tokens, proved, tuned there on one GPU, and proved again.

A GPU machine without a network takes the model in parts. On a machine with one:

    benchmarks/gpu_tune.sh prepare     the model, texts and small packages: build/gpu_tune/part-*

Send this repository, `parts.json` and one part at a time (each under 60 MB), then there:

    benchmarks/gpu_tune.sh received    says which parts are still to come
    benchmarks/gpu_tune.sh             all of it in 9 minutes, half a minute of it a probe

The probe measures memory, bf16 matrix products and one training step at 4,096 tokens, and stops in
a sentence where that will not do. Training ends in time for the second proof, however far it came.
The result, gpu_tune.txt, lies in $OUT, or in benchmarks/results, and is written anew after each
part of the run; its last line is one JSON object, and the last line printed.

`--device cpu --model tiny --length 512 --steps 3` rehearses all of it, parts included, in a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import gpu_parts as parts
from benchmarks.gpu_plan import Plan, Probe, Shape, planned, unfit
from benchmarks.gpu_report import Report
from ropewalk.errors import RopewalkError

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "gpu_tune"
PART_BYTES = 54_000_000
LENGTH, TRIALS, ROWS = 32_768, 4, 4
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
LOADING_SECONDS, PROBE_SECONDS, MINUTES = 60, 30, 9.0
REHEARSAL = 20
"""Times as long as on a GPU that loading and the probe may take."""
READY, NO_GPU = "ready", "no GPU"
END = 15.0
"""Seconds kept for what is not foreseen."""
LONG = 400_000
"""Characters of a document at least: several rows of 32,768 tokens."""
SMOLLM2: dict[str, Any] = {
    "vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 32_768,
    "tie_word_embeddings": True,
}  # fmt: skip
"""The shape that the probe trains a step of, with random weights."""
TINY = SMOLLM2 | {"vocab_size": 2048, "hidden_size": 96, "num_hidden_layers": 2,
                  "intermediate_size": 128, "num_attention_heads": 3}  # fmt: skip


def prepare(options: argparse.Namespace) -> None:
    """The archive and its parts, on a machine with a network and the packages."""
    from ropewalk.models.resolve import resolve

    model = resolve(options.model).path
    with tempfile.TemporaryDirectory() as home:
        texts = Path(home) / "texts.jsonl"
        documents = list(_documents(Path(home), options.model))
        lines = (json.dumps({"text": text}) + "\n" for text in documents)
        texts.write_text("".join(lines), encoding="utf-8")
        archive = Path(home) / parts.ARCHIVE
        parts.pack_up(model, texts, archive)
        made = parts.split(archive, options.folder, options.part_bytes)
    sizes = ", ".join(f"{part.name} {part.stat().st_size / 1e6:.1f} MB" for part in made)
    print(f"{len(documents)} documents; in {options.folder}: {parts.MANIFEST}, {sizes}")


def _documents(home: Path, model: str) -> Iterator[str]:
    """Long documents: chapters of a book, or speeches of one kind, one after the other."""
    if model == "tiny":
        from random import Random

        from ropewalk.proof.haystack import GeneratedHaystack

        sentences = GeneratedHaystack(Random(0)).sentences()
        for _ in range(8):
            yield " ".join(next(sentences) for _ in range(120))
        return
    from benchmarks.packing import documents_by_source

    for name, texts in documents_by_source(home).items():
        if name == "spam-assassin":
            # Short mails, of which no distance can be learnt.
            continue
        held: list[str] = []
        for text in texts:
            held.append(text)
            if sum(map(len, held)) >= LONG:
                yield "\n\n".join(held)
                held = []
        print(f"{name}: {len(texts)} texts, {sum(map(len, texts)):,} characters", file=sys.stderr)


def received(options: argparse.Namespace) -> None:
    """Say which parts are to come."""
    lacking = parts.missing(options.folder)
    print("all parts are here" if not lacking else f"still to come: {', '.join(lacking)}")


def probe(options: argparse.Namespace) -> None:
    """Measure the device; print READY when all is loaded, and a `Probe` as JSON."""
    import torch

    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    if on_gpu and not torch.cuda.is_available():
        print(NO_GPU)
        return
    from transformers import LlamaConfig, LlamaForCausalLM

    from ropewalk.extension.tune.loop import precision
    from ropewalk.extension.tune.loss import LossModel

    print(READY, flush=True)
    wide, tokens = (8192, 4096) if on_gpu else (256, 64)
    memory, card = 0.0, platform.machine()
    if on_gpu:
        about = torch.cuda.get_device_properties(device)
        memory, card = about.total_memory / 2**30, about.name
    matrix = torch.randn(wide, wide, device=device, dtype=torch.bfloat16)
    product = _seconds(lambda: matrix @ matrix, on_gpu, 5)
    torch.manual_seed(0)
    config = LlamaConfig(**(SMOLLM2 if on_gpu else TINY))
    causal: Any = LlamaForCausalLM(config)
    causal.to(device).train()
    causal.gradient_checkpointing_enable({"use_reentrant": False})
    model = LossModel(causal)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5)
    ids = torch.randint(0, config.vocab_size, (1, tokens), device=device)

    def step() -> None:
        with precision(device, "bf16"):
            loss = model(ids, input_ids=ids) / tokens
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    seconds = _seconds(step, on_gpu, 1)
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else 0.0
    sizes = sum(each.numel() for each in causal.parameters())
    shape = Shape(sizes, config.num_hidden_layers, config.hidden_size)
    rate = 2 * wide**3 / product / 1e12
    print(json.dumps(asdict(Probe(card, memory, rate, tokens, seconds, peak, shape))))


def _seconds(work: Any, on_gpu: bool, times: int) -> float:
    """Of one call, after one that is not counted."""
    import torch

    def wait() -> None:
        if on_gpu:
            torch.cuda.synchronize()

    work()
    wait()
    begun = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - begun) / times


def probed(device: str) -> Probe:
    """What a process of its own measures in half a minute from when its packages are loaded.

    Exits with a sentence where there is no GPU, or no answer in time.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gpu_tune", "probe", "--device", device],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if process.stdout is None:
        raise RuntimeError("the pipe was asked for")
    # A rehearsal may go on beside other work, and is no judgement of the machine.
    patience = REHEARSAL if device == "cpu" else 1
    seconds, what = patience * LOADING_SECONDS, "load torch and transformers"
    ready: str = _within(seconds, process, process.stdout.readline)
    if ready.strip() == READY:
        seconds, what = patience * PROBE_SECONDS, "multiply a matrix and take a step"
        said, errors = _within(seconds, process, process.communicate)
    else:
        said, errors = process.communicate()
    if ready.strip() == NO_GPU:
        sys.exit(
            "gpu_tune: no GPU can be used here, so nothing was done; "
            "--device cpu --model tiny --length 512 --steps 3 rehearses without one"
        )
    if process.returncode < 0:
        sys.exit(f"gpu_tune: {device} did not {what} in {seconds} s, so nothing was done")
    if process.returncode:
        last = (errors.strip().splitlines() or ["without a word"])[-1]
        sys.exit(f"gpu_tune: the probe of {device} failed: {last}")
    about = json.loads(said.strip().splitlines()[-1])
    return Probe(**{**about, "shape": Shape(**about["shape"])})


def _within(seconds: float, process: subprocess.Popen[str], read: Any) -> Any:
    """What `read` gives, of a process that is killed when the time is up."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        return read()
    finally:
        timer.cancel()


def run(options: argparse.Namespace) -> None:
    """Probe, stretch, prove, tune, prove."""
    begun = time.monotonic()
    whole = 60 * options.minutes - END
    measured = probed(options.device)
    spent = time.monotonic() - begun
    plan = planned(
        measured, options.length, whole, spent=spent, rows=options.rows, steps=options.steps
    )
    no_use = unfit(measured, plan, options.length) if options.device != "cpu" else None
    if no_use is not None:
        sys.exit(f"gpu_tune: {no_use}, so nothing was done")
    report = Report(options.out / "gpu_tune.txt")
    work = Path(tempfile.mkdtemp(prefix="gpu_tune-"))
    try:
        os.environ["ROPEWALK_CACHE"] = str(work / "cache")
        inside = parts.unpacked(parts.join(options.folder, work / parts.ARCHIVE), work / "needed")
        # Those of the machine come first; transformers looks for them once, when it is imported.
        sys.path.append(str(inside / "packages"))
        _tell(options, measured, plan, report)
        _all(options, plan, report, inside, begun + whole)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report.add([], seconds=round(time.monotonic() - begun, 1))
    print(report.last())


def _tell(options: argparse.Namespace, measured: Probe, plan: Plan, report: Report) -> None:
    """What it runs on."""
    report.add(
        [
            f"{options.model} at {options.length:,} tokens on {measured.card}, {_software()}",
            f"probe: {measured.memory:.0f} GiB, bf16 products {measured.tflops:.1f} TFLOP/s, a "
            f"step of {measured.tokens:,} tokens {measured.seconds:.3f} s, {measured.peak:.1f} GiB",
        ],
        card=measured.card,
        probe=asdict(measured),
        plan=asdict(plan),
    )


def _software() -> str:
    import torch
    import transformers

    return (
        f"CUDA {torch.version.cuda}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, Python {platform.python_version()}"
    )


def _all(
    options: argparse.Namespace, plan: Plan, report: Report, inside: Path, deadline: float
) -> None:
    """Everything that is measured; `inside` holds what the archive held."""
    from ropewalk.extension.session import extend
    from ropewalk.extension.settings import ExtendSettings

    work = inside.parent
    files = sorted((inside / "model").glob("*.gguf"))
    model = files[0] if files else inside / "model"
    longer = work / "longer"
    extend(ExtendSettings(str(model), options.length, method="yarn", out=longer))
    before = _prove(options, longer, work / "before", plan.proof)
    report.add(_table("stretched by YaRN, not trained", before), before=before)
    left = deadline - time.monotonic() - plan.proof - plan.writing
    tuned, lines, figures = _tuned(
        options, plan, longer, inside / "texts.jsonl", work / "run", left
    )
    report.add(lines, tuned=figures)
    after = _prove(options, tuned, work / "after", max(1.0, deadline - time.monotonic()))
    report.add(_table("and tuned", after), after=after)


def _prove(
    options: argparse.Namespace, model: Path, out: Path, seconds: float
) -> dict[str, dict[str, int]]:
    """Hits and prompts by length, of what was asked in the time."""
    from ropewalk.proof.cells import Sharing
    from ropewalk.proof.prove import prove
    from ropewalk.proof.settings import ProofSettings

    proof = prove(
        ProofSettings(
            model=str(model), lengths=(options.length // 2, options.length), depths=DEPTHS,
            trials=options.trials, out=out, device=options.device, controls=0,
            minutes=seconds / 60,
            dtype="fp32" if options.device == "cpu" else "bf16", sharing=Sharing.PREFIX,
        )
    )  # fmt: skip
    return {
        str(column.length): {"hits": column.pooled.hits, "asked": column.pooled.judged}
        for column in proof.summary.columns
    }


def _table(name: str, found: dict[str, dict[str, int]]) -> list[str]:
    shares = (f"{int(n):,}: {each['hits']}/{each['asked']}" for n, each in found.items())
    return [f"pass keys found, {name}: {', '.join(shares) or 'no time for any'}"]


def _tuned(
    options: argparse.Namespace, plan: Plan, model: Path, texts: Path, out: Path, seconds: float
) -> tuple[Path, list[str], dict[str, Any]]:
    """The tuned model, lines and figures of its training."""
    from ropewalk.extension.tune.session import tune
    from ropewalk.extension.tune.training_settings import Mix, TuneSettings
    from ropewalk.listener import Listener
    from ropewalk.report import document_of, terminal

    steps = max(1, plan.steps)
    done = tune(
        TuneSettings(
            model=str(model), data=(texts,), steps=steps, out=out, mix=Mix((options.length,)),
            rows=plan.rows, lr=5e-5, warmup=min(5, steps), cutting="split", every=steps,
            dtype="fp32" if options.device == "cpu" else "bf16", device=options.device,
            tensorboard=False, seconds=max(1.0, seconds),
        ),
        Listener(say=lambda words: print(f"{words} ...", flush=True)),
    )  # fmt: skip
    if done is None:
        raise RuntimeError("this is run by one process")
    lines = [
        line for line in terminal(document_of(done)).splitlines() if not line.startswith("model:")
    ]
    figures = {
        "steps": [round(each.loss, 5) for each in done.steps],
        "tokens_a_second": sum(each.read for each in done.steps)
        / sum(each.seconds for each in done.steps),
        "asked_steps": steps,
        "short_text_share": done.gate.share,
    }
    return done.model, lines, figures


def main() -> None:
    """One of the commands; a failure is one sentence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "command", nargs="?", default="run", choices=("run", "prepare", "received", "probe")
    )
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the parts lie")
    parser.add_argument("--part-bytes", type=int, default=PART_BYTES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--length", type=int, default=LENGTH)
    parser.add_argument("--rows", type=int, default=ROWS, help="of a step")
    parser.add_argument("--steps", type=int, help="as many as fit without it")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of the whole run")
    out = os.environ.get("OUT") or Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=Path(out))
    options = parser.parse_args()
    commands = {"run": run, "prepare": prepare, "received": received, "probe": probe}
    try:
        commands[options.command](options)
    except (parts.PartsError, RopewalkError) as error:
        sys.exit(f"gpu_tune: {error}")


if __name__ == "__main__":
    main()
