"""The processes of a run, and a model cut over them with torch's FSDP2.

`torchrun` starts the processes and says in the environment who each one is. Without it there is
one, no process group, and nothing is sharded.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropewalk.errors import ModelFileError, UsageError
from ropewalk.short import short

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

WAIT = datetime.timedelta(hours=12)
"""How long processes wait for one another: the first one measures while the others wait."""


@short
@dataclass(frozen=True, slots=True)
class World:
    """This process: number `rank` of `size`, on `device`."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there is a process group."""
        return self.size > 1

    def sum(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all processes, on each of them."""
        if self.several:
            import torch.distributed as dist

            value = value.clone()
            dist.all_reduce(value)
        return value

    def gather(self, value: Any) -> list[Any]:
        """One value of each process, on all of them."""
        if not self.several:
            return [value]
        import torch.distributed as dist

        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def agree(self, value: Any) -> Any:
        """What the first process has, on all of them."""
        return self.gather(value)[0]


@contextmanager
def joined(device: str) -> Iterator[World]:
    """This process in the world that torchrun made, or alone; the group is left at the end.

    Raises UsageError for a device that is not there, or fewer GPUs than processes.
    """
    import torch
    import torch.distributed as dist

    from ropewalk.models.load import check_device

    size, rank, local = (_number(name) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
    chosen, _ = check_device(device, "fp32")
    if size < 2:
        yield World(0, 1, chosen)
        return
    if chosen.type == "cuda":
        if local >= torch.cuda.device_count():
            raise UsageError(
                f"process {local} on this machine has no GPU of its own: there are "
                f"{torch.cuda.device_count()}; give torchrun --nproc-per-node that number"
            )
        chosen = torch.device("cuda", local)
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=WAIT)
    _groups.append(size)
    try:
        yield World(rank, size, chosen)
    finally:
        dist.destroy_process_group()


_groups: list[int] = []
"""How many processes each group had that this process was in."""


def leave(status: int) -> None:
    """End this process at once if it was one of several; otherwise do nothing.

    A group's threads outlive `destroy_process_group`, since caches of torch hold the group. One of
    them that drops its last tensor while the interpreter is taken down asks for a lock that is no
    longer given, and the process ends in SIGABRT with its work done (seen in 2 of 300 runs).
    """
    if _groups:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status)


def _number(name: str) -> int:
    text = os.environ.get(name, "0")
    if not text.isdigit():
        raise UsageError(f"{name}={text!r} in the environment is no number; start with torchrun")
    return int(text)


def shard(model: nn.Module, causal: Any, world: World, dtype: torch.dtype) -> None:
    """Cut every block of `causal`, and then the rest of `model`, over the processes, in place.

    Weights stay in the type they have; a block computes in `dtype`, and gradients are summed in
    float32. Raises ModelFileError for a model without blocks, and where a parameter is not cut
    afterwards: accelerate falls back to whole copies on a CPU without a word, and nothing here
    may.
    """
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor

    names = set(causal._no_split_modules or ())
    blocks = [each for each in causal.modules() if type(each).__name__ in names]
    if not blocks:
        raise ModelFileError(
            f"{type(causal).__name__} does not say which of its modules are blocks, so it cannot "
            "be cut over processes; start without torchrun"
        )
    mesh = init_device_mesh(world.device.type, (world.size,))
    policy = MixedPrecisionPolicy(
        param_dtype=None if dtype == torch.float32 else dtype, reduce_dtype=torch.float32
    )
    tied = _is_tied(causal)
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    if tied and not _is_tied(causal):
        causal.get_output_embeddings().weight = causal.get_input_embeddings().weight
    whole = [name for name, each in model.named_parameters() if not isinstance(each, DTensor)]
    if whole:
        raise ModelFileError(
            f"{len(whole)} parameters of {type(causal).__name__} are not cut over the processes, "
            f"such as {whole[0]}; start without torchrun"
        )


def _is_tied(causal: Any) -> bool:
    head, table = causal.get_output_embeddings(), causal.get_input_embeddings()
    return head is not None and head.weight is table.weight


def gathered(model: nn.Module, world: World) -> dict[str, Tensor]:
    """Every parameter and kept buffer whole, on the CPU of the first process; {} on the others."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    found: dict[str, Any] = get_model_state_dict(model, options=options)
    return found if world.first else {}
