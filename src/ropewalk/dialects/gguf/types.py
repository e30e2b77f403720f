"""The value types and tensor types of GGUF files, as facts.

Sources: the GGUF specification (ggml, docs/gguf.md) for the codes of metadata values; ggml's
type list for tensors, with the elements in a block and the bytes that a block takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class ValueType:
    """A metadata value of fixed size: its name, bytes, and `struct` code without byte order."""

    name: str
    size: int
    code: str


STRING = 8
ARRAY = 9
BOOL = 7

FIXED: dict[int, ValueType] = {
    0: ValueType("UINT8", 1, "B"),
    1: ValueType("INT8", 1, "b"),
    2: ValueType("UINT16", 2, "H"),
    3: ValueType("INT16", 2, "h"),
    4: ValueType("UINT32", 4, "I"),
    5: ValueType("INT32", 4, "i"),
    6: ValueType("FLOAT32", 4, "f"),
    BOOL: ValueType("BOOL", 1, "B"),
    10: ValueType("UINT64", 8, "Q"),
    11: ValueType("INT64", 8, "q"),
    12: ValueType("FLOAT64", 8, "d"),
}
"""Metadata value types by code, but for STRING and ARRAY, whose size is in the file."""


@short
@dataclass(frozen=True, slots=True)
class TensorType:
    """How a tensor's elements are stored: `block` elements in `size` bytes."""

    name: str
    block: int
    size: int


TENSOR_TYPES: dict[int, TensorType] = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 40),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
}
"""Tensor types by code. The gaps are types that ggml has withdrawn."""
