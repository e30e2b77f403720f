"""From rows as stored to rows as the model uses them: a scale, or a norm right after the lookup.

Only what happens to a row by itself counts. Where positions are added before a norm (BERT,
GPT-2), the row as used is the row as stored, and what follows depends on the position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropewalk.dialects.values import Section
from ropewalk.errors import UsageError
from ropewalk.kernels.arrays import as_tensor
from ropewalk.short import short
from ropewalk.tables.formats.shards import Checkpoint
from ropewalk.tables.roles import TableFacts

if TYPE_CHECKING:
    from torch import Tensor

    from ropewalk.inputs import Scale


@short
@dataclass(frozen=True, slots=True)
class Transform:
    """One thing done to rows (n, width); `name` says it in words, numbers included."""

    name: str
    apply: Callable[[Tensor], Tensor]


_LAYER_NORMS = {
    # family: prefix of the norm's tensors, keys of its epsilon, the epsilon where no key is there
    "bloom": ("word_embeddings_layernorm", ("layer_norm_epsilon",), 1e-5),
    "modernbert": ("embeddings.norm", ("norm_eps",), 1e-5),
    "modernbert-decoder": ("embeddings.norm", ("norm_eps",), 1e-5),
}
_GGUF_LAYER_NORMS = ("bloom", "modern-bert")


def transforms_of(facts: TableFacts | None, checkpoint: Checkpoint) -> tuple[Transform, ...]:
    """What the model does to a row of its input table.

    Raises UsageError where no configuration says which model it is.
    """
    if facts is None or facts.family is None:
        raise UsageError(
            f"{checkpoint.path} comes without a configuration, so how the model uses its rows is "
            "not known; put its config.json beside it, or look at the raw rows"
        )
    done: list[Transform] = []
    scale = scale_of(facts.family, facts.values, facts.width, gguf=facts.gguf)
    if scale is not None:
        rounded = " rounded to their dtype" if type(scale).__name__ == "RoundedScale" else ""
        done.append(Transform(f"times {scale.factor:g}{rounded}", scale.apply))
    norm = _norm_of(facts, checkpoint)
    return (*done, norm) if norm is not None else tuple(done)


def scale_of(
    family: str, values: Section, width: int | None, *, gguf: bool = False
) -> Scale | None:
    """What a family multiplies its token vectors of `width` by; `values` is its configuration.

    Gemma by sqrt(width), the factor rounded to the activations' dtype (llama.cpp, which computes
    in float32, does not round); BART's kin by sqrt(width) where `scale_embedding` says so;
    Granite, Falcon-H1 and MiniCPM by a number in their configuration. Raises UsageError where
    the width is needed and not known, ConfigError for values of another kind.
    """
    from ropewalk.inputs import RoundedScale, Scale

    gemma = "gemma" in family
    if gemma or values.flag("scale_embedding"):
        if width is None:
            raise UsageError(
                f"{values.where} does not give the model's width, by which rows are scaled"
            )
        return (RoundedScale if gemma and not gguf else Scale).sqrt(width)
    for key in ("embedding_multiplier", "scale_emb", "embedding_scale"):
        factor = values.number(key)
        if factor is not None and factor != 1.0:
            return Scale(factor)
    return None


def _norm_of(facts: TableFacts, checkpoint: Checkpoint) -> Transform | None:
    from torch.nn import functional

    family = facts.family or ""
    if family == "nanochat":
        eps = facts.values.number("rms_norm_eps") or 1e-6

        def rms(rows: Tensor) -> Tensor:
            return functional.rms_norm(rows.float(), rows.shape[-1:], eps=eps).to(rows.dtype)

        return Transform(f"RMS norm without weights, eps {eps:g}", rms)
    if facts.gguf and family in _GGUF_LAYER_NORMS:
        prefix, eps = "token_embd_norm", facts.values.number("attention.layer_norm_epsilon") or 1e-5
    elif not facts.gguf and family in _LAYER_NORMS:
        prefix, keys, default = _LAYER_NORMS[family]
        eps = next((n for key in keys if (n := facts.values.number(key))), default)
    else:
        return None
    weight, bias = (_vector(checkpoint, prefix, part) for part in ("weight", "bias"))
    if weight is None:
        raise UsageError(
            f"{checkpoint.path} has no {prefix}.weight, with which a {family} model norms its rows"
        )

    def norm(rows: Tensor) -> Tensor:
        gain = weight.to(rows.dtype)
        shift = None if bias is None else bias.to(rows.dtype)
        return functional.layer_norm(rows, rows.shape[-1:], gain, shift, eps)

    return Transform(f"layer norm {prefix}, eps {eps:g}", norm)


def _vector(checkpoint: Checkpoint, prefix: str, part: str) -> Tensor | None:
    end = f"{prefix}.{part}"
    named = [n for n in checkpoint.names() if n == end or n.endswith(f".{end}")]
    if len(named) != 1:
        return None
    return as_tensor(checkpoint.matrix(named[0]).read(0, 1)[0])
