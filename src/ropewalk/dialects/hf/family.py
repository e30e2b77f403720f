"""From a configuration to the family whose facts hold for it.

Finds the text model inside a multimodal file, then the facts by `model_type`, corrected by the
few keys that change the kind of encoding (`alibi`, `position_embedding_type`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ropewalk.dialects.hf.defaults import (
    UNKNOWN,
    AlibiFacts,
    BucketFacts,
    Facts,
    LearnedFacts,
    RotaryFacts,
    SinusoidalFacts,
    UnrotatedFacts,
)
from ropewalk.dialects.hf.families import (
    OWN,
    OWN_TYPE,
    REMOTE,
    TEXT_OF,
    facts_of,
)
from ropewalk.dialects.hf.length_keys import CLAIMED_KEYS, TRAINED_KEYS
from ropewalk.dialects.hf.measured import text_type
from ropewalk.dialects.hf.rope import BASE_KEYS
from ropewalk.dialects.values import Notes, Section
from ropewalk.errors import ConfigError, UsageError
from ropewalk.rope.spec import PositionSpec, Source
from ropewalk.short import short

TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
ROPE_KEYS = (
    "rope_scaling",
    "rope_parameters",
    *BASE_KEYS,
    *UNKNOWN.partial_keys,
    "rotary_dim",
    "qk_rope_head_dim",
)
_OTHER_KEYS = ("alibi", "attn_config", "relative_attention_num_buckets", "no_rope_layers")


@short
@dataclass(frozen=True, slots=True)
class Family:
    """The text model's section, its type as transformers names it ("" when unstated), facts.

    `facts` is None when nothing in the file says which encoding it is.
    """

    config: Section
    model_type: str
    facts: Facts | None

    @property
    def latent(self) -> bool:
        """Whether its attention is latent."""
        return isinstance(self.facts, RotaryFacts) and self.facts.mla

    def over(self, whole: Section) -> Family:
        """The same family, with the values of another configuration of the same model."""
        part = whole
        for key in filter(None, self.config.path.split(".")):
            part = part.section(key) or part
        return replace(self, config=part)


@short
@dataclass(frozen=True, slots=True)
class ConfigSource(Source):
    """A configuration: the parsed `config.json`, `whole`, and the family that its text model is."""

    whole: Section = field(kw_only=True)
    family: Family = field(kw_only=True)

    @property
    def config(self) -> Mapping[str, object]:
        """The parsed `config.json`."""
        return self.whole.values


def config_source(spec: PositionSpec) -> ConfigSource:
    """The configuration behind a spec. Raises UsageError for a spec of anything else."""
    if not isinstance(spec.source, ConfigSource):
        raise UsageError(
            f"this {spec.model_type} model was read from a {spec.source.kind.value} and has no "
            "config.json; give the model's folder"
        )
    return spec.source


def vocabulary_of(*parts: Mapping[str, object]) -> int | None:
    """Rows of the table of token vectors, by the first of these objects that says it."""
    found = (part.get("vocab_size") for part in parts)
    return next((n for n in found if isinstance(n, int) and n is not True and n > 0), None)


def find_family(whole: Section, notes: Notes) -> Family:
    """The text model of a configuration and what is known of its family.

    Raises ConfigError when the file says nothing of position.
    """
    if whole.has("auto_map"):
        notes.note(
            "remote-code",
            "auto_map asks for code that travels with the checkpoint; that code is never run "
            "here, and what it does beyond the configuration's keys is not known",
            "read the modelling file yourself before trusting it",
        )
    config = _text_part(whole, notes)
    stated = config.text("model_type")
    if stated is None and config is not whole and (outer := whole.text("model_type")):
        stated = _text_type(outer)
    model_type = _text_type(stated or "")
    facts = _facts(config, model_type, notes)
    if facts is None and not any(config.has(key) for key in (*CLAIMED_KEYS, *TRAINED_KEYS)):
        raise ConfigError(
            f"{whole.where} says nothing about position: none of "
            f"{', '.join((*CLAIMED_KEYS, *ROPE_KEYS))} is there, and "
            + (f"model_type {model_type!r} is not known" if model_type else "no model_type")
            + "; is this a model's config.json?"
        )
    return Family(config, model_type, facts)


def _text_type(model_type: str) -> str:
    """The type of the text model, where a multimodal file names its own."""
    return TEXT_OF.get(model_type) or text_type(model_type)


def _text_part(whole: Section, notes: Notes) -> Section:
    """The language model's section of a multimodal file, or the whole file."""
    config = whole
    # A thinker_config holds a text_config of its own.
    for _ in range(2):
        for key in TEXT_PARTS:
            part = config.section(key) if key in config.values else None
            if part is not None and part.values:
                both = ("rope_scaling", "rope_parameters")
                outer = [k for k in both if config.has(k)]
                inner = [k for k in both if part.has(k)]
                if outer:
                    notes.warn(
                        "outer-rope-keys-not-read",
                        f"{', '.join(config.name(k) for k in outer)} stands outside "
                        f"{part.path}, where the text model does not look",
                        f"remove it: {part.path} has {' and '.join(inner)} of its own"
                        if inner
                        else f"move it into {part.path}, if the text model was trained with it",
                    )
                config = part
                break
    return config


def _facts(config: Section, model_type: str, notes: Notes) -> Facts | None:
    """The family's facts, or the general rules where the family is unknown."""
    facts = facts_of(model_type)
    kind = config.take("position_embedding_type")
    if model_type == "falcon" and config.flag("alibi"):
        return AlibiFacts(claimed=2048)
    if kind == "alibi" or (facts is None and config.flag("alibi")):
        if isinstance(facts, LearnedFacts) and model_type in ENCODERS:
            notes.note(
                "alibi-both-ways",
                f"{model_type} is an encoder: its ALiBi is symmetric, a penalty for the distance "
                "to either side",
            )
        return AlibiFacts(claimed=None)
    if _rotates_nothing(config, model_type):
        if facts is None:
            notes.warn(
                "unknown-model-type",
                f"model_type {model_type!r} is not known here; its keys say that nothing is "
                "rotated, and what else tells positions is not known",
                "look in the model's code whether some layers get positions in another way",
            )
        return UnrotatedFacts(claimed=None)
    if model_type == "baichuan":
        return _baichuan(config)
    if model_type == "granitemoehybrid" and kind == "rope":
        return RotaryFacts(claimed=2048)
    if model_type == "zamba2" and config.flag("use_mem_rope"):
        return RotaryFacts(claimed=4096, heads_wide=2)
    if model_type == "mpt":
        return _mpt(config, notes)
    if model_type == "trocr" and config.flag("use_learned_position_embeddings") is False:
        return SinusoidalFacts(claimed=512)
    if model_type == OWN_TYPE:
        return _own(config, notes)
    if facts is not None:
        _remark_on_leftover(config, facts, kind, notes)
        return facts
    if model_type in REMOTE:
        notes.note(
            "remote-code-model-type",
            f"model_type {model_type!r} is read by the conventions of its own code; "
            "transformers has no defaults for it, so only stated values count",
        )
        return REMOTE[model_type]
    return _unknown(config, model_type, notes)


def _rotates_nothing(config: Section, model_type: str) -> bool:
    """Whether a file says that no channel is rotated: zero and null are not absent."""
    if config.flag("mla_use_nope") is True:
        # The base stands there all the same, and serves nothing.
        config.asked.update(("rope_theta", "rope_scaling", "rope_parameters"))
        return True
    if config.values.get("qk_rope_head_dim", 0 if model_type in ZERO_IS_USUAL else None) == 0:
        config.take("qk_rope_head_dim")
        return True
    nulls = [k for k in ("rope_theta", "rope_parameters") if k in config.values]
    return (
        model_type in NULL_IS_NONE
        and bool(nulls)
        and all(config.take(key) is None for key in nulls)
    )


NULL_IS_NONE = frozenset({"olmo_hybrid"})
"""Families whose class takes a base that is null for no rotation; others fill in a default."""

ZERO_IS_USUAL = frozenset({"glm5_next_text"})
"""Families of latent attention whose class rotates no channel where the file says nothing."""

ENCODERS = frozenset(
    "bert roberta xlm-roberta camembert distilbert electra albert ernie mobilebert".split()
)
"""Types that attend both ways."""

BAICHUAN_13B = 5120
"""The width at which Baichuan's code goes from rotary encoding to ALiBi."""


def _baichuan(config: Section) -> Facts:
    """Baichuan: one model type for two encodings, rotary at 7B and ALiBi at 13B."""
    if (config.count("hidden_size") or 0) >= BAICHUAN_13B:
        return AlibiFacts(claimed=4096)
    return RotaryFacts(claimed=4096)


def _unknown(config: Section, model_type: str, notes: Notes) -> Facts | None:
    """The general rules, for files whose keys show what they are."""
    if config.has("relative_attention_num_buckets") and not any(map(config.has, ROPE_KEYS)):
        return BucketFacts()
    if not any(config.has(key) for key in (*ROPE_KEYS, *_OTHER_KEYS)):
        if any(config.has(key) for key in CLAIMED_KEYS):
            notes.warn(
                "encoding-unknown",
                "the file names a length and nothing that tells the kind of positional encoding",
                f"look in the code of {model_type!r}, which is not known here, for how it tells "
                "positions"
                if model_type
                else "name the model's architecture in model_type",
            )
        return None
    if model_type:
        notes.warn(
            "unknown-model-type",
            f"model_type {model_type!r} is not known here; the general rules are applied, and "
            "what its library has as defaults cannot be known",
            "check base, head_dim and layout against the model's code",
        )
    else:
        notes.note(
            "no-model-type",
            "the file has no model_type; the general rules are applied and no defaults filled in",
        )
    return UNKNOWN


def _own(config: Section, notes: Notes) -> Facts | None:
    """Our own decoder: what `position` names; rotary where it is absent."""
    position = config.text("position") or "rope"
    if position not in OWN:
        notes.note(
            "encoding-unknown",
            f"{config.name('position')} is {position!r}, an encoding that has no row here: "
            "position enters the token vectors by a trained projection",
        )
    return OWN.get(position)


def _mpt(config: Section, notes: Notes) -> Facts:
    """MPT: ALiBi, unless its attn_config turns it off."""
    attention = config.section("attn_config")
    alibi = attention.flag("alibi") if attention else None
    learned = config.flag("learned_pos_emb")
    if alibi is False:
        notes.warn(
            "alibi-off-not-read",
            "attn_config.alibi is false, but transformers' MPT applies ALiBi all the same",
            "run this checkpoint with the code it was made with",
        )
        return LearnedFacts(2048) if learned is not False else UnrotatedFacts(2048)
    if learned:
        notes.note(
            "learned-positions-leftover",
            "learned_pos_emb is true, but this model type has no position table; ALiBi alone "
            "tells positions",
        )
    return AlibiFacts(claimed=2048)


def _remark_on_leftover(config: Section, facts: Facts, kind: object, notes: Notes) -> None:
    """Keys that name an encoding which the family's code does not have."""
    if isinstance(facts, RotaryFacts) and isinstance(kind, str) and kind not in ("rope", "rotary"):
        notes.note(
            "position-type-leftover",
            f"{config.name('position_embedding_type')} says {kind!r}, which this family does "
            "not read: it is rotary",
        )
    if isinstance(facts, RotaryFacts):
        return
    unused = [config.name(key) for key in ROPE_KEYS if config.has(key)]
    if unused:
        notes.note(
            "unused-rope-keys",
            f"{', '.join(unused)} is there, but this model does not rotate anything: it says "
            "nothing about the length",
        )
