"""What a transformers model itself shows of its input path and its layers, through hooks.

Nothing in the model is changed. Module outputs and block inputs come from torch's hooks; queries
and keys are those that the model hands to `scaled_dot_product_attention`, after rotation.
`layer_states` keeps the states of every token, layer by layer, so that the last block's own output
is seen beside what the norm behind it makes of it (transformers' `output_hidden_states` gives one
of the two).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from ropewalk.errors import ModelFileError
from ropewalk.packing.table_rows import check_rows
from ropewalk.short import short

if TYPE_CHECKING:
    from collections.abc import Iterator

_POSITIONS = ("wpe", "position_embeddings", "position_embedding", "embed_positions")
_TYPES = ("token_type_embeddings",)
_NORMS = ("LayerNorm", "word_embeddings_layernorm", "layernorm_embedding")
_BIASES = ("alibi", "position_bias")
"""How models of transformers call the parts before their blocks, and ALiBi inside them."""

RUNNING_ERRORS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError)
"""What models of transformers raise for inputs that their code does not take."""


@short
@dataclass(frozen=True, slots=True)
class Parts:
    """The modules of the input path; None where the model has none of a kind."""

    tokens: nn.Module
    positions: nn.Module | None
    types: nn.Module | None
    norm: nn.Module | None
    blocks: nn.ModuleList

    def named(self) -> Iterator[tuple[str, nn.Module]]:
        """The modules before the blocks, by their names here."""
        for name in ("tokens", "positions", "types", "norm"):
            module = getattr(self, name)
            if module is not None:
                yield name, module

    def check_rows(self, ids: Sequence[int], tokenizer: Any, where: str) -> None:
        """Raise RowError for an id that the table of tokens has no row for, of what `where`
        names.
        """
        weight = self.tokens.weight
        # What is no plain table is refused where its rows are wanted.
        if isinstance(weight, Tensor) and weight.dim() == 2:
            check_rows(ids, len(weight), tokenizer.convert_ids_to_tokens, where)


@short
@dataclass(slots=True)
class Seen:
    """What one pass showed.

    `outputs`: of the modules before the blocks, (1, sequence, d_model) as a rule. `inputs`: of the
    blocks by index, (1, sequence, d_model). `queries` and `keys`: of the blocks by index,
    (1, heads, sequence, head_dim), after rotation; none of blocks whose attention is computed
    without `scaled_dot_product_attention`. `bias`: ALiBi's, as the first block receives it.
    """

    outputs: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    queries: dict[int, Tensor] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)
    bias: Tensor | None = None


def find_parts(model: Any, name: str) -> Parts:
    """The modules of the input path of `model`, called `name` in errors.

    Raises ModelFileError where the blocks are not one list, as in an encoder with a decoder.
    """
    config = model.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        raise ModelFileError(
            f"{name} is an encoder with a decoder; only models with one stack of blocks are traced"
        )
    count = getattr(config, "num_hidden_layers", None)
    stack = getattr(model, "language_model", model)
    for path, module in stack.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            before = [p for p in stack.named_modules() if not f"{p[0]}.".startswith(f"{path}.")]
            return Parts(
                tokens=model.get_input_embeddings(),
                positions=_first(before, _POSITIONS),
                types=_first(before, _TYPES),
                norm=_first(before, _NORMS) or dict(before).get("embeddings.norm"),
                blocks=module,
            )
    raise ModelFileError(
        f"{name} ({type(model).__name__}) does not keep its {count} blocks in one list, so what "
        "goes into the first of them cannot be seen"
    )


def _first(modules: Iterable[tuple[str, nn.Module]], names: tuple[str, ...]) -> nn.Module | None:
    return next((m for path, m in modules if path.rsplit(".", 1)[-1] in names), None)


def watch(
    model: Any,
    parts: Parts,
    ids: Tensor,
    position_ids: Tensor | None = None,
    given: Mapping[int, Tensor] | None = None,
) -> Seen:
    """Run `ids` (1, sequence) and return what was seen.

    `position_ids` (1, sequence) go to the model where given. `given` blocks receive these
    inputs instead of their own, so that only position differs from an earlier pass.
    """
    seen, attention = Seen(), _Attention()
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if position_ids is not None:
        inputs["position_ids"] = position_ids
    with ExitStack() as stack:
        for name, module in parts.named():
            stack.enter_context(module.register_forward_hook(_keep(seen, name)))
        for index, block in enumerate(parts.blocks):
            replaced = (given or {}).get(index)
            enter = _enter(seen, attention, index, replaced)
            stack.enter_context(block.register_forward_pre_hook(enter, with_kwargs=True))
        stack.enter_context(attention)
        stack.enter_context(torch.inference_mode())
        try:
            model(**inputs)
        except RUNNING_ERRORS as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelFileError(
                f"{type(model).__name__} cannot be run on {ids.shape[-1]} tokens: {reason}"
            ) from error
    seen.queries, seen.keys = attention.queries, attention.keys
    return seen


class _Attention(TorchFunctionMode):
    """Keeps the first query and key tensors that each block hands to attention."""

    def __init__(self) -> None:
        super().__init__()
        self.block = -1
        self.queries: dict[int, Tensor] = {}
        self.keys: dict[int, Tensor] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is scaled_dot_product_attention and self.block not in self.queries:
            given = {**kwargs, **dict(zip(("query", "key"), args, strict=False))}
            self.queries[self.block], self.keys[self.block] = given["query"], given["key"]
        return func(*args, **kwargs)


def _keep(seen: Seen, name: str) -> Callable[..., None]:
    def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            seen.outputs.setdefault(name, output)

    return hook


def _enter(
    seen: Seen, attention: _Attention, index: int, replaced: Tensor | None
) -> Callable[..., Any]:
    def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        attention.block = index
        by_name = not args
        x = kwargs["hidden_states"] if by_name else args[0]
        seen.inputs[index] = x
        for name in _BIASES:
            if index == 0 and isinstance(kwargs.get(name), Tensor):
                seen.bias = kwargs[name]
        if replaced is None:
            return None
        if by_name:
            return args, {**kwargs, "hidden_states": replaced}
        return (replaced, *args[1:]), kwargs

    return hook


TABLE = "table"
INPUT = "layer 0"
FINAL = "final norm"
"""Rows of the input table alone; what the first block receives; behind the last block."""


@short
@dataclass(frozen=True, slots=True)
class States:
    """`names[i]` says where `values[i]`, (batch, sequence, d_model), stands."""

    names: tuple[str, ...]
    values: tuple[Tensor, ...]


@dataclass(slots=True)
class _Kept:
    first: Tensor | None = None
    outputs: dict[int, Tensor] = field(default_factory=dict)


def layer_states(model: Any, parts: Parts, ids: Tensor, mask: Tensor | None = None) -> States:
    """The states of `ids` (batch, sequence) in the table, before, between and behind the blocks.

    `mask` (batch, sequence) is 1 for tokens and 0 for padding; None is no padding. A norm behind
    the last block is left out where the model has none. Raises ModelFileError for what cannot be
    run, for blocks that do not hand on one state for each token, and for NaN or infinity.
    """
    kept = _Kept()
    mask = torch.ones_like(ids) if mask is None else mask
    with ExitStack() as stack:
        enter = parts.blocks[0].register_forward_pre_hook(_keep_input(kept), with_kwargs=True)
        stack.enter_context(enter)
        for index, block in enumerate(parts.blocks):
            stack.enter_context(block.register_forward_hook(_keep_output(kept, index)))
        stack.enter_context(torch.inference_mode())
        try:
            out = model(input_ids=ids, attention_mask=mask)
            rows = nn.functional.embedding(ids, _table(model, parts))
        except RUNNING_ERRORS as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise ModelFileError(
                f"{type(model).__name__} cannot be run on {ids.shape[-1]} tokens: {reason}"
            ) from error
    names, values = [TABLE, INPUT], [rows, kept.first]
    for index in sorted(kept.outputs):
        names.append(f"block {index + 1}")
        values.append(kept.outputs[index])
    last, before = out.last_hidden_state, values[-1]
    if before is None or not torch.equal(last, before):
        names.append(FINAL)
        values.append(last)
    return States(
        tuple(names),
        tuple(_checked(model, n, v, ids, mask) for n, v in zip(names, values, strict=True)),
    )


def _table(model: Any, parts: Parts) -> Tensor:
    weight = parts.tokens.weight
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        raise ModelFileError(
            f"{type(model).__name__} has no plain table of token vectors that could be looked up"
        )
    return weight


def _checked(model: Any, name: str, value: Tensor | None, ids: Tensor, mask: Tensor) -> Tensor:
    if value is not None and value.dim() == 2 and len(ids) == 1:
        value = value[None]
    if value is None or value.dim() != 3 or value.shape[:2] != ids.shape:
        shape = None if value is None else tuple(value.shape)
        raise ModelFileError(
            f"{type(model).__name__} hands on {shape} at {name} where one state for each of "
            f"{ids.shape[-1]} tokens was expected, so its layers cannot be set side by side"
        )
    if not bool(torch.isfinite(value[mask.bool()]).all()):
        raise ModelFileError(
            f"{type(model).__name__} computes NaN or infinity at {name}; its weights are damaged, "
            "or too large for this dtype"
        )
    return value.detach()


def _keep_input(kept: _Kept) -> Callable[..., None]:
    def hook(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("hidden_states")
        kept.first = x if isinstance(x, Tensor) else None

    return hook


def _keep_output(kept: _Kept, index: int) -> Callable[..., None]:
    def hook(_module: Any, _args: Any, output: Any) -> None:
        first = output[0] if isinstance(output, tuple | list) and output else output
        if isinstance(first, Tensor):
            kept.outputs[index] = first

    return hook
