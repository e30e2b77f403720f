"""Checkpoints that are written: what is in them, what is left of the old one, and full disks."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ropewalk.dialects.hf import load_json, read_config
from ropewalk.errors import ScheduleMismatchError, StoreError, UsageError
from ropewalk.extension import checkpoint
from ropewalk.extension.card import BEGIN, END, Card, with_section
from ropewalk.extension.checkpoint import check_target, generation_of, verify, write_folder
from ropewalk.extension.methods import CLOSED_FORMS, Method, extended, searched
from ropewalk.rope.frequencies import frequencies

SaveFolder = Callable[..., Path]
YARN = next(each for each in CLOSED_FORMS if each.name == "yarn")
SEARCHED = searched((1.0, 1.0, 1.2, 2.0, 2.0, 2.4), 1.03)


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """Writes beyond `size` bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("method", [YARN, SEARCHED, CLOSED_FORMS[5]], ids=lambda each: each.name)
@pytest.mark.filterwarnings("ignore")
def test_a_new_checkpoint_is_what_transformers_then_rotates_by(
    folder: SaveFolder, tmp_path: Path, method: Method
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = folder()
    before = hashes(source)
    spec = read_config(load_json(source / "config.json"))
    after = extended(spec, 1024, method)
    out = tmp_path / "longer"
    written = write_folder(source, after, out, place="link", card=f"{BEGIN}\nnew\n{END}")
    assert "loaded back by transformers" in written.verified
    assert hashes(source) == before
    model: Any = AutoModelForCausalLM.from_pretrained(out)
    assert model.config.max_position_embeddings == 1024
    table = model.model.rotary_emb.inv_freq.double().tolist()
    assert table == pytest.approx(frequencies(after, None).inv_freq, rel=1e-5)
    assert AutoTokenizer.from_pretrained(out).model_max_length == 1024
    weights = "model.safetensors"
    assert (out / weights).samefile(source / weights)
    assert (out / "README.md").read_text().startswith("# Small\n\nA model of random weights.\n\n")
    assert (out / "README.md").read_text().endswith(f"{BEGIN}\nnew\n{END}\n")


def test_copied_weights_are_files_of_their_own(folder: SaveFolder, tmp_path: Path) -> None:
    source = folder()
    after = extended(read_config(load_json(source / "config.json")), 1024, YARN)
    out = write_folder(source, after, tmp_path / "longer", place="copy", card="").path
    weights = [path / "model.safetensors" for path in (source, out)]
    assert not weights[0].samefile(weights[1])
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_configuration_stays_in_its_own_generation(folder: SaveFolder, tmp_path: Path) -> None:
    source = folder()
    assert generation_of(load_json(source / "config.json")) == 5
    old = load_json(source / "config.json")
    old["rope_theta"] = dict(old.pop("rope_parameters"))["rope_theta"]  # type: ignore[call-overload]
    (source / "config.json").write_text(json.dumps(old))
    after = extended(read_config(old), 1024, YARN)
    out = write_folder(source, after, tmp_path / "longer", place="link", card="").path
    new = load_json(out / "config.json")
    assert "rope_parameters" not in new
    assert new["rope_scaling"] == {
        "rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 512,
    }  # fmt: skip


@pytest.mark.parametrize("place", ["link", "copy"])
def test_on_a_full_disk_nothing_half_written_remains(
    folder: SaveFolder, tmp_path: Path, place: Any
) -> None:
    source = folder()
    before = hashes(source)
    after = extended(read_config(load_json(source / "config.json")), 1024, YARN)
    # Between the configuration and the tokenizer, or the weights.
    with files_no_larger_than(8192), pytest.raises(StoreError, match="cannot be written"):
        write_folder(source, after, tmp_path / "longer", place=place, card="")
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
    assert hashes(source) == before


def test_a_model_that_rotates_otherwise_is_not_kept(
    folder: SaveFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder()
    spec = read_config(load_json(source / "config.json"))
    monkeypatch.setattr(checkpoint, "write_config", lambda *_: spec)
    with pytest.raises(ScheduleMismatchError, match="was meant"):
        write_folder(source, extended(spec, 1024, YARN), tmp_path / "x", place="link", card="")
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_a_live_table_that_differs_is_found(folder: SaveFolder) -> None:
    source = folder()
    spec = read_config(load_json(source / "config.json"))
    assert "loaded back" in verify(source, spec)
    with pytest.raises(ScheduleMismatchError):
        verify(source, extended(spec, 1024, YARN))


def test_a_model_too_large_for_memory_is_built_without_its_weights(
    folder: SaveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = folder()
    monkeypatch.setattr(checkpoint, "free_memory", lambda _: 1000)
    spec = read_config(load_json(source / "config.json"))
    assert verify(source, spec).startswith("built without its weights")


def test_another_disk_cannot_be_linked_to(
    folder: SaveFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    source = folder()
    after = extended(read_config(load_json(source / "config.json")), 1024, YARN)
    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StoreError, match=r"cross-device link.*use --copy"):
        write_folder(source, after, tmp_path / "longer", place="link", card="")
    assert not (tmp_path / "longer").exists()


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    for force in (False, True):
        with pytest.raises(UsageError):
            check_target(tmp_path / "full", force=force)
    with pytest.raises(UsageError, match="there is no folder"):
        check_target(tmp_path / "none" / "out", force=False)
    check_target(tmp_path / "new", force=False)


def test_a_cards_section_replaces_the_one_before_it_and_nothing_else() -> None:
    once = with_section("# Mine\n", f"{BEGIN}\nfirst\n{END}")
    twice = with_section(f"{once}\nAnd more.\n", f"{BEGIN}\nsecond\n{END}")
    assert twice == f"# Mine\n\n{BEGIN}\nsecond\n{END}\n\nAnd more.\n"


def test_a_card_has_no_figure_that_was_not_measured(folder: SaveFolder) -> None:
    spec = read_config(load_json(folder() / "config.json"))
    after = extended(spec, 1024, YARN)
    text = Card("Small", spec, after, "yarn").markdown()
    assert "Measured: nothing" in text
    assert "yarn, factor 2" in text
    measured = Card("Small", spec, after, "yarn", ["3 of 5 hidden facts found"]).markdown()
    assert "3 of 5 hidden facts found" in measured
    assert "nothing" not in measured
    assert replace(spec) == spec
