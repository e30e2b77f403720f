"""How much memory is left, and whether it has just run out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out; torch is told by names, so that it need not be imported.

    torch raises OutOfMemoryError on accelerators, and on CPUs a RuntimeError of its
    DefaultCPUAllocator.
    """
    if isinstance(error, MemoryError):
        return True
    if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def free_memory(device: torch.device) -> int | None:
    """Free bytes on a device, None when this system does not say."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - not a real file
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def give_back() -> None:
    """Let go of what torch keeps for later on GPUs, after something did not fit."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
