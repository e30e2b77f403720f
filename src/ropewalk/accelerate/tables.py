"""Whether the tables that a model makes hold the two copies of each pair equal.

Most rotary functions read a table that holds every pair twice, and the kernels read it once. That
the copies are equal is a property of the module that makes the tables, so it is tried out once,
on a copy of that module, with positions that differ on every axis.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ropewalk.accelerate.probe import REFUSALS
from ropewalk.accelerate.rules import Repeat, has_equal_copies

_LENGTH = 5


class TableTrials:
    """Asks of the modules of one model whether their tables hold equal copies, each maker once."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._known: dict[tuple[nn.Module, Repeat], bool] = {}

    def copies_are_equal(self, name: str, repeat: Repeat) -> bool:
        """Whether the module of the model called `name` gets tables whose copies are equal.

        The maker of its tables is looked for beside it and beside each module around it, the
        nearest first. False where there is none, or none that could be tried: then nothing is
        known.
        """
        parts = name.split(".") if name else []
        for depth in range(len(parts), -1, -1):
            around = self._model.get_submodule(".".join(parts[:depth]))
            makers = [child for child in around.children() if _makes_tables(child)]
            if makers:
                return all(self._once(maker, repeat) for maker in makers)
        return False

    def _once(self, maker: nn.Module, repeat: Repeat) -> bool:
        key = (maker, repeat)
        if key not in self._known:
            self._known[key] = _tried(maker, repeat)
        return self._known[key]


def _makes_tables(module: nn.Module) -> bool:
    """Whether a module is, by its name, one that makes rotary tables."""
    # With its capital: "solaropen" holds "rope", and is a name of layers.
    return re.search(r"Rotary|RoPE|Rope(?![a-z])", type(module).__name__) is not None


def _tried(maker: nn.Module, repeat: Repeat) -> bool:
    """Whether every table that the maker made in the trials has equal copies, and it made one."""
    buffers = list(maker.buffers())
    if any(buffer.is_meta for buffer in buffers):
        return False
    device = buffers[0].device if buffers else torch.device("cpu")
    made = list(_made(copy.deepcopy(maker), device))
    return bool(made) and all(has_equal_copies(tables, repeat) for tables in made)


def _made(maker: nn.Module, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """The tables (1, length, width) of the trials that the maker takes part in."""
    x = torch.zeros(1, _LENGTH, 8, device=device)
    row = torch.tensor([[0, 1, 2, 5, 11]], device=device)
    several = [torch.stack([row + 3 * axis for axis in range(axes)]) for axes in (2, 3, 4)]
    for position_ids in (row, *several):
        for options in _layer_types(maker):
            try:
                with torch.no_grad():
                    made: Any = maker(x, position_ids, **options)
            except REFUSALS:
                continue
            match made:
                case (Tensor() as cos, Tensor() as sin) if cos.shape[:-1] == (1, _LENGTH):
                    yield cos, sin


def _layer_types(maker: nn.Module) -> list[dict[str, str]]:
    """The options under which a maker has tables of their own: one for each kind of layer."""
    if "layer_type" not in inspect.signature(maker.forward).parameters:
        return [{}]
    sources = (maker, getattr(maker, "config", None))
    kinds = {kind for source in sources for kind in getattr(source, "layer_types", None) or ()}
    return [{"layer_type": kind} for kind in sorted(kinds)]
