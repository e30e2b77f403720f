"""What llama.cpp's loader makes of keys that not every architecture reads, as tables of facts.

State of its release b11549 (October 2026): `src/llama-model.cpp`, `llama_model_base::load_hparams`,
and `load_arch_hparams` of each file in `src/models/`. Keys are named without the architecture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.dialects.gguf.keys import Keys
from ropewalk.errors import GgufError
from ropewalk.short import short

SECTIONS = "rope.dimension_sections"
SECTIONS_LENGTH = 4
READS_SECTIONS = frozenset(
    "bailingmoe3 deepseek32 dflash ernie4_5 glm-dsa glm4 glm4moe hunyuan_vl paddleocr qwen2vl "
    "qwen35 qwen35moe qwen3vl qwen3vlmoe qwen4exp".split()
)
"""Architectures that read `rope.dimension_sections`, by `get_key_or_arr` with a length of 4: an
array of any other length ends the load."""


RELEASE = "b11549"
"""The release that these tables follow, of October 2026."""


@short
@dataclass(frozen=True, slots=True)
class YarnKeys:
    """Which of the keys `rope.scaling.yarn_*` an architecture reads, and where that is seen.

    `beta_fast` is what it computes with where the file states none. `since`: the keys are read by
    the architecture's file as it stands now, and not yet by this release.
    """

    reads: frozenset[str]
    seen: str
    beta_fast: float = 32.0
    since: str = ""


_BETAS = frozenset({"beta_fast", "beta_slow"})
YARN_KEYS: dict[str, YarnKeys] = {
    "mistral3": YarnKeys(_BETAS, "src/models/mistral3.cpp reads both betas"),
    "k2-horizon": YarnKeys(_BETAS, "src/models/k2-horizon.cpp reads both betas"),
    "grok": YarnKeys(
        _BETAS | {"ext_factor"},
        "src/models/grok.cpp reads both betas and ext_factor, and begins with beta_fast 8",
        8.0,
    ),
    "laguna": YarnKeys(
        _BETAS | {"ext_factor"},
        "src/models/laguna.cpp reads both betas and ext_factor; with 64 and 4 in the file the "
        "log-probabilities of b11549 are, to the last digit, those of a file without",
        since=RELEASE,
    ),
    "deepseek4": YarnKeys(_BETAS, "src/models/deepseek4.cpp reads both betas", since=RELEASE),
}
COMMON = YarnKeys(frozenset(), "llama_model_base::load_hparams reads none")
"""For every other architecture of `archs.ARCHITECTURES`: their own loaders read none either."""

READ = frozenset(
    "freq_base freq_base_swa dimension_count dimension_count_swa dimension_sections scale_linear "
    "scaling.type scaling.factor scaling.alpha scaling.attn_factor scaling.finetuned "
    "scaling.original_context_length scaling.yarn_log_multiplier scaling.yarn_ext_factor "
    "scaling.yarn_attn_factor scaling.yarn_beta_fast scaling.yarn_beta_slow".split()
)
"""Every key under `rope.` that some architecture reads (`src/llama-arch.cpp`)."""

DEFAULT_BASE = 10_000.0
"""llama.cpp's for every architecture."""
UNSTATED = "llama.cpp's default"
"""Where a base comes from that the file does not state."""
MEANT_BASES: Mapping[str, float] = {
    **dict.fromkeys("gemma3 gemma3n gemma4 gemma-embedding".split(), 1e6),
    "apertus": 12e6,
    "gpt-oss": 150_000.0,
    "llama4": 500_000.0,
    "modern-bert": 160_000.0,
    "olmo2": 500_000.0,
}
"""The base of layers that see everything in all published models of an architecture, which is also
what transformers 5.24 fills in for a file that states none."""


def yarn_keys(arch: str) -> YarnKeys:
    """What is read of an architecture that `archs` knows."""
    return YARN_KEYS.get(arch, COMMON)


def check_sections(keys: Keys) -> None:
    """Raise GgufError for sections of a length at which llama.cpp refuses the file."""
    stated = keys.values.get(SECTIONS)
    if keys.arch not in READS_SECTIONS or not isinstance(stated, tuple):
        return
    if len(stated) != SECTIONS_LENGTH:
        filled = [*stated, 0, 0, 0, 0][:SECTIONS_LENGTH]
        advice = f"write {filled}" if len(stated) < SECTIONS_LENGTH else "leave out what is over"
        raise GgufError(
            f"{keys.where}: {keys.name(SECTIONS)} is {list(stated)[:8]}, {len(stated)} numbers, "
            f"and llama.cpp refuses a {keys.arch} file in which there are not exactly "
            f"{SECTIONS_LENGTH}; {advice}, or convert the model anew"
        )


def remark_on_unread(keys: Keys) -> None:
    """Name every key under `rope.` that llama.cpp does not know."""
    for key, value in keys.values.items():
        part = key.removeprefix("rope.")
        if part == key or part in READ:
            continue
        if part.endswith("freq_base"):
            full = "local" not in part
            keys.remark(
                "base-unread",
                f"{keys.name(key)} is {value}, and llama.cpp has no such key: it takes "
                + (
                    f"{_taken(keys)} as the base of the layers that see everything"
                    if full
                    else "its own base for the layers with a window"
                ),
                f"write the base as {keys.name('rope.freq_base' + ('' if full else '_swa'))}",
                warn=full,
            )
        else:
            keys.remark("rope-key-unread", f"{keys.name(key)} is there, and llama.cpp reads none")


def _taken(keys: Keys) -> str:
    stated = keys.number("rope.freq_base")
    return f"{DEFAULT_BASE if stated is None else stated:g}"


def remark_on_missing_base(keys: Keys) -> None:
    """What a file without a base is taken for, and what it should have been."""
    name, meant = keys.name("rope.freq_base"), MEANT_BASES.get(keys.arch)
    told = f"{name} is missing, which llama.cpp reads as {DEFAULT_BASE:g}"
    if meant is None:
        keys.remark("base-missing", told)
        return
    keys.remark(
        "base-missing",
        f"{told}, and {keys.arch} models are trained at {meant:g}",
        f"convert the model anew, or serve it with --rope-freq-base {meant:g}",
        warn=True,
    )


def remark_on_leftover_pairs(keys: Keys, sections: tuple[int, ...]) -> None:
    """Pairs at the slow end that llama.cpp gives to an axis on which nothing moves."""
    turns = range(sum(sections))
    left = [j for j in turns if j >= 3 * sections[j % 3]] if len(sections) == 3 else []
    if left:
        keys.remark(
            "pairs-without-axis",
            f"{keys.name(SECTIONS)} {list(sections)} leave the pairs "
            f"{', '.join(map(str, left))} over when axes take turns: the model rotates them by "
            "time, and llama.cpp by a fourth position, which is 0, so that they stand still",
            "a defect of llama.cpp's; the schedule shown here is the model's",
            warn=True,
        )
