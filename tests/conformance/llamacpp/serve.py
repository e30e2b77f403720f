"""A program: llama.cpp's server on a free port of the loopback, in a process of its own.

    python serve.py MODEL CONTEXT ADDRESS OPTIONS

serves the GGUF file MODEL with room for CONTEXT tokens and the parameters in OPTIONS (a JSON
object of numbers, and words for enumerations), writes its address into the file ADDRESS when it
listens, and ends when its standard input is closed, which also happens when
the process that started it dies. It exits with NO_ENGINE where the engine cannot be loaded.
Keys and values are cached in single precision, so that nothing is rounded on the way.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

NO_ENGINE = 77


def main(model: str, context: int, address: Path, options: Mapping[str, float | str]) -> None:
    """Serve until standard input ends."""
    try:
        import xllamacpp
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_ENGINE)
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = context
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # No sizing by free memory, no trial run, no page for browsers.
    params.fit_params = params.warmup = params.ui = False
    params.hostnames, params.port = ["127.0.0.1"], 0
    for name, value in options.items():
        # A word is a value of the enumeration that the parameter is now.
        kind = type(getattr(params, name))
        setattr(params, name, kind[value] if isinstance(value, str) else value)
    server = xllamacpp.Server(params)
    part = address.with_suffix(".part")
    part.write_text(server.listening_address)
    part.replace(address)
    sys.stdin.read()
    # Its threads need no farewell, and must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), json.loads(sys.argv[4]))
