"""Subnormal numbers are zero where that was asked for, and nowhere else."""

from __future__ import annotations

import platform

import pytest
import torch

from ropewalk.kernels.cpu.library import native
from ropewalk.kernels.cpu.subnormals import flushed

pytestmark = pytest.mark.skipif(
    native() is None or platform.machine() not in ("x86_64", "AMD64"),
    reason="compiled kernels, and a processor that has the mode",
)
SMALL = 1e-39
"""The smallest normal number of fp32 is 1.2e-38."""


def kept() -> torch.Tensor:
    """Which of so many numbers that all threads take part are still there after a product."""
    return torch.full((1_000_000,), SMALL) * 1 != 0


def test_within_it_every_thread_takes_subnormal_numbers_as_zero() -> None:
    assert kept().all()
    with flushed():
        assert not kept().any()
    assert kept().all()


def test_the_smallest_normal_number_stays() -> None:
    smallest = torch.finfo(torch.float32).tiny
    with flushed():
        assert (torch.full((1_000_000,), smallest) * 1 == smallest).all()


def test_it_may_be_nested_and_ends_with_the_outermost() -> None:
    with flushed():
        with flushed():
            assert not kept().any()
        assert not kept().any()
    assert kept().all()


def test_an_error_within_it_ends_it() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), flushed():
        raise RuntimeError("out of memory")
    assert kept().all()


def test_a_thread_that_had_the_mode_before_has_it_afterwards() -> None:
    torch.set_flush_denormal(True)
    try:
        with flushed():
            assert torch.tensor(SMALL) * 1 == 0
        assert torch.tensor(SMALL) * 1 == 0
    finally:
        torch.set_flush_denormal(False)
    assert torch.tensor(SMALL) * 1 != 0


def test_another_number_of_threads_in_between_changes_nothing() -> None:
    threads = torch.get_num_threads()
    try:
        with flushed():
            torch.set_num_threads(1)
    finally:
        torch.set_num_threads(threads)
    assert kept().all()
