"""Every way there is to compute, as a fixture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ropewalk.kernels.cpu.library import INSTRUCTION_SETS, native


@pytest.fixture(params=("torch", *INSTRUCTION_SETS))
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The embedding kernels on plain torch, then on every instruction set that runs here."""
    library = native()
    if request.param == "torch":
        monkeypatch.setattr("ropewalk.kernels.cpu.lookup.native", lambda: None)
        yield "torch"
        return
    if library is None:
        pytest.skip("no compiled kernels here")
    widest = library.instruction_set
    try:
        if library.use_instruction_set(request.param) != request.param:
            pytest.skip(f"this processor has no {request.param}")
        yield request.param
    finally:
        library.use_instruction_set(widest)
