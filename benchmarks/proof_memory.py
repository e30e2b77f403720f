"""Memory that reading a long text takes: our cache beside transformers' own.

Each way of reading runs in a process of its own, which loads SmolLM2, reads the tokens and says
its peak of resident memory. `bare`: transformers' own forward over the whole text at once, with
its DynamicCache. `chunks`: the same in the passes that our engine reads in. `ours`: our engine,
with its cache, and two questions asked behind the text.

    python -m benchmarks.proof_memory WAY TOKENS

prints one JSON object.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import resolve
from ropewalk.proof.cells import Cell
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.reading import Leaf
from ropewalk.proof.subjects.local import BEHIND, SharingLocal
from ropewalk.proof.tokens import Tokens

WAYS = ("bare", "chunks", "ours")
_QUESTION = 24
"""Tokens of a branch."""


def bare(model: Any, ids: tuple[int, ...], chunk: int) -> int:
    """Read with transformers' own cache; the bytes that the cache keeps."""
    import torch
    from transformers.cache_utils import DynamicCache

    cache = DynamicCache(config=model.config)
    with torch.inference_mode():
        for start in range(0, len(ids), chunk):
            tensor = torch.tensor([ids[start : start + chunk]])
            model(tensor, use_cache=True, past_key_values=cache, logits_to_keep=1)
    layers: list[Any] = cache.layers
    return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)


def ours(model: Any, tokens: Tokens, length: int) -> int:
    """Read with our engine and ask two branches behind; the bytes of its cache.

    The text is read as a proof of doubling lengths reads it: piece by piece.
    """
    prompt = PromptMaker(tokens)(Cell(length, 0.5, 0))
    path, question = prompt.token_ids[:-_QUESTION], prompt.token_ids[-_QUESTION:]
    subject = SharingLocal(model, tokens)
    subject.start(length)
    done, piece = 0, 512
    while done < len(path):
        subject.read(path[done:piece])
        done, piece = min(piece, len(path)), 2 * piece
    leaves = [Leaf(replace(prompt, cell=Cell(length, 0.5, i)), question) for i in range(2)]
    subject.ask(leaves)
    cache: Any = subject._cache
    return int(cache.nbytes())


def measured(way: str, length: int) -> dict[str, float]:
    """One way, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.proof_memory", way, str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def main() -> None:
    """Read one way and say what it took."""
    way, length = sys.argv[1], int(sys.argv[2])
    device, dtype = check_device("cpu", "fp32")
    loaded = load(resolve("smollm2"), device=device, dtype=dtype)
    tokens = Tokens(loaded.tokenizer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    if way == "ours":
        cache = ours(loaded.model, tokens, length)
    else:
        ids = PromptMaker(tokens)(Cell(length, 0.5, 0)).token_ids
        cache = bare(loaded.model, ids, length if way == "bare" else BEHIND)
    found = {
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "MiB with the model loaded": before / 1024,
        "cache MiB": cache / 2**20,
        "seconds": time.perf_counter() - begun,
    }
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


if __name__ == "__main__":
    main()
