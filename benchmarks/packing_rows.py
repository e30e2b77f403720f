"""What packed rows cost: attention over one of them, and training on them beside padded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

from benchmarks.closing import Row
from benchmarks.cpu_timing import measure
from ropewalk.attention import attention
from ropewalk.attention.packed import register
from ropewalk.packing.layout import Layout, block_mask
from ropewalk.packing.pack import PackedBatch, PackedRow, pack, stack
from ropewalk.positions.nope import NoPosition

Ids = np.ndarray[Any, Any]


def attended(ids: list[Ids], length: int, *, small: bool) -> Iterator[Row]:
    """Times that peers take over one packed row, by what `ropewalk.attention` takes, in float32.

    8 heads of 64 channels. Plain causal attention, which lets documents see each other, is the
    floor of anything that computes all scores below the diagonal. All others are asserted equal.
    """
    fitting = [one for one in ids if 16 <= len(one) <= length]
    Random(1).shuffle(fitting)
    layout = next(row.layout for row in pack(fitting[:400], length) if len(row.layout.pieces) > 2)
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 8, length, 64, requires_grad=True) for _ in range(3))
    order, segment_ids, mask = torch.arange(length), layout.segment_ids(), layout.mask()
    blocks = block_mask([layout])
    fused: Any = torch.compile(flex_attention)
    sdpa = functional.scaled_dot_product_attention
    ours, causal = "ours", "plain causal"
    ways: dict[str, Callable[[], Tensor]] = {
        ours: lambda: attention(q, k, v, NoPosition(), position_ids=order, segment_ids=segment_ids),
        "SDPA with the mask": lambda: sdpa(q, k, v, attn_mask=mask),
        causal: lambda: sdpa(q, k, v, is_causal=True),
    }
    # On a CPU it refuses tensors that ask for gradients, whether any are taken or not.
    plain = [each.detach() for each in (q, k, v)]
    forward = ways | {"FlexAttention, compiled": lambda: fused(*plain, block_mask=blocks)}
    kept = segment_ids >= 0
    name = f"attention, {length} tokens in {len(layout.pieces)} documents"
    rounds = 3 if small else 12
    with torch.no_grad():
        expected = forward[ours]()[:, :, kept]
        for way, run in forward.items():
            if way != causal:
                torch.testing.assert_close(run()[:, :, kept], expected, atol=1e-5, rtol=1e-4)
        times = measure(forward, rounds)
    yield Row(f"{name}: ours", 1000 * times.median(ours), "ms")
    for way in forward:
        if way != ours:
            reach = None if way == causal else 1
            yield Row(f"{name}: {way}, times ours", times.ratio(way, ours), "", reach)

    def both_ways(run: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(run()[:, :, kept].sum(), (q, k, v))

    times = measure({way: both_ways(run) for way, run in ways.items()}, rounds)
    for way in ways:
        if way != ours:
            reach = None if way == causal else 1
            value = times.ratio(way, ours)
            yield Row(f"{name}, with gradients: {way}, times ours", value, "", reach)


def trained(ids: list[Ids], length: int, *, small: bool) -> Iterator[Row]:
    """Tokens a second of training, with activations kept: packed against padded rows.

    Padded rows need no mask, since what is behind a text is not seen; packed rows have one, or go
    through attention document by document. The packed rows' losses are asserted to be equal.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, vocabulary = 4, 512 if small else 4096
    fitting = [one % vocabulary for one in ids if 16 <= len(one) <= length]
    Random(1).shuffle(fitting)
    padded = stack([_alone(one, length) for one in fitting[:rows]])
    # As many rows, of the documents that come next, so that a step is as large.
    together = stack(list(pack(fitting[:400], length))[:rows])
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=192, intermediate_size=512, num_hidden_layers=4,
            num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=length,
        )
    )  # fmt: skip
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    mask = torch.stack([layout.mask() for layout in together.layouts])[:, None]
    offsets = together.varlen.transformers()

    def loss(batch: PackedBatch, attention: str, **apart: Any) -> Tensor:
        model.set_attn_implementation(attention)
        done: Tensor = model(
            batch.input_ids, position_ids=batch.position_ids, labels=batch.labels,
            use_cache=False, **apart,
        ).loss  # fmt: skip
        return done

    def step(batch: PackedBatch, attention: str, **apart: Any) -> None:
        loss(batch, attention, **apart).backward()
        optimiser.step()
        optimiser.zero_grad()

    one = register()
    with torch.no_grad():
        masked = loss(together, "sdpa", attention_mask=mask)
        torch.testing.assert_close(loss(together, one, **offsets), masked, atol=1e-5, rtol=0)
    ways: dict[str, tuple[PackedBatch, Callable[[], None]]] = {
        "padded rows": (padded, lambda: step(padded, "sdpa")),
        "packed rows, masked": (together, lambda: step(together, "sdpa", attention_mask=mask)),
        "packed rows, document by document": (together, lambda: step(together, one, **offsets)),
    }
    times = measure({name: run for name, (_, run) in ways.items()}, 3 if small else 12)
    name = f"training, {length}"
    for way, (batch, _) in ways.items():
        yield Row(f"{name}: {way}", _tokens(batch) / times.median(way), "tokens/s")
    filled = _tokens(together) / _tokens(padded)
    yield Row(f"{name}: fill of the packed rows by that of the padded", filled)
    for way, reach in (("masked", None), ("document by document", 1)):
        gain = filled * times.ratio("padded rows", f"packed rows, {way}")
        yield Row(f"{name}: packed by padded, {way}, times", gain)
        yield Row(f"{name}: that, by the ratio of fills, {way}", gain / filled, "", reach)


def _alone(ids: Ids, length: int) -> PackedRow:
    row = np.zeros(length, dtype=np.int32)
    row[: len(ids)] = ids
    return PackedRow(row, Layout.of([len(ids)], length))


def _tokens(batch: PackedBatch) -> int:
    return sum(sum(layout.seq_lens) for layout in batch.layouts)
