"""Packed rows document by document, against each document alone through transformers' own path."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ropewalk.attention import attention
from ropewalk.attention.packed import NAME, packed_attention, register
from ropewalk.errors import UsageError
from ropewalk.packing.layout import Layout
from ropewalk.packing.pack import PackedBatch, PackedRow, stack
from ropewalk.positions.nope import NoPosition
from ropewalk.rope.spec import Window
from tests.attention.conftest import plan_of

SIZES = ((5, 1, 12), (11, 6))
LENGTH = 20


def batch() -> PackedBatch:
    """Two rows of 20 tokens, with a document of one token, and padding behind."""
    random = torch.Generator().manual_seed(1)
    rows = [
        PackedRow(
            torch.randint(2, 90, (LENGTH,), generator=random, dtype=torch.int32).numpy(),
            Layout.of(list(sizes), LENGTH),
        )
        for sizes in SIZES
    ]
    return stack(rows)


def model(kind: str, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    size = {
        "vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0,
        "initializer_range": 0.3,
    }  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(size | changes))).eval()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("llama", {}),
        ("llama", {"num_key_value_heads": 4}),
        # A window shorter than two of the documents, and in every second layer alone.
        ("mistral", {"sliding_window": 4}),
        ("gemma3_text",
         {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    ],
)  # fmt: skip
def test_logits_and_gradients_are_those_of_each_document_alone(
    kind: str, changes: dict[str, Any]
) -> None:
    made, rows = model(kind, **changes), batch()
    weight = made.get_input_embeddings().weight
    expected = []
    for row, layout in enumerate(rows.layouts):
        for start, size in zip(layout.starts, layout.seq_lens, strict=True):
            ids = rows.input_ids[row, start : start + size][None]
            expected.append(made(ids, use_cache=False).logits[0])
    alone = torch.cat(expected)
    alone.square().sum().backward()
    gradient = weight.grad.clone()
    weight.grad = None

    made.set_attn_implementation(register())
    kept = rows.segment_ids >= 0
    packed = made(
        rows.input_ids,
        position_ids=rows.position_ids,
        use_cache=False,
        **rows.varlen.transformers(),
    ).logits[kept]
    packed.square().sum().backward()
    torch.testing.assert_close(packed, alone, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(weight.grad, gradient, atol=1e-3, rtol=1e-4)


def test_without_offsets_each_row_is_one_causal_text() -> None:
    made, rows = model("llama"), batch()
    expected = made(rows.input_ids, use_cache=False).logits
    made.set_attn_implementation(register())
    got = made(rows.input_ids, use_cache=False).logits
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_no_number_of_one_document_enters_the_next_not_even_times_zero() -> None:
    # A masked score of NaN is still NaN in the sum; here there is none.
    q, k, v = (torch.randn(1, 2, 8, 4) for _ in range(3))
    offsets = torch.tensor([0, 3, 8], dtype=torch.int32)
    k[:, :, :3] = v[:, :, :3] = float("nan")
    found, weights = packed_attention(None, q, k, v, cu_seq_lens_q=offsets)
    assert weights is None
    assert found.shape == (1, 8, 2, 4)
    assert found[:, :3].isnan().all()
    assert not found[:, 3:].isnan().any()
    seen = torch.tensor([0] * 3 + [1] * 5)
    mask = (seen[:, None] == seen) & torch.ones(8, 8, dtype=torch.bool).tril()
    masked = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert masked[:, :, 3:].isnan().any()


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ([], r"cu_seq_lens_q is \[\]; offsets rise from 0 to 8"),
        ([0, 8, 4, 8], r"is \[0, 8, 4, 8\]; offsets rise from 0 to 8, the tokens of 2 rows of 4"),
        ([0, 4, 4, 8], "offsets rise"),
        ([1, 4, 8], "offsets rise"),
        ([0, 4, 7], "offsets rise"),
        ([0, 3, 8], "has no offset 4, where a row of 4 tokens begins"),
    ],
)
def test_offsets_that_do_not_cover_the_rows_are_refused(offsets: list[int], said: str) -> None:
    q = torch.zeros(2, 1, 4, 8)
    with pytest.raises(UsageError, match=said):
        packed_attention(None, q, q, q, cu_seq_lens_q=torch.tensor(offsets, dtype=torch.int32))


def test_what_it_would_leave_out_is_refused() -> None:
    ids = torch.ones(1, 6, dtype=torch.long)
    made = model("llama")
    made.set_attn_implementation(register())
    assert made.config._attn_implementation == NAME
    with pytest.raises(UsageError, match="packed rows have no cache; give use_cache=False"):
        made.generate(ids, max_new_tokens=2, do_sample=False)
    with pytest.raises(UsageError, match=r"a mask of \(1, 1, 6, 6\) was given"):
        made(ids, attention_mask=torch.ones(1, 1, 6, 6, dtype=torch.bool), use_cache=False)
    capped = model("gemma2", attn_logit_softcapping=20.0, sliding_window=64)
    capped.set_attn_implementation(NAME)
    with pytest.raises(UsageError, match="Gemma2Attention attends with softcap"):
        capped(ids, use_cache=False)
    sunk = model("gpt_oss", num_local_experts=2, num_experts_per_tok=1, rope_parameters=None)
    sunk.set_attn_implementation(NAME)
    with pytest.raises(UsageError, match="GptOssAttention attends with s_aux"):
        sunk(ids, use_cache=False)
    q = torch.zeros(1, 1, 4, 8)
    with pytest.raises(UsageError, match="SimpleNamespace is not causal, and packed rows are"):
        packed_attention(SimpleNamespace(is_causal=False), q, q, q)


IDS = torch.arange(128)
PACKED = torch.cat([torch.full((60,), 3), torch.full((68,), 1)])


def drawn(rows: int = 2) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    q = torch.randn(rows, 4, 128, 8, requires_grad=True)
    k, v = (torch.randn(rows, 2, 128, 8, requires_grad=True) for _ in range(2))
    return q, k, v


def apart(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, segment_ids: torch.Tensor
) -> torch.Tensor:
    """The definition, in double: softmax over the keys of one's own document up to oneself."""
    k, v = (each.repeat_interleave(2, 1) for each in (k, v))
    scores = q.double() @ k.double().transpose(-1, -2) / 8**0.5
    seen = (segment_ids[:, None] == segment_ids[None, :]) & torch.ones(128, 128).tril().bool()
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), -1) @ v.double()


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("each", [True, False])
def test_attention_takes_documents_one_at_a_time_and_gives_the_definition(
    rows: int, *, each: bool
) -> None:
    q, k, v = drawn(rows)
    segment_ids = PACKED.expand(rows, -1) if each else PACKED
    # Positions of their own for each row do not make documents of their own.
    options: dict[str, Any] = {"position_ids": IDS.expand(rows, -1), "segment_ids": segment_ids}
    plan = plan_of(q, k, v, NoPosition(), **options)
    assert plan.path == "by document"
    assert f"{2 * rows} calls of the kernel" in plan.cost
    found = attention(q, k, v, NoPosition(), **options)
    exact = apart(q, k, v, PACKED)
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=1e-5)
    wanted = torch.autograd.grad(exact.square().sum(), (q, k, v))
    for got, want in zip(torch.autograd.grad(found.square().sum(), (q, k, v)), wanted, strict=True):
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"segment_ids": torch.where(IDS < 100, PACKED, 3)},
        {"segment_ids": IDS // 16},
        {"window": Window(50)},
        {"mask": torch.ones(2, 128, dtype=torch.bool)},
        {"causal": False},
    ],
    ids=["a document in two pieces", "short documents", "a window", "a mask", "both ways"],
)
def test_where_more_decides_than_documents_one_behind_another_a_mask_does(
    changes: dict[str, Any],
) -> None:
    q, k, v = drawn()
    options: dict[str, Any] = {"position_ids": IDS, "segment_ids": PACKED} | changes
    assert plan_of(q, k, v, NoPosition(), **options).path == "masked sdpa"


def test_a_document_in_two_pieces_sees_itself() -> None:
    q, k, v = drawn()
    segment_ids = torch.where(IDS < 100, PACKED, 3)
    found = attention(q, k, v, NoPosition(), position_ids=IDS, segment_ids=segment_ids)
    torch.testing.assert_close(found.double(), apart(q, k, v, segment_ids), atol=1e-5, rtol=1e-5)


def test_documents_compile_without_a_break() -> None:
    q, k, v = (each.detach() for each in drawn())

    def run(segment_ids: torch.Tensor) -> torch.Tensor:
        return attention(q, k, v, NoPosition(), position_ids=IDS, segment_ids=segment_ids)

    compiled = torch.compile(run, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(PACKED), run(PACKED), atol=1e-5, rtol=1e-5)
