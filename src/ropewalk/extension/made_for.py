"""A checkpoint that is made for one engine: which schedules that engine can serve in it.

What would be written is put into the engine's words and read back by its rules before anything is
measured, so that no time goes into a schedule that could not be used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ropewalk.dialects.gguf.header import GgufHeader
from ropewalk.dialects.gguf.write import plan_changes
from ropewalk.dialects.hf import load_json, read_config
from ropewalk.dialects.hf.family import ConfigSource, config_source
from ropewalk.errors import ScheduleError, UsageError
from ropewalk.extension.methods import (
    CLOSED_FORMS,
    Method,
    SearchedFactors,
    Stretch,
    against,
    extended,
)
from ropewalk.extension.serve import ENGINES, For, Options, file_options, folder_options
from ropewalk.models.resolve import ModelFiles
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

if TYPE_CHECKING:
    from ropewalk.extension.settings import ExtendSettings


def spelling(engine: For | None) -> Literal[4] | None:
    """The version of transformers whose words an engine needs; None: the model's own will do.

    Most of mlx-lm's model files read `rope_theta` and `rope_scaling`, and no `rope_parameters`;
    transformers and vLLM read both.
    """
    return 4 if engine == "mlx" else None


@short
@dataclass(frozen=True, slots=True)
class MadeFor:
    """An engine, and the files that it is to serve: a folder by its configuration, or a GGUF."""

    engine: For
    before: PositionSpec
    target: int
    source: ConfigSource | None = None
    header: GgufHeader | None = None

    @classmethod
    def of(
        cls, settings: ExtendSettings, engine: For, files: ModelFiles, before: PositionSpec
    ) -> MadeFor:
        """For what these settings would write. A GGUF model becomes a folder where one is named."""
        made = cls(engine, before, settings.target)
        out = settings.out
        if files.kind != "gguf":
            return replace(made, source=config_source(before))
        if out is None or out.suffix.lower() == ".gguf":
            return replace(made, header=files.header)
        config = load_json(dequantised(files.path) / "config.json")
        return replace(made, source=config_source(read_config(config)))

    def options(self, after: PositionSpec) -> Options:
        """What the engine serves files with that say `after`, or why it cannot."""
        from ropewalk.extension.checkpoint import written_config

        name = ENGINES[self.engine]
        try:
            if self.header is not None:
                plan_changes(after, self.header)
                return file_options(self.engine, after, "FILE.gguf")
            source = self.source or config_source(self.before)
            written = written_config(source, after, spelling(self.engine))
        except ScheduleError as error:
            return Options(name, "", None, str(error))
        return folder_options(self.engine, written, after, "FOLDER")

    def methods(self) -> tuple[Method, ...]:
        """The closed forms that the engine can serve. Raises UsageError where it is none."""
        told = {form: self._by(Stretch(form)) for form in CLOSED_FORMS}
        able = tuple(form for form, found in told.items() if found.line is not None)
        if not able:
            reasons = "; ".join(dict.fromkeys(each.reason for each in told.values()))
            raise UsageError(
                f"--for {self.engine}: {ENGINES[self.engine]} can serve no schedule of a longer "
                f"context for this model ({reasons})"
            )
        return able

    def check(self, stretch: Stretch) -> None:
        """Raise UsageError, with those that can be, for a schedule that the engine cannot serve."""
        found = self._by(stretch)
        if found.line is None:
            able = ", ".join(form.name for form in self.methods())
            raise UsageError(
                f"--method {stretch.method.name} cannot be had --for {self.engine}: "
                f"{found.reason}. {ENGINES[self.engine]} can serve {able}"
            )

    def check_search(self) -> None:
        """As `check`, for a list of divisors and an amplitude like those that a search finds."""
        longrope = next(form for form in CLOSED_FORMS if form.name == "longrope")
        made = extended(self.before, self.target, longrope)
        both = zip(self.before.rotary_groups(), made.rotary_groups(), strict=True)
        divisors, _ = next(
            against(old, new, self.target) for (_, old), (_, new) in both if old != new
        )
        self.check(Stretch(SearchedFactors(divisors, 1.03)))

    def _by(self, stretch: Stretch) -> Options:
        try:
            after = extended(self.before, self.target, stretch.method, stretch.headroom)
        except ScheduleError as error:
            return Options(ENGINES[self.engine], "", None, str(error))
        return self.options(after)


def dequantised(path: Path) -> Path:
    """The folder that a GGUF file is read as, made once and kept in the cache."""
    from ropewalk.models.cache import cached_folder
    from ropewalk.models.dequantise import dequantise

    return cached_folder(path, lambda into: dequantise(path, into))
