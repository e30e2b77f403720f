"""The folder of a comparison: each trained decoder with its figures, whole or not there at all.

    FOLDER/rope-0/          a folder of transformers: config.json, model.safetensors, a tokenizer
    FOLDER/rope-0/figures.json
    FOLDER/speeds.json

A decoder is kept when its figures are; one that was cut off leaves nothing that counts, and is
trained again from its start.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ropewalk.comparison.figures import DecoderFigures, figures_from
from ropewalk.comparison.language import Language
from ropewalk.comparison.presets import Settings, Variant
from ropewalk.decoder import Decoder
from ropewalk.errors import StoreError
from ropewalk.files import folder_beside, write_whole
from ropewalk.proof.lock import FolderLock

UNKNOWN = "<unk>"
FIGURES, SPEEDS = "figures.json", "speeds.json"


class ComparisonStore:
    """A folder held by this process. `opened` makes one."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        """Used by `opened`."""
        self.folder, self.settings = folder, settings

    def figures(self, variant: Variant, seed: int) -> DecoderFigures | None:
        """What is kept of one decoder, None when nothing is.

        Raises StoreError for a damaged file, and for one of other settings.
        """
        path = self.folder / f"{variant.name}-{seed}" / FIGURES
        kept = self._read(path)
        return None if kept is None else figures_from(kept["figures"], str(path))

    def keep(self, variant: Variant, found: DecoderFigures, model: Decoder) -> None:
        """Write a decoder and its figures. Raises StoreError when that fails."""
        from transformers.utils import logging

        logging.disable_progress_bar()  # of saving, which takes no time
        with folder_beside(self.folder / f"{variant.name}-{found.seed}") as beside:
            model.save_pretrained(beside)
            tokenizer(self.settings.language).save_pretrained(beside)
            write_whole(beside / FIGURES, self._written({"figures": found.document()}))

    def speeds(self) -> dict[str, float]:
        """Tokens a second by variant, as far as they were measured."""
        kept = self._read(self.folder / SPEEDS)
        return {} if kept is None else {str(k): float(v) for k, v in kept["speeds"].items()}

    def keep_speeds(self, speeds: Mapping[str, float]) -> None:
        """Write them. Raises StoreError when that fails."""
        write_whole(self.folder / SPEEDS, self._written({"speeds": dict(speeds)}))

    def _written(self, values: Mapping[str, object]) -> str:
        return json.dumps({"settings": self.settings.fingerprint(), **values}, indent=1)

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}); remove it, and it is made again"
            ) from error
        if not isinstance(kept, dict) or kept.get("settings") != self.settings.fingerprint():
            raise StoreError(
                f"{path} belongs to a comparison of other sizes, steps or data; give another "
                "--out folder, or the same settings as before"
            )
        return kept


@contextmanager
def opened(folder: Path, settings: Settings) -> Iterator[ComparisonStore]:
    """The store in `folder`, made where it is not there, locked until the block ends.

    Raises StoreError when it cannot be written, or another process works in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be made: {error.strerror or error}; choose another --out folder"
        ) from error
    lock = FolderLock.take(folder)
    try:
        # What a process that was killed had half written.
        for left in folder.glob(".*-*.*"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
        for half in folder.glob(f".{SPEEDS}.*"):
            half.unlink(missing_ok=True)
        yield ComparisonStore(folder, settings)
    finally:
        lock.release()


def tokenizer(language: Language) -> Any:
    """The language's tokens as words between spaces; other words are one token, never trained."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate((*language.spelled(), UNKNOWN))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=UNKNOWN)
