"""A small reference decoder under any positional encoding, as a model of transformers.

    model = Decoder(DecoderConfig(vocab_size=512, position="alibi", trained_length=128))

One file, pre-norm blocks, a tied head. Everything but the encoding is the same for every
encoding, so that what differs in a measurement is the encoding. generate, Trainer and
`ropewalk prove` take it like any other causal model; `register` makes the Auto classes know it.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from ropewalk.attention import attention
from ropewalk.attention.visible import query_mask, real_tokens
from ropewalk.dialects.hf.families import OWN_TYPE
from ropewalk.errors import ConfigError, ScheduleError, UsageError
from ropewalk.kernels.bounds import check_token_rows
from ropewalk.positions.alibi import Alibi
from ropewalk.positions.base import PositionEncoding
from ropewalk.positions.from_mask import position_ids_from_mask
from ropewalk.positions.learned import Learned
from ropewalk.positions.nope import NoPosition
from ropewalk.positions.raw_index import RawIndex
from ropewalk.positions.rotary import Rotary
from ropewalk.positions.sinusoidal import Sinusoidal
from ropewalk.positions.t5 import T5Bias
from ropewalk.rope import spec

Position = Literal["sinusoidal", "learned", "rope", "alibi", "t5", "none", "raw_index"]
"""The encodings that a configuration can name."""


class DecoderConfig(PretrainedConfig):
    """Sizes and the encoding. `trained_length` tokens is what it is trained on, and the rows of a
    learned table. `reassert`: an encoding that adds to the input is added again before every
    block, rather than once. Raises ConfigError for values that make no model.
    """

    model_type = OWN_TYPE

    def __init__(
        self,
        vocab_size: int = 512,
        hidden_size: int = 128,
        intermediate_size: int | None = None,
        num_hidden_layers: int = 4,
        num_attention_heads: int = 4,
        position: Position = "rope",
        trained_length: int = 128,
        rope_theta: float = 10_000.0,
        reassert: bool = False,
        **others: Any,
    ) -> None:
        """As the class says; `others` goes to transformers."""
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size or 4 * hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.position = position
        self.max_position_embeddings = trained_length
        self.rope_theta = rope_theta
        self.reassert = reassert
        others.setdefault("tie_word_embeddings", True)
        super().__init__(**others)
        self._check()

    @property
    def trained_length(self) -> int:
        """Tokens of the rows that it is trained on."""
        return int(self.max_position_embeddings)

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return int(self.hidden_size // self.num_attention_heads)

    def to_diff_dict(self) -> dict[str, Any]:
        """Everything: a saved configuration leaves nothing to defaults."""
        everything: dict[str, Any] = self.to_dict()
        return everything

    def _check(self) -> None:
        sizes = {
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "trained_length": self.max_position_embeddings,
        }
        for name, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ConfigError(f"{name} is {size!r}; it is a whole number of 1 or more")
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(
                f"hidden_size {self.hidden_size} does not divide over "
                f"{self.num_attention_heads} heads; give a multiple"
            )
        if self.position not in get_args(Position):
            raise ConfigError(
                f"position {self.position!r} is not known; choose one of "
                f"{', '.join(get_args(Position))}"
            )


def encoding_of(config: DecoderConfig) -> PositionEncoding:
    """The encoding that a configuration names, with parameters of its own where it has some."""
    heads, width = config.num_attention_heads, config.hidden_size
    match config.position:
        case "sinusoidal":
            return Sinusoidal(width)
        case "learned":
            return Learned(config.trained_length, width)
        case "rope":
            return Rotary(spec.RotarySpec(config.head_dim, config.head_dim, config.rope_theta))
        case "alibi":
            return Alibi(heads)
        case "t5":
            return T5Bias(heads, bidirectional=False)
        case "raw_index":
            return RawIndex(width)
        case _:
            return NoPosition()


class Block(GradientCheckpointingLayer):
    """Norm, attention, norm, gated feed-forward; each adds to the residual stream."""

    def __init__(self, config: DecoderConfig, layer: int) -> None:
        """One block; `layer` is its number, under which it keeps keys and values."""
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.layer, self.heads = layer, config.num_attention_heads
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed_norm = nn.RMSNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, where: _Where) -> Tensor:
        """x (batch, sequence, hidden_size) after this block; the same shape."""
        x = x + self._attend(self.attention_norm(x), where)
        gate, value = self.up(self.feed_norm(x)).chunk(2, dim=-1)
        out: Tensor = x + self.down(functional.silu(gate) * value)
        return out

    def _attend(self, x: Tensor, where: _Where) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        if where.cache is not None:
            # Keys are kept un-rotated, so that any schedule may rotate them later.
            k, v = where.cache.update(k, v, self.layer)
        mixed = attention(
            q, k, v, where.encoding, position_ids=where.position_ids,
            k_position_ids=where.k_position_ids, segment_ids=where.segment_ids, mask=where.mask,
        )  # fmt: skip
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class _Where:
    """What every block is told of position, order and padding.

    `position_ids` and `attention_mask` are those of the call, or None. Raises UsageError for a
    mask or a cache that does not go with them.
    """

    def __init__(
        self,
        encoding: PositionEncoding,
        vectors: Tensor,
        position_ids: Tensor | None,
        cache: Any,
        segment_ids: Tensor | None,
        attention_mask: Tensor | None,
    ) -> None:
        self.cache, self.segment_ids = cache, segment_ids
        batch, length = vectors.shape[:2]
        past = 0 if cache is None else int(cache.get_seq_length())
        self.encoding = encoding
        if isinstance(encoding, Rotary) and encoding.needs_length and encoding.length is None:
            # The cache holds keys as they were before their rotation, so a schedule that moves on
            # with the length rotates all of them anew, by the same frequencies as the queries.
            self.encoding = encoding.at_length(past + length)
        if past and segment_ids is not None:
            raise UsageError(
                "segment_ids were given together with a cache; packed rows are read at once"
            )
        self.mask, padding = None, attention_mask
        if attention_mask is not None and attention_mask.dim() == 4:
            self.mask, padding = query_mask(attention_mask, length, past + length), None
        real = real_tokens(padding, batch, past + length)
        if position_ids is None:
            position_ids = _counted(real, past, vectors)
        self.mask = real if self.mask is None else self.mask
        self.k_position_ids: Tensor | None = None
        if cache is not None:
            position_ids = position_ids.expand(batch, -1)
            held = _cached_positions(cache, past, position_ids)
            every = torch.cat((held, position_ids), dim=1)
            setattr(cache, _POSITIONS, every)
            self.k_position_ids = every if past else None
        self.position_ids = position_ids


_POSITIONS = "ropewalk_position_ids"
"""Under this name a cache keeps the positions (batch, tokens) of the keys that it holds."""


def _counted(mask: Tensor | None, past: int, vectors: Tensor) -> Tensor:
    """Positions that count on from the cache; over real tokens where a mask says which."""
    if mask is not None:
        return position_ids_from_mask(mask)[:, past:]
    # One row for all sequences, so that a bias is made once and not for each of them.
    return torch.arange(past, past + vectors.shape[1], device=vectors.device)[None]


def _cached_positions(cache: Any, past: int, here: Tensor) -> Tensor:
    """Positions (batch, past) of the keys in a cache, as the calls that filled it had them.

    `here`: those of the tokens that follow, (batch, sequence).
    """
    batch = here.shape[0]
    held: Tensor = getattr(cache, _POSITIONS, here[:, :0])[:, :past]
    if held.shape[0] != batch and bool((held == held[:1]).all()):
        held = held[:1].expand(batch, -1)
    if tuple(held.shape) != (batch, past):
        raise UsageError(
            f"the cache holds {past} tokens of {batch} sequences and positions of "
            f"{tuple(held.shape)}; go on with a cache that this decoder has filled"
        )
    return held


class Decoder(PreTrainedModel, GenerationMixin):
    """The whole decoder. Token vectors are scaled by sqrt(hidden_size), as in the original
    transformer, whose table has variance 1/d; the head is the table itself.
    """

    config_class = DecoderConfig
    base_model_prefix = "decoder"
    _no_split_modules = ["Block"]  # noqa: RUF012 - as transformers declares it
    _tied_weights_keys = {"lm_head.weight": "embed_tokens.weight"}  # noqa: RUF012 - as above
    _supports_sdpa = True
    supports_gradient_checkpointing = True

    def __init__(self, config: DecoderConfig) -> None:
        """Random weights, drawn from torch's generator."""
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Block(config, n) for n in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=1e-6)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        # Last, and with random numbers of its own: under one seed, everything else starts with
        # the same weights whatever the encoding.
        with torch.random.fork_rng(devices=[]):
            self.position = encoding_of(config)
        self.post_init()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Tables with variance 1/d, matrices with 1/inputs, what adds to the stream smaller."""
        width, depth = self.config.hidden_size, 2 * self.config.num_hidden_layers
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=width**-0.5)
        elif isinstance(module, nn.Linear):
            std = module.in_features**-0.5
            nn.init.normal_(module.weight, std=std)
        elif isinstance(module, nn.RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, Block):
            for last in (module.out, module.down):
                nn.init.normal_(last.weight, std=(last.in_features * depth) ** -0.5)
        elif isinstance(module, Learned | T5Bias):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, RawIndex):
            module.reset_parameters()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        segment_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        return_dict: bool | None = None,
    ) -> Any:
        """Logits (batch, sequence or logits_to_keep, vocab_size), and an fp32 loss with `labels`.

        `input_ids` (batch, sequence) or `inputs_embeds` with hidden_size channels. Without
        `position_ids` tokens count on from what the cache holds, padding left out.
        `attention_mask` (batch, all tokens) is 0 at padding; with four dimensions it says which
        keys each query sees. `segment_ids` (batch, sequence) keeps packed documents apart. `labels`
        are shifted here; -100 is left out; the loss is their mean, or their sum over
        `num_items_in_batch`. `hidden_states`: every block's input and the last normed output.
        `return_dict=False` gives a tuple. Raises a UsageError for what does not fit.
        """
        cache = past_key_values if cache is None else cache
        inputs_embeds = self._vectors(input_ids, inputs_embeds)
        if use_cache and cache is None:
            cache = DynamicCache(config=self.config)
        where = _Where(
            self.position, inputs_embeds, position_ids, cache, segment_ids, attention_mask
        )
        x, states = self._through(inputs_embeds, where, bool(output_hidden_states))
        logits = self.lm_head(x[:, -logits_to_keep:] if logits_to_keep else x)
        loss = None if labels is None else _loss(logits, labels, num_items_in_batch)
        found = CausalLMOutputWithPast(
            loss=loss, logits=logits, hidden_states=states, **{_CACHE_FIELD: cache}
        )
        return found if return_dict in (None, True) else found.to_tuple()

    def set_rotary(self, rotary: spec.RotarySpec, length: int | None = None) -> None:
        """Go on with another rotary schedule, also while keys are cached.

        One that depends on length (dynamic, longrope) goes by `length` tokens or, without it, by
        the tokens so far: keys are cached un-rotated, so each step rotates all of them as it does
        its queries. (A cache of rotated keys takes `ropewalk.positions.rerotate` instead.)

        Nothing is trained. Raises ScheduleError where the decoder does not rotate, or heads have
        another size.
        """
        if not isinstance(self.position, Rotary) or rotary.head_dim != self.config.head_dim:
            raise ScheduleError(
                f"a schedule for heads of {rotary.head_dim} channels does not go with a decoder "
                f"under {self.config.position!r} with heads of {self.config.head_dim}"
            )
        self.position = Rotary(rotary, length=length)

    def _vectors(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        if input_ids is None and inputs_embeds is not None:
            return inputs_embeds
        if input_ids is None or inputs_embeds is not None:
            raise UsageError("give either input_ids or inputs_embeds, and not both")
        check_token_rows(input_ids, self.config.vocab_size)
        vectors: Tensor = self.embed_tokens(input_ids)
        return vectors

    def _through(
        self, embeds: Tensor, where: _Where, keep: bool
    ) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        x = embeds * math.sqrt(self.config.hidden_size)
        x = self.position.embed(x, where.position_ids)
        states = []
        for number, block in enumerate(self.layers):
            if number and self.config.reassert:
                x = self.position.embed(x, where.position_ids)
            if keep:
                states.append(x)
            x = block(x, where)
        x = self.norm(x)
        return x, (*states, x) if keep else None


_CACHE_FIELD = (
    "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
)
"""What the installed release of transformers calls the cache that a model returns."""


def _loss(logits: Tensor, labels: Tensor, items: Tensor | int | None) -> Tensor:
    """Cross-entropy in fp32 of the next token: the mean, or the sum over `items`."""
    told = logits[:, :-1].flatten(0, 1).float()
    how = "mean" if items is None else "sum"
    lost = functional.cross_entropy(told, labels[:, 1:].flatten(), ignore_index=-100, reduction=how)
    return lost if items is None else lost / items


def register() -> None:
    """Make AutoConfig and AutoModelForCausalLM know the decoder; calling twice does nothing."""
    AutoConfig.register(DecoderConfig.model_type, DecoderConfig, exist_ok=True)
    AutoModelForCausalLM.register(DecoderConfig, Decoder, exist_ok=True)
