"""A spec's position settings put into a copy of a Hugging Face configuration.

Version 4 spells them `rope_theta` and `rope_scaling`, version 5 `rope_parameters`, flat or by
kind of layer. The other spelling's keys are removed, since transformers reads both and one of
them wins. What is written is read again and compared before it is returned.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from ropewalk.dialects.hf.defaults import Facts, LearnedFacts, RotaryFacts
from ropewalk.dialects.hf.family import ConfigSource, Family
from ropewalk.dialects.hf.layers import SLIDING, read_layers
from ropewalk.dialects.hf.length_keys import CLAIMED_KEYS, CONVERTER_LENGTH, ORIGINAL
from ropewalk.dialects.hf.measured import nested_outcome
from ropewalk.dialects.hf.reader import read_again
from ropewalk.dialects.hf.rope import SHARE, section_keys, select_rope
from ropewalk.dialects.hf.terms import PARAMETERS, Terms, terms_of
from ropewalk.dialects.lost import require_kept
from ropewalk.dialects.record import RECORD, record_values
from ropewalk.dialects.same import Dialect, require_same
from ropewalk.dialects.values import Notes
from ropewalk.errors import ScheduleError
from ropewalk.rope.schedules import LongRope, Scaling, Yarn
from ropewalk.rope.spec import PositionSpec, RotarySpec

Json = dict[str, object]

_REMEDY = {
    4: "write version 5 (hf5), or a spec that this model's configuration can say",
    5: "write a spec that this model's configuration can say",
}

_SHARE_WITHIN = frozenset({"mistral4"})
"""transformers' classes of these look for the share in the dictionary, and fill it in before a
`rope_scaling` takes that one's place."""

_WITHOUT_HEAD_DIM = frozenset(
    "hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text minimax ministral mixtral".split()
)
"""transformers' classes of these leave `head_dim` at None where the file does, and the formulas of
yarn, longrope and llama3 multiply by it (TypeError)."""

_LONGROPE_ONLY = frozenset({"phi3", "phi4_multimodal", "phimoe"})
"""transformers' classes of these refuse every scaling but longrope, or call yarn longrope, or, as
phimoe's, look in a forward for keys that only longrope has."""


def write_config(
    spec: PositionSpec, source: ConfigSource, version: Literal[4, 5], *, both: bool = True
) -> PositionSpec:
    """A copy of the configuration `source` that says of position what `spec` says, read back.

    The copy is the result's `config_source(...).config`. Keys that are not about position are left
    as they are; a record of how a context was made longer is written too. A fixed larger base (NTK)
    is written as that base, a divisor for each pair as longrope with two equal lists, which
    transformers rotates by exactly as it stands.

    With `both`, version 4's keys stand beside those of version 5, with the same numbers, wherever
    the two together are read as the spec: mlx-lm and transformers 4 look for no others.

    Raises ScheduleError, naming field, value and remedy, where this spelling or this model's
    configuration class cannot hold the spec.
    """
    dialect = Dialect(f"the Hugging Face version {version} spelling", _REMEDY[version])
    require_kept(spec, dialect, "hf")
    found = _written(spec, source, version, dialect, both=False)
    if version == 4 or not both:
        return found
    try:
        return _written(spec, source, version, dialect, both=True)
    except ScheduleError:
        # This family's keys of version 4 cannot say it, or not beside the others.
        return found


def _written(
    spec: PositionSpec, source: ConfigSource, version: int, dialect: Dialect, *, both: bool
) -> PositionSpec:
    whole: Json = copy.deepcopy(dict(source.config))
    family = source.family
    text = text_part(whole, family)
    if isinstance(family.facts, RotaryFacts):
        for _, rotary in spec.rotary_groups():
            _refuse_by_family(rotary, family, dialect)
        if not family.facts.fixed_schedule:
            _Writer(spec, text, family, family.facts, dialect, version, both=both).write()
    _write_claim(spec, text, family.facts)
    if spec.extended is not None:
        whole[RECORD] = record_values(spec.extended)
    found = read_again(source, whole)
    trained = spec.trained
    if trained.stated and trained.tokens is not None and found.trained.tokens != trained.tokens:
        text[ORIGINAL] = trained.tokens
        found = read_again(source, whole)
    under_key = {each.tokens for each in found.other_lengths if each.stated}
    if not found.claimed.stated and spec.claimed.tokens in under_key:
        # The key says it; a reader makes a longer claim of it by the factor of yarn.
        spec = replace(spec, claimed=found.claimed)
    require_same(spec, found, dialect)
    return found


def text_part(whole: Json, family: Family) -> Json:
    """The dictionary of the language model within `whole`, to be written into."""
    part = whole
    for key in filter(None, family.config.path.split(".")):
        inner = part[key]
        if not isinstance(inner, dict):  # pragma: no cover - find_family has read it as one
            raise TypeError(key)
        part = inner
    return part


def _refuse_by_family(rotary: RotarySpec, family: Family, dialect: Dialect) -> None:
    kind = terms_of(rotary, family.model_type, dialect).keys["rope_type"]
    if family.model_type in _SHARE_WITHIN and kind == "default":
        raise dialect.refusal(
            "rope_type",
            repr(kind),
            f"transformers' {family.model_type} then rotates all {rotary.head_dim} channels of a "
            f"head, and not {rotary.rotary_dim}",
            "use yarn, whose share it reads",
        )
    share = family.config.number(SHARE)
    if family.config.has("qk_rope_head_dim") and share not in (None, 1.0) and kind != "default":
        raise dialect.refusal(
            "rope_type",
            repr(kind),
            f"transformers' formulas multiply the {rotary.rotary_dim} rotated channels by "
            f"{SHARE} {share:g} once more, which its plain rule does not",
            "use --rope base:THETA or none",
        )
    if family.model_type in _LONGROPE_ONLY and kind not in ("default", "longrope"):
        raise dialect.refusal(
            "rope_type",
            repr(kind),
            f"transformers' {family.model_type} takes longrope alone",
            "use --rope base:THETA or none",
        )


def _write_claim(spec: PositionSpec, text: Json, facts: Facts | None) -> None:
    """The claimed length, under the key that the file has for it."""
    tokens = spec.claimed.tokens
    if tokens is None:
        return
    if isinstance(facts, LearnedFacts) and facts.offset_counted:
        # RoBERTa's key counts rows that serve no position.
        tokens += facts.offset
    key = next((k for k in CLAIMED_KEYS if text.get(k) is not None), None)
    if key is not None or spec.claimed.stated:
        text[key or "max_position_embeddings"] = tokens


class _Writer:
    """The rope keys of one configuration, and the spec they shall say."""

    def __init__(
        self,
        spec: PositionSpec,
        text: Json,
        family: Family,
        facts: RotaryFacts,
        dialect: Dialect,
        version: int,
        *,
        both: bool,
    ) -> None:
        self.spec, self.text, self.facts, self.dialect = spec, text, facts, dialect
        self.family, self.version, self.both = family, version, both
        # Classes that have a dictionary for each kind of layer stop at a flat one.
        self.by_default = {k: v for k, v in facts.rope_default.items() if isinstance(v, Mapping)}
        self.scaling_stated = "rope_scaling" in text
        self.keys = select_rope(family.config, facts, family.model_type, Notes())

    def write(self) -> None:
        """Replace every rope key of the text part."""
        kinds = dict(self._kinds())
        if not kinds:
            return
        kept = {
            kind: self._kept(kind, rotary) | self._share(kind, rotary)
            for kind, rotary in kinds.items()
        }
        # Where a class knows nothing of dictionaries by kind of layer, one has to do for all.
        known = nested_outcome(self.family.model_type) in ("", "computed")
        nested = self.facts.local is not None or bool(self.keys.by_kind or self.by_default)
        nested = nested and (known or not self.keys.by_kind)
        self._remove()
        by_kind = {k: self._terms(k, rotary) for k, rotary in kinds.items()}
        if nested and self.version == 5:
            self.text["rope_parameters"] = self._nested(by_kind, kept)
        elif self.version == 5:
            kind, terms = self._only(by_kind)
            dictionary = {**kept[kind], **terms.keys}
            self.text["rope_parameters"] = self._with_base(dictionary, terms.base)
        if self.version == 4 or self.both:
            self._write_v4(by_kind, kept)

    def _kinds(self) -> Iterator[tuple[str, RotarySpec]]:
        """Each kind of layer that is rotated, by transformers' word, and its encoding."""
        layers = read_layers(self.family.config, self.facts, self.family.model_type, Notes())
        by_layers = {group.layers: group.encoding for group in self.spec.groups}
        for index, (kind, members) in enumerate(layers.groups):
            encoding = by_layers.get(members)
            if not members and len(layers.groups) == len(self.spec.groups):
                encoding = self.spec.groups[index].encoding
            if kind.attends and isinstance(encoding, RotarySpec):
                yield kind.word, encoding

    def _terms(self, kind: str, rotary: RotarySpec) -> Terms:
        terms = terms_of(rotary, self.family.model_type, self.dialect)
        terms = replace(terms, keys=terms.keys | self._needed(kind, rotary.scaling))
        if terms.anchor is not None and terms.anchor != self.spec.claimed.tokens:
            raise self.dialect.refusal(
                "max_position_embeddings",
                terms.anchor,
                "transformers anchors dynamic scaling on the claimed length "
                f"{self.spec.claimed.tokens}",
            )
        if terms.original is not None and self.text.get(ORIGINAL) is not None:
            # Outside a flat dictionary this key wins over the one within.
            self.text[ORIGINAL] = terms.original
        if terms.original is not None and self.family.model_type in _LONGROPE_ONLY:
            # These classes have a default for the outer key, which would win.
            self.text[ORIGINAL] = terms.original
        scaled = terms.keys["rope_type"] in ("yarn", "longrope", "llama3")
        if scaled and self.family.model_type in _WITHOUT_HEAD_DIM:
            self.text["head_dim"] = rotary.head_dim
        if terms.keys["rope_type"] == "llama3" and terms.original != CONVERTER_LENGTH:
            # Where llama.cpp's converter looks for it; transformers takes the outer one too.
            self.text[ORIGINAL] = terms.original
        return terms

    def _needed(self, kind: str, scaling: Scaling) -> Json:
        """Keys that change nothing here, and without which a model's own code stops.

        The ends of YaRN's ramp, where the file states them or vLLM asks for them (KeyError of its
        gpt-oss), and the amplitudes that transformers' phimoe asks for.
        """
        served = self.keys.serving(kind) if self.keys.stated else None
        found: Json = {}
        if isinstance(scaling, Yarn):
            asked = self.family.model_type == "gpt_oss"
            for name in ("beta_fast", "beta_slow"):
                if asked or (served is not None and served.has(name)):
                    found[name] = getattr(scaling, name)
        if self.family.model_type == "phimoe" and isinstance(scaling, LongRope):
            found |= dict.fromkeys(("short_mscale", "long_mscale"), scaling.amplitude()[0])
        return found

    def _kept(self, kind: str, rotary: RotarySpec) -> Json:
        """What a rope dictionary holds beside a schedule: sections, scales of queries."""
        served = self.keys.serving(kind) if self.keys.stated else None
        values = served.values if served is not None else {}
        return {
            k: v
            for k, v in {**values, **section_keys(rotary)}.items()
            if k not in PARAMETERS and not isinstance(v, Mapping) and v is not None
        }

    def _share(self, kind: str, rotary: RotarySpec) -> Json:
        """The share of a head that is rotated, where the configuration states one."""
        served = self.keys.serving(kind) if self.keys.stated else None
        if self.facts.trailing or self.family.model_type in _SHARE_WITHIN:
            return {SHARE: rotary.rotary_dim / rotary.head_dim}
        if served is not None and served.text("rope_type") == "proportional":
            # There the key says how many pairs are rotated, which is part of the schedule.
            return {}
        keys = tuple((self.family.config, key) for key in self.facts.partial_keys)
        for section, key in ((served, SHARE), *keys):
            if section is not None and (value := section.number(key)) is not None:
                return {SHARE: value}
        return {}

    def _remove(self) -> None:
        """Take out both spellings."""
        local = (self.facts.local.key,) if self.facts.local else ()
        bases = ("rope_theta", *self.facts.base_keys, *local)
        for key in ("rope_scaling", "rope_parameters", *bases, *self.facts.partial_keys):
            self.text.pop(key, None)

    def _with_base(self, dictionary: Json, base: float) -> Json:
        """The base, in the dictionary or, for ChatGLM, as a ratio beside it."""
        if self.facts.base_by_ratio:
            self.text["rope_ratio"] = base / 10_000.0
            return dictionary
        return {**dictionary, "rope_theta": base}

    def _only(self, by_kind: Mapping[str, Terms]) -> tuple[str, Terms]:
        """The one schedule of all layers, which a flat dictionary needs."""
        first, *others = by_kind.items()
        for kind, terms in others:
            if terms != first[1]:
                raise self.dialect.refusal(
                    "rope_parameters",
                    f"of {kind} apart from those of {first[0]}",
                    f"transformers' {self.family.model_type} has one schedule for all layers",
                )
        return first

    def _nested(self, by_kind: Mapping[str, Terms], kept: Mapping[str, Json]) -> Json:
        """A dictionary for each kind of layer; a kind without position keeps its null."""
        written: Json = {kind: None for kind, rope in self.keys.by_kind.items() if rope is None}
        for kind, terms in by_kind.items():
            if terms.keys.get("truncate") is False:
                raise self.dialect.refusal(
                    "truncate",
                    "false",
                    "transformers 5.24 does not look for it in a dictionary by kind of layer",
                    "leave truncate at true, or use one schedule for all layers",
                )
            label = self.facts.labels.get(kind, kind)
            written[label] = {**kept[kind], **terms.keys, "rope_theta": terms.base}
        for kind, usual in self.by_default.items():
            written.setdefault(kind, dict(usual))
        local = self.facts.local
        if self.facts.flat_yarn and local is not None:
            # With one label alone the whole would be taken for a flat dictionary.
            main = {"rope_type": "default", "rope_theta": local.base}
            written.setdefault(self.facts.labels[SLIDING], main)
        return written

    def _write_v4(self, by_kind: Mapping[str, Terms], kept: Mapping[str, Json]) -> None:
        local = self.facts.local
        if not self.facts.base_keys:
            raise self.dialect.refusal(
                "rope_parameters",
                f"of {self.family.model_type}",
                "this family has no keys of that version",
            )
        if local is not None and SLIDING in by_kind:
            sliding = by_kind[SLIDING]
            full = next((t for k, t in by_kind.items() if k != SLIDING), sliding)
            overlay = full if local.scaled else Terms(sliding.base, {"rope_type": "default"})
            if sliding.keys != overlay.keys:
                raise self.dialect.refusal(
                    "scaling of sliding layers",
                    repr(sliding.keys["rope_type"]),
                    f"rope_scaling serves {'all' if local.scaled else 'the full'} layers of "
                    f"{self.family.model_type}",
                )
            if local.key in self.facts.base_keys and sliding.base != local.base:
                raise self.dialect.refusal(
                    "the base of sliding layers",
                    f"{sliding.base:.10g}",
                    f"transformers' {self.family.model_type} gives {local.key} to the full layers "
                    f"alone, and takes {local.base:.10g} for the others",
                )
            self.text[local.key] = sliding.base
            kind = next((k for k in by_kind if k != SLIDING), SLIDING)
            terms = full
        else:
            kind, terms = self._only(by_kind)
        if self.facts.base_by_ratio:
            self._with_base({}, terms.base)
        elif kind != SLIDING or local is None:
            self.text[self.facts.base_keys[0]] = terms.base
        dictionary = {**kept[kind], **terms.keys}
        within = self.facts.trailing or self.family.model_type in _SHARE_WITHIN
        if SHARE in kept[kind] and SHARE not in terms.keys and not within:
            self.text[self.facts.partial_keys[0]] = dictionary.pop(SHARE)
        plain = dictionary == {"rope_type": "default"} and not self.facts.rope_default
        if not plain or (self.version == 4 and self.scaling_stated):
            self.text["rope_scaling"] = None if plain else dictionary
