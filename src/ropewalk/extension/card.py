"""The section of a model card that says how a longer context was obtained.

It stands between two marks in README.md, so that it can be found and replaced; the rest of the
file is kept as it is. Figures in it are measured or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.extension.serve import Options
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.lengths import trained_length
from ropewalk.rope.spec import PositionSpec
from ropewalk.short import short

README = "README.md"
BEGIN = "<!-- ropewalk extend: begin -->"
END = "<!-- ropewalk extend: end -->"


@short
@dataclass(frozen=True, slots=True)
class Card:
    """What a card says.

    `measured` are sentences with figures, empty where nothing was measured; `serving` are engines'
    options for the files as they were before, `own` those for the new ones.
    """

    name: str
    before: PositionSpec
    after: PositionSpec
    method: str
    measured: Sequence[str] = ()
    warnings: Sequence[str] = ()
    serving: Sequence[Options] = ()
    own: Sequence[Options] = ()

    def markdown(self) -> str:
        """The section, from one mark to the other."""
        lines = [BEGIN, "", f"## Context of {self.after.claimed.tokens:,} tokens", ""]
        lines.append(
            f"Made from {self.name} with `ropewalk extend` by the method `{self.method}`. No "
            "weight was changed: only the frequencies by which positions rotate."
        )
        trained = trained_length(self.before)
        guessed = "" if trained.stated else f" ({trained.source})"
        lines += ["", f"- Trained on {trained.tokens or 0:,} tokens{guessed}."]
        lines += [f"- {line}" for line in schedule_lines(self.before, self.after)]
        lines.append("- Measured: " + ("" if self.measured else "nothing; measure it before use."))
        lines += [f"  - {line}" for line in self.measured]
        lines += [f"- {line}" for line in self.warnings]
        lines += [f"- {_own(each)}." for each in self.own]
        for each in self.serving:
            if each.line is not None:
                lines.append(
                    f"- {each.engine} serves the files as they were in the same way with "
                    f"`{each.line}` ({each.checked})."
                )
        return "\n".join([*lines, "", END])


def _own(each: Options) -> str:
    """How an engine serves the new files, or why it does not."""
    if each.line is None:
        return f"{each.engine} does not serve these files as meant: {each.reason}"
    steps = "".join(f"{' and' if i else ' after'} `{step}`" for i, step in enumerate(each.steps))
    return f"{each.engine} serves these files{steps} with `{each.line}` ({each.checked})"


def with_section(text: str, section: str) -> str:
    """A README with the section in the place of an earlier one, or behind all that it holds."""
    begin, end = text.find(BEGIN), text.find(END)
    if 0 <= begin < end:
        return text[:begin] + section + text[end + len(END) :]
    before = text.rstrip("\n")
    return f"{before}\n\n{section}\n" if before else f"{section}\n"


def schedule_lines(before: PositionSpec, after: PositionSpec) -> list[str]:
    """What rotates otherwise, a line for each group of layers that has changed."""
    lines = []
    for old, new in zip(before.groups, after.groups, strict=True):
        if old.encoding == new.encoding:
            continue
        scaling = getattr(new.encoding, "scaling", None)
        bases = [getattr(group.encoding, "rope_theta", 0.0) for group in (old, new)]
        told = [] if bases[0] == bases[1] else [f"base {bases[0]:.10g} to {bases[1]:.10g}"]
        if scaling is not None and scaling != getattr(old.encoding, "scaling", None):
            factor = getattr(scaling, "factor", None)
            of = "" if factor is None else f", factor {factor:.6g}"
            told.append(f"{scaling.name}{of}")
        built = frequencies(new, after.claimed.tokens)
        told.append(
            f"cos and sin x {built.attention_factor:.6g}, fingerprint {built.fingerprint()} at "
            f"{after.claimed.tokens:,} tokens"
        )
        lines.append(f"{new.name}: {'; '.join(told)}.")
    return lines
