"""Which kernel computes an attention, why, and what it costs: decided here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.errors import UsageError
from ropewalk.short import short, sized

Kernel = Literal["auto", "sdpa", "flex"]
"""What may be asked for; "auto" chooses."""

Path = Literal[
    "sdpa", "by document", "masked sdpa", "features", "masked features", "dense bias", "flex"
]  # fmt: skip


FEW_QUERIES = 32
"""Below this many queries a dense bias is no burden, and features would have to be padded."""

FEW_TOKENS = 32
"""With documents shorter than this on average, so many calls of the kernel cost more than a mask
saves.
"""


@short
@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """The way an attention is computed, in words.

    `path` is one of seven: SDPA as it is, SDPA on each document by itself, SDPA with a mask, the
    first and the third with the bias as features, SDPA with the bias as a matrix, FlexAttention.
    """

    path: Path
    reason: str
    cost: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}. {self.cost}."


@short
@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the choice depends on. `shape`: (batch, heads, q_length, k_length).

    `bias`: none, one that factors into features, one that depends on head and distance alone
    (and so can be fused), or any other. `trains`: gradients will be asked for. `whole`: no key
    is kept from a query but by the order of the row. `documents`: how many could each go through
    the kernel by itself, or 0. `bias_rows`: 1, or the batch. `bias_bytes`: of each of the bias's
    numbers, 4 or 8.
    """

    shape: tuple[int, int, int, int]
    bias: Literal["none", "factored", "relative", "general"]
    whole: bool
    trains: bool
    device: str
    kernel: Kernel
    can_fuse: bool
    documents: int = 0
    mask_rows: int = 1
    mask_heads: int = 1
    bias_rows: int = 1
    bias_bytes: int = 4


def choose(needs: Needs) -> AttentionPlan:
    """The plan for these needs. Raises UsageError where the kernel asked for cannot serve."""
    if needs.kernel not in ("auto", "sdpa", "flex"):
        raise UsageError(f"kernel is {needs.kernel!r}; allowed: 'auto', 'sdpa', 'flex'")
    if needs.kernel == "flex":
        return _flex(needs, "asked for")
    on_gpu = needs.kernel == "auto" and needs.device == "cuda"
    if on_gpu and needs.bias == "relative":
        return _flex(needs, "the bias depends on head and distance alone, and can be fused")
    if on_gpu and not needs.whole and needs.can_fuse and needs.shape[2] > 1:
        return _flex(needs, "a mask of blocks skips what no query sees")
    if needs.bias == "none":
        return _plain(needs)
    if needs.bias == "factored" and needs.shape[2] >= FEW_QUERIES:
        return _features(needs)
    return _dense(needs)


def _plain(needs: Needs) -> AttentionPlan:
    if needs.whole:
        return AttentionPlan(
            "sdpa", "the encoding adds nothing to the scores", "no matrix of length x length"
        )
    if 0 < needs.documents * FEW_TOKENS <= needs.shape[0] * needs.shape[2]:
        return AttentionPlan(
            "by document", "documents lie one behind another, and nothing else keeps a key away",
            f"{needs.documents} calls of the kernel, no score between documents",
        )  # fmt: skip
    return AttentionPlan(
        "masked sdpa", "documents, a window, a mask or cached keys decide who sees whom",
        _mask_cost(needs),
    )  # fmt: skip


def _features(needs: Needs) -> AttentionPlan:
    reason = "the bias is a product of query and key features, put before the head's channels"
    if needs.whole:
        return AttentionPlan("features", reason, "no matrix of length x length")
    return AttentionPlan("masked features", reason, _mask_cost(needs))


def _dense(needs: Needs) -> AttentionPlan:
    rows, (_, heads, q_length, k_length) = needs.bias_rows, needs.shape
    why = "the bias does not factor into features"
    if needs.bias == "factored":
        why = f"with fewer than {FEW_QUERIES} queries features would cost more than they save"
    elif needs.bias == "general":
        why += " and depends on more than the distance, so it cannot be fused either"
    elif needs.device == "cpu" and needs.trains:
        why += ", and FlexAttention has no backward pass on CPUs"
    elif needs.device == "cpu":
        why += "; FlexAttention would first compile for seconds, ask for it with kernel='flex'"
    cost = (
        f"A bias of {rows} x {heads} x {q_length} x {k_length} in "
        f"fp{8 * needs.bias_bytes}, {sized(needs.bias_bytes * rows * heads * q_length * k_length)}"
    )
    if needs.device != "cpu":
        cost += ", handed over in the dtype of the queries"
    if needs.trains:
        cost += ", and as much several times over for the backward pass"
    return AttentionPlan("dense bias", why, cost)


def _flex(needs: Needs, why: str) -> AttentionPlan:
    if needs.device == "cpu" and needs.trains:
        raise UsageError(
            "FlexAttention has no backward pass on CPUs; leave kernel at 'auto', or call it "
            "under torch.no_grad()"
        )
    if not needs.can_fuse:
        raise UsageError(
            "this encoding's bias depends on more than head and distance, and FlexAttention "
            "cannot compute it; leave kernel at 'auto'"
        )
    return AttentionPlan("flex", why, "compiled on first use; no matrix of length x length")


def _mask_cost(needs: Needs) -> str:
    rows, heads, (_, _, q_length, k_length) = needs.mask_rows, needs.mask_heads, needs.shape
    return (
        f"A mask of {rows} x {heads} x {q_length} x {k_length} bools, "
        f"{sized(rows * heads * q_length * k_length)}"
    )
