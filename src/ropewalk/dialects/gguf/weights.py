"""The weights of a GGUF copy: as they are stored, or dequantised a tensor at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ropewalk.errors import GgufError
from ropewalk.short import short

Numbers = Literal["F16", "F32"]
"""What matrices are written in where they are not kept as stored."""

FILE_TYPE = "general.file_type"
QUANTISATION = "general.quantization_version"
_FILE_TYPES: dict[str, int] = {"F32": 0, "F16": 1}
"""llama.cpp's numbers for files of which all, or most, is that."""


@short
@dataclass(frozen=True, slots=True)
class Weights:
    """How tensors go into the copy; `numbers` None: as they are.

    Vectors (norms, biases) are always written in single precision when anything is changed, as
    llama.cpp's own converters do.
    """

    numbers: Numbers | None = None

    def file_type(self, stored: Any) -> Any:
        """What the file says that it is made of."""
        return stored if self.numbers is None else _FILE_TYPES[self.numbers]

    def announce(self, writer: Any, tensor: Any) -> None:
        """Enter a tensor into the copy's table of contents; nothing is dequantised for that."""
        if self.numbers is None:
            data = tensor.data
            writer.add_tensor_info(
                tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type
            )
            return
        import numpy as np

        # The file has the fastest axis first, numpy has it last.
        shape = tuple(int(size) for size in reversed(tensor.shape))
        dtype = np.dtype(self._dtype(shape))
        writer.add_tensor_info(tensor.name, shape, dtype, tensor.n_elements * dtype.itemsize)

    def data(self, tensor: Any) -> Any:
        """What is written of a tensor.

        Raises GgufError for a type that the gguf package cannot dequantise, and for numbers that
        half precision cannot hold.
        """
        if self.numbers is None:
            return tensor.data
        import gguf
        import numpy as np

        try:
            full = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise GgufError(
                f"{tensor.name} is stored as {tensor.tensor_type.name}, which the gguf package "
                "cannot dequantise; copy the weights as they are stored"
            ) from error
        dtype = np.dtype(self._dtype(full.shape))
        most = float(np.finfo(dtype).max)
        if float(np.abs(full).max(initial=0.0)) > most:
            raise GgufError(
                f"{tensor.name} holds numbers beyond {most:g}, the largest that "
                f"{self.numbers} can; write F32"
            )
        return np.ascontiguousarray(full, dtype=dtype)

    def _dtype(self, shape: tuple[int, ...]) -> str:
        return "float16" if self.numbers == "F16" and len(shape) > 1 else "float32"
