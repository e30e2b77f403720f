"""What a run does not do, each in one sentence, and never by half."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ropewalk.errors import DataFileError, LengthError, ModelFileError, StoreError, UsageError
from ropewalk.extension.tune.session import MODEL, Tuned, tune
from ropewalk.extension.tune.training_settings import TuneSettings
from ropewalk.packing.files import PackSettings, pack_files
from ropewalk.packing.pack import Boundary
from ropewalk.packing.policies import BestFit
from ropewalk.packing.texts import Sources

Settings = Callable[..., TuneSettings]
Tokenizer = Callable[[str], Any]


def _losses(done: Tuned | None) -> list[float]:
    assert done is not None
    return [each.loss for each in done.steps]


@pytest.mark.parametrize("attention", ["flash_attention_2", "flash_attention_3"])
def test_an_attention_whose_package_is_missing_is_named_before_anything_is_measured(
    settings: Settings, attention: str
) -> None:
    asked = settings(attention=attention, dtype="bf16")
    said = f"--attention {attention} cannot be used for LlamaForCausalLM here: .*installed"
    with pytest.raises(UsageError, match=said):
        tune(asked)
    assert not (asked.out / "run.json").exists()
    with pytest.raises(UsageError, match="16 bits alone; give --dtype bf16"):
        settings(attention=attention, dtype="fp32").check()
    # On a CPU auto is fp32, which is known where the device is.
    with pytest.raises(UsageError, match="16 bits alone; give --dtype bf16"):
        tune(settings(attention=attention))


def test_flex_attention_on_a_cpu_is_refused_for_pytorch_refuses_its_gradient(
    settings: Settings,
) -> None:
    asked = settings(attention="flex_attention")
    with pytest.raises(UsageError, match="cannot train on a CPU"):
        tune(asked)
    assert not (asked.out / "run.json").exists()
    # The day that PyTorch can, the refusal is to go.
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.zeros(1, 1, 16, 16, requires_grad=True)
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        flex_attention(q, q, q)


def _pack(documents: Path, tokenizer: Any, out: Path, **changes: Any) -> Path:
    pack_files(
        Sources((documents,)),
        tokenizer,
        PackSettings(64, BestFit(), boundary=Boundary(after=1), **changes),
        out,
    )
    return out


def test_rows_of_another_tokenizer_are_refused_with_both_fingerprints(
    settings: Settings, documents: Path, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """One with as many ids: only what the file says of itself can tell."""
    other = _pack(documents, tiny_tokenizer("metaspace"), tmp_path / "other.parquet")
    with pytest.raises(UsageError, match=r"another tokenizer .*\(\w{12}, .* \w{12}\); pack again"):
        tune(settings(data=(other,)))


def test_rows_with_padding_on_the_left_are_refused(
    settings: Settings, documents: Path, tiny_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    left = _pack(documents, tiny_tokenizer("bos-eos"), tmp_path / "left.parquet", left=True)
    with pytest.raises(DataFileError, match=r"has its padding on the left, .*pack without --left"):
        tune(settings(data=(left,)))


def test_files_of_several_encodings_are_refused_at_the_byte_that_tells(
    settings: Settings, tmp_path: Path
) -> None:
    text = "Der Häfen lag still. " * 40
    (tmp_path / "new.txt").write_text(text, encoding="utf-8")
    old = tmp_path / "old.txt"
    old.write_text(text, encoding="latin-1")
    asked = settings(data=(tmp_path / "new.txt", old))
    with pytest.raises(DataFileError, match=r"old.txt is not utf-8 at byte 5 \(0xe4\)"):
        tune(asked)
    assert not (asked.out / MODEL).exists()
    # Each by itself is read, and as the same text.
    alone = [
        _losses(tune(settings(data=(path,), encoding=encoding, out=tmp_path / encoding)))
        for path, encoding in ((tmp_path / "new.txt", "utf-8"), (old, "latin-1"))
    ]
    assert alone[0] == alone[1]
    with pytest.raises(UsageError, match="encoding 'runes' is not known"):
        settings(encoding="runes").check()


def test_empty_documents_change_nothing_and_alone_are_refused(
    settings: Settings, documents: Path, tmp_path: Path
) -> None:
    usual = _losses(tune(settings(steps=2)))
    more = tmp_path / "more.jsonl"
    lines = documents.read_text().splitlines(keepends=True)
    empty = json.dumps({"text": ""}) + "\n"
    more.write_text(empty + "".join(line + empty for line in lines))
    assert _losses(tune(settings(steps=2, data=(more,), out=tmp_path / "more"))) == usual
    only = tmp_path / "only.jsonl"
    only.write_text(empty * 3)
    with pytest.raises(UsageError, match="has 3 documents, and none with a token in it"):
        tune(settings(data=(only,), out=tmp_path / "only"))


def test_a_document_longer_than_the_window_is_refused_where_its_positions_run_on(
    settings: Settings, tmp_path: Path
) -> None:
    long = tmp_path / "long.txt"
    long.write_text("The harbour lay still. " * 300)
    with pytest.raises(LengthError, match="document 0 of the data goes on beyond token 512"):
        tune(settings(data=(long,), positions="document"))


def test_without_tensorboard_a_note_names_what_to_install_and_the_steps_are_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ropewalk.listener import Listener

    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    notes: list[str] = []
    done = tune(settings(tensorboard=True, steps=2), Listener(note=notes.append))
    assert len(_losses(done)) == 2
    (note,) = [each for each in notes if "TensorBoard" in each]
    assert 'tensorboard is not installed (pip install "ropewalk[tune]")' in note
    assert note.endswith("losses.jsonl has every step")
    assert done is not None
    assert not (done.folder / "tensorboard").exists()


def _no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _leftovers(out: Path) -> list[Path]:
    """Whatever was begun and not done."""
    return [*out.glob(".*"), *(out / "checkpoints").glob(".*")]


@pytest.mark.parametrize("when", ["weights", "configuration", "rename"])
def test_a_disk_that_is_full_when_the_model_is_written_leaves_nothing_of_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The checkpoint stays, and the same command writes the model from it without a step."""
    import shutil

    from safetensors import SafetensorError
    from transformers import LlamaForCausalLM

    asked = settings(steps=2)
    with monkeypatch.context() as patch:
        if when == "weights":

            def half(_: object, folder: Path) -> None:
                (folder / "model.safetensors").write_bytes(b"half")
                raise SafetensorError("No space left on device (os error 28)")

            patch.setattr(LlamaForCausalLM, "save_pretrained", half)
        elif when == "configuration":
            patch.setattr(shutil, "copyfile", _no_room)
        else:
            usual = Path.replace

            def replace(self: Path, target: Path) -> Path:
                if target.name == ".candidate":
                    _no_room()
                return usual(self, target)

            patch.setattr(Path, "replace", replace)
        with pytest.raises(StoreError, match=r"No space left on device.*nothing is left of it"):
            tune(asked)
    assert not _leftovers(asked.out)
    assert not (asked.out / MODEL).exists()
    assert [each.name for each in (asked.out / "checkpoints").iterdir()] == ["step-00000002"]

    from ropewalk.extension.tune.loop import Trainer

    monkeypatch.setattr(Trainer, "step", _no_room)
    done = tune(asked)
    assert len(_losses(done)) == 2
    assert (asked.out / MODEL / "model.safetensors").exists()


def test_a_disk_that_is_full_when_a_checkpoint_gets_its_name_keeps_the_one_before(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = settings(every=2)
    usual = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if target.name == "step-00000004":
            _no_room()
        return usual(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        with pytest.raises(StoreError, match=r"step 4 .*No space left.*step 2 is kept.*make room"):
            tune(asked)
    assert [each.name for each in (asked.out / "checkpoints").iterdir()] == ["step-00000002"]
    assert not (asked.out / MODEL).exists()


def test_a_folder_that_is_no_model_is_said_to_be_none(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ModelFileError, match="holds a configuration and no weights"):
        tune(settings(model=str(tmp_path)))
