"""Two real processes over gloo, against the same run in one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.extension.tune.session import Tuned, tune
from tests.extension.tune.test_session import six
from tests.ranks import two_ranks

WORKER = """
import sys
from pathlib import Path
import torch
from torch.distributed.tensor import DTensor
from ropewalk.extension.tune import session, world
from ropewalk.extension.tune.loop import Trainer
from tests.extension.tune.test_session import six

found = {}
step = Trainer.step
def noted(self):
    clip = torch.nn.utils.clip_grad_norm_
    def keep(parameters, most):
        if "gradients" not in found:
            named = [(n, p) for n, p in self.model.named_parameters()]
            found["dtensors"] = all(isinstance(p, DTensor) for _, p in named)
            found["parts"] = {n: p.to_local().numel() for n, p in named}
            found["gradients"] = {n: p.grad.full_tensor() for n, p in named}
            causal = self.model.causal
            found["tied"] = causal.lm_head.weight is causal.model.embed_tokens.weight
        return clip(parameters, most)
    torch.nn.utils.clip_grad_norm_ = keep
    try:
        return step(self)
    finally:
        torch.nn.utils.clip_grad_norm_ = clip
Trainer.step = noted
checkpoint, documents, out = map(Path, sys.argv[1:4])
session.tune(six(checkpoint, documents, out))
import os
torch.save(found, out.parent / f"{os.environ['RANK']}.pt")
"""


@pytest.fixture(scope="module")
def ranks(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, documents: Path
) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ranks")
    two_ranks(WORKER, checkpoint, documents, folder / "out", seconds=400)
    return folder / "out", [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def alone(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, documents: Path
) -> tuple[Tuned, dict[str, torch.Tensor]]:
    """One process, and the gradients of its first step."""
    gradients: dict[str, torch.Tensor] = {}
    clip = torch.nn.utils.clip_grad_norm_
    from ropewalk.extension.tune.loop import Trainer

    step = Trainer.step

    def noted(self: Trainer) -> Any:
        def keep(parameters: Any, most: float) -> Any:
            for name, each in self.model.named_parameters():
                assert each.grad is not None
                gradients.setdefault(name, each.grad.clone())
            return clip(parameters, most)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", keep)
            return step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", noted)
        done = tune(six(checkpoint, documents, tmp_path_factory.mktemp("alone") / "out"))
    assert done is not None
    return done, gradients


def test_two_processes_give_the_losses_of_one(
    ranks: tuple[Path, Any], alone: tuple[Tuned, Any]
) -> None:
    from ropewalk.extension.tune.journal import read_losses

    two = [each.loss for each in read_losses(ranks[0])]
    assert two == pytest.approx([each.loss for each in alone[0].steps], abs=1e-4)
    norms = [each.norm for each in read_losses(ranks[0])]
    assert norms == pytest.approx([each.norm for each in alone[0].steps], rel=1e-4)


def test_two_processes_give_the_gradients_of_one_and_hold_a_part_each(
    ranks: tuple[Path, list[dict[str, Any]]], alone: tuple[Tuned, dict[str, torch.Tensor]]
) -> None:
    sizes = {name: each.numel() for name, each in alone[1].items()}
    for rank in ranks[1]:
        assert rank["dtensors"]
        assert rank["tied"]
        assert set(rank["gradients"]) == set(sizes)
        for name, each in rank["gradients"].items():
            torch.testing.assert_close(each, alone[1][name], atol=1e-4, rtol=1e-4, msg=name)
    whole = {name: sum(rank["parts"][name] for rank in ranks[1]) for name in sizes}
    assert whole == sizes


def test_one_tuned_model_is_written_and_is_the_same(
    ranks: tuple[Path, Any], alone: tuple[Tuned, Any]
) -> None:
    from safetensors.torch import load_file

    two = load_file(ranks[0] / "model" / "model.safetensors")
    one = load_file(alone[0].model / "model.safetensors")
    assert set(one) == set(two)
    for name, each in one.items():
        # Adam's first steps take the sign of a gradient, however small it is.
        torch.testing.assert_close(two[name], each, atol=2e-3, rtol=0, msg=name)


def test_a_run_of_two_processes_goes_on_in_one(
    ranks: tuple[Path, Any], checkpoint: Path, documents: Path, tmp_path: Path
) -> None:
    """The last checkpoint, read by one process, is the model that two wrote."""
    import shutil

    from safetensors.torch import load_file

    out = tmp_path / "out"
    shutil.copytree(ranks[0], out)
    shutil.rmtree(out / "model")
    done = tune(six(checkpoint, documents, out))
    assert done is not None
    two = load_file(ranks[0] / "model" / "model.safetensors")
    for name, each in load_file(done.model / "model.safetensors").items():
        torch.testing.assert_close(each, two[name], atol=0, rtol=0)
