"""A model that is run here, as a proof asks it: by itself, or with shared beginnings read once."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ropewalk.findings import audit
from ropewalk.listener import Listener
from ropewalk.models.dtypes import dtype_word
from ropewalk.models.load import check_device, load
from ropewalk.models.resolve import read_spec, resolve
from ropewalk.models.rotary_tables import as_loaded, install, schedule_at, schedule_fingerprint
from ropewalk.proof.ask import Alone
from ropewalk.proof.branching import Branching
from ropewalk.proof.cells import Sharing
from ropewalk.proof.facts import RunFacts
from ropewalk.proof.grid import lengths_of, planned
from ropewalk.proof.plan import CostModel
from ropewalk.proof.settings import ProofSettings, as_stated
from ropewalk.proof.subject import OpenedModel, Subject
from ropewalk.proof.subjects.calls import ModelCalls
from ropewalk.proof.subjects.local import BRANCH_ROOM, LocalSubject, SharingLocal
from ropewalk.proof.subjects.sharable import Sharable, sharable
from ropewalk.proof.tokens import Tokens
from ropewalk.rope.override import override
from ropewalk.rope.spec import LearnedPositions
from ropewalk.short import short_with

_PACED = 512
"""Tokens that are read to see how fast this machine is."""


class NamedFiles:
    """A model's files, found and read, with nothing loaded.

    Raises an error of `ropewalk.errors` for files that are not there or say what cannot be, and for
    a plan of impossible lengths.
    """

    def __init__(self, settings: ProofSettings) -> None:
        self._files = resolve(settings.model)
        self.settings, self.asked_as = as_stated(settings, self._files)
        self._written = read_spec(self._files)
        rope = self.settings.rope
        self._spec = override(self._written, rope) if rope else self._written
        lengths = self.settings.lengths or lengths_of(self._spec)
        planned(self.settings, lengths, Sharing.NONE)

    def opened(self, tell: Listener) -> Iterator[LocalModel]:
        """Load the model and see that it rotates by the schedule that was read."""
        settings, files, spec = self.settings, self._files, self._spec
        tell.say("loading torch and transformers")
        device, dtype = check_device(settings.device, settings.dtype, files)
        loaded = load(
            files,
            device=device,
            dtype=dtype,
            device_map=settings.device_map,
            say=tell.say,
            share=tell.share,
        )
        tokens = Tokens(loaded.tokenizer, loaded.rows)
        tables = as_loaded(loaded.model, self._written)
        install(loaded.model, spec, None)
        facts = RunFacts(
            name=files.title,
            model=loaded.identity[:16],
            schedule=schedule_fingerprint(spec),
            rope=settings.rope or "as shipped",
            tokenizer=tokens.fingerprint(),
            chat="chat template" if settings.chat else "base prompt",
            versions=_versions(),
            device=str(device) if settings.device_map is None else f"by {settings.device_map}",
            dtype=dtype_word(dtype),
            tables=tables,
        )
        found = audit(spec, name=files.title)
        yield LocalModel(
            model=loaded.model,
            tokens=tokens,
            spec=spec,
            facts=facts,
            title=f"{files.title}-{settings.rope or ''}",
            chat=settings.chat,
            audit=found,
        )


def _versions() -> str:
    import torch
    import transformers

    from ropewalk import __version__

    return (
        f"ropewalk {__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}"
    )


@short_with("title", "facts")
@dataclass(slots=True, kw_only=True)
class LocalModel(OpenedModel):
    """A loaded transformers `model` that rotates by `spec`; lengths are in its tokens."""

    model: Any
    _sharing: SharingLocal | None = None

    def able(self, wanted: Sharing, lengths: Sequence[int]) -> Sharable:
        """What prompts of these lengths may share on this model; tried where anything is wanted."""
        return sharable(self.model, self.spec, lengths, wanted)

    def cost(self) -> CostModel:
        """By the better of two looks: what disturbs one makes it slower, never faster."""
        return CostModel().fit([(_PACED, min(self._pace(), self._pace()))])

    def cache_bytes(self, longest: int, a_token: int | None) -> int | None:
        """Bytes of the cache with `a_token` bytes each, branches included."""
        return a_token and a_token * (longest + BRANCH_ROOM)

    def subject(self, *, shared: bool) -> Subject:
        """Asks prompts behind shared text, with one large cache for all runs, or by themselves."""
        told: dict[str, Any] = {
            "chat": self.chat,
            "set_length": lambda length: install(self.model, self.spec, length),
            "position_limit": self._limit(),
        }
        if not shared:
            return Alone(LocalSubject(self.model, self.tokens, **told))
        if self._sharing is None:
            regime = lambda length: schedule_at(self.spec, length)  # noqa: E731
            self._sharing = SharingLocal(self.model, self.tokens, **told, regime=regime)
        return Branching(self._sharing)

    def _pace(self) -> float:
        """Seconds that _PACED tokens take, read here and now."""
        import torch

        calls = ModelCalls(self.model)
        ids = torch.zeros((1, _PACED), dtype=torch.long, device=calls.device)
        with torch.inference_mode():
            calls.call(ids[:, :8], None, 1)
            begun = time.perf_counter()
            logits, _ = calls.call(ids, None, 1)
            float(logits.sum())
        return time.perf_counter() - begun

    def _limit(self) -> int | None:
        rows = [
            encoding.rows
            for group in self.spec.groups
            if isinstance(encoding := group.encoding, LearnedPositions) and encoding.rows
        ]
        return min(rows) if rows else None
