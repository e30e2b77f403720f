"""How the embedded model was made: `python -m ropewalk.tiny.recipe FOLDER`, or `make tiny`.

Three stages: pass keys in short documents until the model copies, then facts of many kinds and
longer documents, then mostly the full length with a falling learning rate. What was tried and left
out: a loss on answers alone stalls, and rows of repeated random tokens are not learned at this
size while retrieval forms without them.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ropewalk.files import folder_beside
from ropewalk.short import short
from ropewalk.tiny.corpus import ANSWER_WEIGHT, Corpus
from ropewalk.tiny.drift import drift
from ropewalk.tiny.tokenizer import BEGIN, END, train_tokenizer

TRAINED_LENGTH = 256
PROVED = (256, 512, 1024, 2048)
"""Lengths that a proof asks by default: the one it was trained at, and its doublings."""
_EVERY = 250
"""Steps between two looks at what it retrieves."""
_LOOKED_AT = 64


@short
@dataclass(frozen=True, slots=True)
class Stage:
    """`steps` of rows of one of `lengths`; `pass_keys` is the share of rows that ask for them."""

    steps: int
    lengths: tuple[int, ...]
    pass_keys: float


@short
@dataclass(frozen=True, slots=True)
class TinyRecipe:
    """Sizes, stages and rates. `tokens` a step; the rate warms up, stays, and falls in the end."""

    vocab_size: int = 1536
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    base: float = 10_000.0
    tokens: int = 2048
    rate: float = 2e-3
    warm_up: int = 100
    falling: float = 0.35
    seed: int = 3
    stages: tuple[Stage, ...] = (
        Stage(1200, (128,), 1.0),
        Stage(1600, (128, 192, 256), 0.4),
        Stage(2400, (160, 256, 256), 0.4),
    )

    @property
    def steps(self) -> int:
        """Steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        left = (self.steps - step) / (self.falling * self.steps)
        return self.rate * min(1.0, (step + 1) / self.warm_up, max(0.03, left))


def train(recipe: TinyRecipe, folder: Path, say: Callable[[str], None] = lambda _: None) -> None:
    """Train, and write model, tokenizer and training log to `folder`, whole or not at all."""
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(recipe.seed)
    backend = train_tokenizer(recipe.vocab_size)
    config = config_of(recipe, backend.token_to_id(BEGIN), backend.token_to_id(END))
    model: Any = LlamaForCausalLM(config)
    log: list[dict[str, object]] = [{"recipe": asdict(recipe), "torch": torch.__version__}]
    log.append({"step": 0, "drift": asdict(drift(model.get_input_embeddings().weight, backend))})
    for entry in _steps(recipe, model, Corpus(backend, Random(recipe.seed))):
        log.append(entry)
        say(json.dumps(entry))
    table = model.get_input_embeddings().weight
    log.append({"step": recipe.steps, "drift": asdict(drift(table, backend))})
    say(json.dumps(log[-1]))
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=BEGIN, eos_token=END
    )
    with folder_beside(folder) as made:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        lines = "".join(f"{json.dumps(entry)}\n" for entry in log)
        (made / "training.jsonl").write_text(lines, encoding="utf-8")


def config_of(recipe: TinyRecipe, begin: int | None, end: int | None) -> Any:
    """The configuration, with what is known of the training: its length, and what it learned.

    Facts of many kinds are read too, and found in under a third of documents at best (the log
    says how often): what it is asked by default is one pass key a prompt.
    """
    from transformers import LlamaConfig

    further: dict[str, Any] = {
        "max_trained_positions": TRAINED_LENGTH,
        "ropewalk_prove": {"tasks": ["single"], "lengths": list(PROVED)},
    }
    return LlamaConfig(
        vocab_size=recipe.vocab_size,
        hidden_size=recipe.hidden_size,
        intermediate_size=3 * recipe.hidden_size,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=TRAINED_LENGTH,
        tie_word_embeddings=True,
        bos_token_id=begin,
        eos_token_id=end,
        rope_parameters={"rope_type": "default", "rope_theta": recipe.base},
        **further,
    )


def _steps(recipe: TinyRecipe, model: Any, corpus: Corpus) -> Iterator[dict[str, object]]:
    """Train step by step; an entry for the log at every look."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.01
    )
    started, step = time.monotonic(), 0
    for stage in recipe.stages:
        for _ in range(stage.steps):
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate_at(step)
            ids, weights = _rows(recipe, stage, corpus)
            loss, answers = _loss(model, ids, weights)
            if not math.isfinite(loss.item()):
                raise FloatingPointError(f"the loss is {loss.item()} at step {step}")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if step % _EVERY == 0 or step == recipe.steps:
                yield {
                    "step": step,
                    "seconds": round(time.monotonic() - started),
                    "loss": round(loss.item(), 4),
                    "answers": round(answers, 4),
                    **{
                        f"{'pass keys' if keys else 'facts'} at {length}": retrieved(
                            model, corpus, length, keys
                        )
                        for length in (128, TRAINED_LENGTH)
                        for keys in (True, False)
                    },
                }


def _rows(recipe: TinyRecipe, stage: Stage, corpus: Corpus) -> tuple[Tensor, Tensor]:
    """Ids and weights (rows, length) of one step."""
    random = corpus.random
    length = random.choice(stage.lengths)
    examples = [
        corpus.document(length, random.random() < stage.pass_keys)
        for _ in range(recipe.tokens // length)
    ]
    ids = torch.tensor([example.ids for example in examples])
    return ids, torch.tensor([example.weights for example in examples])


def _loss(model: Any, ids: Tensor, weights: Tensor) -> tuple[Tensor, float]:
    """The weighted mean of the next token's cross entropy, and that of answers alone."""
    logits = model(ids).logits[:, :-1]
    costs = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    share = weights[:, 1:].flatten()
    answers = float(costs.detach()[share == ANSWER_WEIGHT].mean())
    return (costs * share).sum() / share.sum(), answers


@torch.inference_mode()
def retrieved(model: Any, corpus: Corpus, length: int, pass_keys: bool) -> float:
    """The share of documents of which every answer is the most likely text."""
    kept, corpus.random = corpus.random, Random(99)
    examples = [corpus.document(length, pass_keys) for _ in range(_LOOKED_AT)]
    corpus.random = kept
    ids = torch.tensor([example.ids for example in examples])
    answers = torch.tensor([example.weights for example in examples])[:, 1:] == ANSWER_WEIGHT
    best = model(ids).logits[:, :-1].argmax(-1)
    right = (best == ids[:, 1:]) | ~answers
    return float(right.all(-1).float().mean())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ropewalk.tiny.recipe FOLDER")
    train(TinyRecipe(), Path(sys.argv[1]), lambda line: print(line, flush=True))  # noqa: T201 - a script
