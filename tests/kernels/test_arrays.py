"""Arrays and tensors over one memory: what torch makes of the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ropewalk.kernels.arrays import as_array, as_tensor, doubles, singles

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tensor_and_its_array_are_one_memory(dtype: torch.dtype) -> None:
    tensor = torch.randn(5, 6).to(dtype)[:, ::2]
    again = as_tensor(as_array(tensor))
    assert again.dtype is dtype
    assert again.data_ptr() == tensor.data_ptr()
    assert again.stride() == tensor.stride()
    again[2, 1] = 7.0
    assert tensor[2, 1] == 7.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_widened_as_torch_widens_them(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0.0, -0.0, 1e-40, 6e-8], [1 / 3, -65504.0, torch.inf, torch.nan]])
    tensor = tensor.to(dtype)
    np.testing.assert_array_equal(singles(as_array(tensor)), tensor.float().numpy())
    np.testing.assert_array_equal(doubles(as_array(tensor)), tensor.double().numpy())


def test_every_bfloat16_is_itself() -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    np.testing.assert_array_equal(singles(every), as_tensor(every).float().numpy())


def test_what_float32_cannot_hold_is_infinite() -> None:
    assert singles(np.array([1e300, -1e300])).tolist() == [np.inf, -np.inf]


def test_rows_in_a_file_may_begin_at_any_byte() -> None:
    raw = np.frombuffer(
        bytearray(b"\0\0\0" + np.array([1.5, -2.0], np.float32).tobytes()), np.uint8
    )
    odd = raw[3:].view(np.float32)
    assert not odd.flags.aligned
    assert as_tensor(odd).tolist() == [1.5, -2.0]
    assert as_tensor(raw[3:].view(np.uint16)).dtype is torch.bfloat16
