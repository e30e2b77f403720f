"""ALiBi without a matrix of biases, under BLOOM, MPT and Falcon models, reversibly.

Their attention adds a bias for every query and key, and a mask of the same size. Here the bias
goes in as channels of queries and keys, so that plain causal attention computes it. The slopes
and the positions are each model's own: BLOOM and Falcon count tokens that are no padding, MPT
counts places, and Falcon rounds slopes, positions and biases to bfloat16 whatever the dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk.accelerate.handle import (
    Acceleration,
    check_fresh,
    make_class,
    put_under,
    why_not,
)
from ropewalk.accelerate.relink import relinked
from ropewalk.attention import attention
from ropewalk.errors import UsageError
from ropewalk.kernels.reference import wide
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.base import PositionEncoding, ScoreFeatures

KIND = "ALiBi by features"


@dataclass(frozen=True, slots=True)
class _Family:
    """A family's classes by name, and how its attention is entered and left.

    `project` gives q, k and v (batch, heads, length, channels) from the module and its input;
    `leave` makes the attended (batch, length, width) into what the module returns.
    """

    attention: str
    model: str
    cache: str
    counts_padding: bool
    encoding: Callable[[int, float], Alibi | RoundedAlibi]
    project: Callable[[Any, Tensor], tuple[Tensor, Tensor, Tensor]]
    leave: Callable[[Any, Tensor, dict[str, Any]], Any]
    scale: Callable[[Any], float]
    dropout: Callable[[Any], float]
    implementations: tuple[str, ...]


def accelerate_alibi(model: nn.Module) -> Acceleration:
    """Have a BLOOM, MPT or Falcon model compute its ALiBi without matrices of biases.

    Returns a handle: print it, `undo()` it, or use it in a `with` statement. Logits are those of
    the model to rounding, with left padding and a cache of keys too; rows of padding, which see
    no key and which nothing reads, differ. Calls that ask for attention weights, train with
    dropout on them, or bring a mask of four dimensions are computed as before.

    Raises UsageError where the model is accelerated already.
    """
    done = Acceleration(KIND)
    check_fresh(model, KIND)
    body: Any
    layer: Any
    for body in list(model.modules()):
        family = _FAMILIES.get(_original_name(body))
        if family is None:
            continue
        layers = [m for m in body.modules() if _original_name(m) == family.attention]
        hindrance = _hindrance(body, family) or next(filter(None, map(why_not, layers)), None)
        if hindrance is not None:
            for layer in layers:
                done.stay(layer, hindrance)
            continue
        done.changes.append(
            put_under(
                body, _body_class(body.__class__, family), "no longer builds masks of its own"
            )
        )
        for layer in layers:
            after = _layer_class(layer.__class__, family)
            done.changes.append(put_under(layer, after, "add ALiBi as channels of q and k"))
    if not done.changes and not done.stays:
        done.remark = "This is no BLOOM, MPT or Falcon model; nothing is changed"
    return done


def _original_name(module: nn.Module) -> str:
    """The name of a module's class as transformers has it, "" for classes of others."""
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("transformers.") else ""


def _hindrance(body: Any, family: _Family) -> str | None:
    """Why a model of the family stays as it is, None where nothing hinders."""
    config = body.config
    if family.model == "FalconModel" and not config.alibi:
        return "this model rotates queries and keys and has no ALiBi (accelerate_rotary is for it)"
    if family.model == "MptModel" and not config.attn_config.alibi:
        return "this configuration says that it has no ALiBi, and transformers adds it all the same"
    implementation = config._attn_implementation
    if implementation not in family.implementations:
        return (
            f"it runs under attn_implementation={implementation!r}; what is known here is "
            f"{' and '.join(map(repr, family.implementations))}"
        )
    if getattr(config, "pretraining_tp", 1) > 1 and getattr(config, "slow_but_exact", False):
        return "slow_but_exact asks for products in the order of the training"
    return why_not(body)


@lru_cache(maxsize=32)
def _body_class(cls: Any, family: _Family) -> type[nn.Module]:
    """The model's class with masks that say only which keys are padding."""
    own = cls.forward
    if not isinstance(own, FunctionType):
        raise UsageError(f"{cls.__name__}.forward is no plain function; nothing is known of it")
    dense_mask = own.__globals__.get("create_causal_mask") or _inner_global(own)
    compact = relinked(own, {"create_causal_mask": _compact(dense_mask)}, "compact")
    if compact is own:
        raise UsageError(f"{cls.__name__}.forward makes no causal mask by a function known here")

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        weights = kwargs.get("output_attentions")
        weights = self.config.output_attentions if weights is None else weights
        drops = self.training and family.dropout(self.config) > 0
        return (own if weights or drops else compact)(self, *args, **kwargs)

    return make_class(cls, KIND, {"forward": forward})


def _inner_global(function: FunctionType) -> Any:
    inner: Any = function.__dict__.get("__wrapped__")
    return inner.__globals__["create_causal_mask"]


def _compact(dense: Callable[..., Any]) -> Callable[..., Any]:
    """A stand-in for transformers' function that makes a mask of queries by keys.

    Returns bools: (batch, keys so far), False where a key is padding, or an empty tensor where
    none is. A mask that is not of that kind is made as before.
    """

    def create_causal_mask(
        config: Any, inputs_embeds: Tensor, attention_mask: Tensor | None, *args: Any, **kwargs: Any
    ) -> Any:
        if attention_mask is None:
            return torch.empty(0, dtype=torch.bool, device=inputs_embeds.device)
        if attention_mask.dim() != 2:
            return dense(config, inputs_embeds, attention_mask, *args, **kwargs)
        mask = attention_mask.to(device=inputs_embeds.device, dtype=torch.bool)
        # Read where that does not wait for a device: without padding a mask would cost a matrix.
        if mask.device.type == "cpu" and not torch.compiler.is_compiling() and bool(mask.all()):
            return mask[:0, 0]
        return mask

    return create_causal_mask


@lru_cache(maxsize=32)
def _layer_class(cls: Any, family: _Family) -> type[nn.Module]:
    """The attention's class with the bias as channels."""
    own: Callable[..., Any] = cls.forward

    def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        mask = kwargs.get("attention_mask")
        if args[1:] or not isinstance(mask, Tensor) or mask.dim() > 2:
            return own(self, hidden_states, *args, **kwargs)
        if args:
            kwargs["residual"] = args[0]
        return family.leave(self, _attend(self, family, hidden_states, mask, kwargs), kwargs)

    return make_class(cls, KIND, {"forward": forward})


def _attend(
    self: Any, family: _Family, hidden_states: Tensor, mask: Tensor, given: dict[str, Any]
) -> Tensor:
    """What the heads attend to, side by side: (batch, length, width)."""
    q, k, v = family.project(self, hidden_states)
    cache, length = given.get(family.cache), q.shape[2]
    past: Any = 0
    if cache is not None:
        past = cache.get_seq_length(self.layer_idx)
        # A cache of fixed size counts in a tensor of its own, which the update changes.
        past = past.clone() if isinstance(past, Tensor) else past
        k, v = cache.update(k, v, self.layer_idx)
    keys = k.shape[2]
    encoding = family.encoding(q.shape[1], family.scale(self))
    row = torch.arange(keys, device=q.device)
    seen: Tensor | None = None
    ids = row
    if mask.dim() == 2:
        seen = nn.functional.pad(mask, (0, keys - mask.shape[1])) if keys > mask.shape[1] else mask
        if family.counts_padding:
            ids = (seen.cumsum(-1) - 1).clamp(min=0) * seen
    attended = attention(
        q, k, v, encoding,
        position_ids=ids if keys == length else ids[..., past + row[:length]],
        # Without a cache the keys are the queries' own, and their order is that of the row.
        k_position_ids=None if keys == length and seen is None else ids,
        mask=seen, scale=family.scale(self),
    )  # fmt: skip
    return attended.transpose(1, 2).flatten(2)


def _project_bloom(self: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    parts: tuple[Tensor, Tensor, Tensor] = self._reshape(self.query_key_value(hidden_states))
    return parts


def _leave_bloom(self: Any, attended: Tensor, given: dict[str, Any]) -> tuple[Tensor, None]:
    out = nn.functional.dropout(self.dense(attended), self.hidden_dropout, self.training)
    return given["residual"] + out, None


def _project_mpt(self: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    mixed = self.Wqkv(hidden_states)
    if self.clip_qkv:
        mixed = mixed.clamp(min=-self.clip_qkv, max=self.clip_qkv)
    q, k, v = (x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for x in mixed.chunk(3, dim=2))
    return q, k, v


def _leave_mpt(self: Any, attended: Tensor, given: dict[str, Any]) -> tuple[Tensor, None]:
    del given
    return self.out_proj(attended), None


def _project_falcon(self: Any, hidden_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x.transpose(1, 2) for x in self._split_heads(self.query_key_value(hidden_states)))
    return q, k, v


def _leave_falcon(self: Any, attended: Tensor, given: dict[str, Any]) -> tuple[Tensor, None]:
    del given
    return self.dense(attended), None


class RoundedAlibi(PositionEncoding):
    """ALiBi as Falcon has it: slopes, positions and their products each rounded to bfloat16.

    `factor` x bf16(bf16(m) x bf16(j)) on the scores of key j, in any dtype.

    What each query would take off for itself is the same for all of its keys, and is taken off
    here. From 257 tokens on positions are not told apart one by one; that is how these models
    were trained, and what they are given.
    """

    causal_only = True

    def __init__(self, heads: int, factor: float) -> None:
        super().__init__()
        self.heads, self.factor = heads, factor
        self.slopes = Alibi(heads).slopes

    def score_bias(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """(heads, q, k) or (batch, heads, q, k), in fp32 at least."""
        query, key = (
            self._rounded(ids).to(wide(dtype)) for ids in (q_position_ids, k_position_ids)
        )
        return self.factor * (key[..., None, :] - query[..., :, None])

    def score_features(
        self,
        q_position_ids: Tensor,
        k_position_ids: Tensor,
        dtype: torch.dtype,
        *,
        scale: float = 1.0,
    ) -> ScoreFeatures:
        """Two features, every head with keys of its own: (batch, heads, length, 2).

        Each is a number of bf16, so that where `factor` is `scale` nothing is rounded in any
        dtype that holds those.
        """
        query, key = self._rounded(q_position_ids), self._rounded(k_position_ids)
        query, key = (x if x.dim() == 3 else x[None] for x in (query, key))
        ratio = self.factor / scale
        q_columns = (-ratio * query, torch.full_like(query, ratio))
        k_columns = (torch.ones_like(key), key)
        return ScoreFeatures(
            torch.stack(q_columns, dim=-1).to(dtype), torch.stack(k_columns, dim=-1).to(dtype)
        )

    def _rounded(self, ids: Tensor) -> Tensor:
        """The rounded products, (heads, length) or (batch, heads, length), in fp32."""
        slopes = torch.tensor(self.slopes, device=ids.device).bfloat16().view(-1, 1)
        products: Tensor = slopes * ids.to(torch.bfloat16).unsqueeze(-2)
        return products.to(wide(torch.bfloat16))


def _exact(heads: int, scale: float) -> Alibi:
    del scale
    return Alibi(heads)


_FAMILIES = {
    family.model: family
    for family in (
        _Family(
            "BloomAttention", "BloomModel", "layer_past", True, _exact,
            _project_bloom, _leave_bloom, lambda m: float(m.inv_norm_factor),
            lambda c: float(c.attention_dropout), ("eager",),
        ),
        _Family(
            "MptAttention", "MptModel", "cache", False, _exact,
            _project_mpt, _leave_mpt, lambda m: float(m.softmax_scale),
            lambda c: float(c.attn_config.attn_pdrop), ("eager",),
        ),
        # Its eager attention adds the bias twice, once by itself and once within the mask.
        _Family(
            "FalconAttention", "FalconModel", "layer_past", True, RoundedAlibi,
            _project_falcon, _leave_falcon, lambda m: float(m.inv_norm_factor),
            lambda c: float(c.attention_dropout), ("sdpa",),
        ),
    )
}  # fmt: skip
