"""GGUF files: `read_gguf` makes a position spec of one, `read_header` reads any header.

`header` is a bounded parser that trusts no size the file states; `types` and `archs` are tables
of facts; `keys` reads typed keys; `scaling` and `windows` follow llama.cpp's loader.
"""

from ropewalk.dialects.gguf.header import read_header
from ropewalk.dialects.gguf.reader import read_gguf, spec_of_header

__all__ = ["read_gguf", "read_header", "spec_of_header"]
