"""A table whose rows are spread over the ranks of a device mesh, with torch's DTensor.

Every rank holds rows / ranks of the table and looks up the ids that fall into its part; a sum
over the ranks puts the rows together. torch's own row-wise style gives zeros for an id that no
rank has, and makes a tied head a parameter of its own; here ids are checked first, and the head
is tied again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ropewalk.errors import UsageError
from ropewalk.inputs import check_ids
from ropewalk.tables.module import TokenEmbedding

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


class RowParallelEmbedding(nn.Module):
    """`TokenEmbedding` with its rows over the ranks of `mesh`, of one dimension.

    The parameters of `table` become DTensors in place, `weight` and `bias` sharded by rows, and
    stay one table with the tied head. `head`, a linear layer that shared the table before, shares
    it afterwards. Every rank passes the same ids, and gets the same answer.

    Raises UsageError for a mesh of several dimensions, and for a head that is not tied: shard
    such a one by itself.
    """

    def __init__(
        self, table: TokenEmbedding, mesh: DeviceMesh, head: nn.Linear | None = None
    ) -> None:
        from torch.distributed.tensor import Shard, distribute_tensor

        super().__init__()
        if mesh.ndim != 1:
            raise UsageError(
                f"the mesh has {mesh.ndim} dimensions; rows are spread over one: pass one of its "
                "submeshes, such as mesh['tp']"
            )
        if head is not None and head.weight is not table.weight:
            raise UsageError(
                "the head does not share the table's parameter, so there is nothing to tie again; "
                "shard it by itself"
            )
        self.table, self.mesh = table, mesh
        for owner, name in ((table, "weight"), (table, "bias"), (head, "bias")):
            old = getattr(owner, name, None)
            if owner is not None and old is not None:
                spread = distribute_tensor(old.detach(), mesh, [Shard(0)])
                setattr(owner, name, nn.Parameter(spread, requires_grad=old.requires_grad))
        if head is not None:
            head.weight = table.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids, integers (batch, sequence) or (sequence,): scaled rows (..., d_model).

        A plain tensor, the same on every rank. Raises RowError on every rank, before any of
        them waits for another, for an id that the whole table has no row for.
        """
        from torch.distributed.tensor import DTensor, Replicate

        check_ids(ids, self.table.num_embeddings)
        alike = DTensor.from_local(ids.long(), self.mesh, [Replicate()], run_check=False)
        rows = nn.functional.embedding(alike, self.table.weight, self.table.padding_idx)
        full = _whole(rows)
        return full if self.table.scale is None else self.table.scale.apply(full)

    def logits(self, hidden: Tensor) -> Tensor:
        """The tied head: `hidden` (..., d_model), the same on every rank: (..., vocab_size).

        A plain tensor, gathered on every rank.
        """
        from torch.distributed.tensor import DTensor, Replicate

        alike = DTensor.from_local(hidden, self.mesh, [Replicate()], run_check=False)
        return _whole(self.table.logits(alike))


def _whole(spread: Tensor) -> Tensor:
    """A DTensor put together on every rank; the gradient goes back to where it belongs."""
    from torch.distributed.tensor import DTensor

    if not isinstance(spread, DTensor):
        raise TypeError(f"a DTensor was expected here, and {type(spread).__name__} came")
    full: Tensor = spread.full_tensor()
    return full


def local_rows(table: TokenEmbedding) -> int:
    """How many rows of the table this rank holds; all of them for a table that is not spread."""
    from torch.distributed.tensor import DTensor

    weight: torch.Tensor = table.weight
    return len(weight.to_local()) if isinstance(weight, DTensor) else len(weight)
