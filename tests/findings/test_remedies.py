"""Every remedy is followed: the finding goes, no warning comes, and the schedule is the one meant.

A remedy that only the user can follow (a number from a report, a proof on the model) stands in
`by_hand.toml` with the reason. One that is in neither table fails here.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from ropewalk.dialects.engines import engine_views
from ropewalk.dialects.hf import read_config
from ropewalk.findings import Audit, audit
from ropewalk.rope.frequencies import frequencies
from ropewalk.rope.override import override
from ropewalk.rope.schedules import Proportional, plain_inv_freq
from ropewalk.rope.spec import PositionSpec, RotarySpec
from tests.configurations import write_json

Json = dict[str, Any]
Follow = Callable[[Json], Json]
Meant = Callable[[PositionSpec], bool]
Followed = Callable[[Audit, Audit, str, Meant | None], None]
Remedy = Callable[[Audit, str], str]

LLAMA: Json = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
YARN: Json = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LISTS: Json = {"short_factor": [1.0] * 32, "long_factor": [8.0] * 32}
PHI: Json = LLAMA | {"model_type": "phi3", "max_position_embeddings": 8192}
GEMMA: Json = LLAMA | {"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 64}
GEMMA |= {"sliding_window": 512}
GEMMA.pop("rope_theta")
NEOX: Json = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
NEOX |= {"model_type": "gpt_neox", "rotary_pct": 1.0}


same = None
"""Nothing that a schedule can be told by has changed."""


def first(spec: PositionSpec) -> RotarySpec:
    return next(rotary for _, rotary in spec.rotary_groups())


def with_scaling(kind: str, **fields: Any) -> Meant:
    """The first group's scaling is of this type, with these values."""
    return lambda after: (
        type(first(after).scaling).__name__ == kind
        and all(getattr(first(after).scaling, name) == value for name, value in fields.items())
    )


def with_base(base: float) -> Meant:
    return lambda after: first(after).rope_theta == base


def plain_at(tokens: int, base: float = 1e4) -> Meant:
    """The base alone, and that claim."""
    return lambda after: (
        first(after).rope_theta == base
        and frequencies(after, tokens).inv_freq == plain_inv_freq(base, first(after).rotary_dim)
        and after.claimed.tokens == tokens
    )


def without(*path: str) -> Follow:
    """Take out a key, given by its path."""

    def follow(config: Json) -> Json:
        part = config
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]
        return config

    return follow


def stating(value: Any, *path: str) -> Follow:
    def follow(config: Json) -> Json:
        part = config
        for key in path[:-1]:
            part = part.setdefault(key, {})
        part[path[-1]] = value
        return config

    return follow


def moved(old: str, new: str) -> Follow:
    return lambda config: {(new if key == old else key): value for key, value in config.items()}


def by_rope(text: str, claimed: int | None = None) -> Follow:
    """Through our own words for a schedule, as `convert --rope` writes them."""

    def follow(config: Json) -> Json:
        spec = override(read_config(config), text)
        if claimed is not None:
            config = config | {"max_position_embeddings": claimed}
            spec = override(read_config(config), text)
        return write_json(spec, config, 5)

    return follow


@dataclass(frozen=True)
class Case:
    """A configuration with a finding, what its remedy does to it, and what must come of that."""

    code: str
    config: Mapping[str, Any]
    follow: Follow
    meant: Meant | None


def scaled(**rope: Any) -> Json:
    return LLAMA | {"rope_scaling": rope}


CASES = [
    Case("mscale-ignored", scaled(**YARN, mscale=0.707), without("rope_scaling", "mscale"), same),
    Case(
        "type-and-rope-type-differ",
        scaled(**YARN, type="linear"),
        without("rope_scaling", "type"),
        same,
    ),
    Case(
        "yarn-read-as-longrope",
        LLAMA
        | {"model_type": "phi3", "original_max_position_embeddings": 1024}
        | {"rope_scaling": {"rope_type": "yarn", **LISTS}},
        stating("longrope", "rope_scaling", "rope_type"),
        same,
    ),
    Case(
        "original-length-from-default",
        PHI | {"rope_scaling": YARN | LISTS | {"rope_type": "longrope"}},
        stating(1024, "original_max_position_embeddings"),
        with_scaling("LongRope", original_max_position_embeddings=1024),
    ),
    Case(
        "original-length-from-default",
        PHI | {"rope_scaling": {"rope_type": "longrope", **LISTS}},
        stating(2048, "original_max_position_embeddings"),
        with_scaling("LongRope", original_max_position_embeddings=2048),
    ),
    Case(
        "original-length-missing",
        scaled(rope_type="yarn", factor=4.0),
        stating(1024, "rope_scaling", "original_max_position_embeddings"),
        with_scaling("Yarn", original_max_position_embeddings=1024),
    ),
    Case(
        "proportional-without-share",
        LLAMA | {"rope_parameters": {"rope_type": "proportional", "rope_theta": 1e6}},
        stating(0.25, "rope_parameters", "partial_rotary_factor"),
        lambda after: first(after).scaling == Proportional(0.25, 1.0),
    ),
    Case(
        "unknown-layer-type",
        LLAMA | {"layer_types": ["Full_attention", "full_attention"]},
        stating(["full_attention", "full_attention"], "layer_types"),
        # What were two groups for two words is one.
        lambda after: first(after).rope_theta == 10_000.0 and len(after.groups) == 1,
    ),
    Case("not-strict-json", LLAMA | {"limit": math.inf}, stating(1e9, "limit"), same),
    Case(
        "sliding-base-lost",
        LLAMA | {"model_type": "olmo3", "rope_theta": 1e6, "sliding_window": 512},
        stating(1e6, "rope_parameters", "sliding_attention", "rope_theta"),
        same,
    ),
    Case(
        "claim-overruled",
        LLAMA | {"model_type": "zamba2", "use_mem_rope": True, "use_long_context": True},
        stating(16384, "max_position_embeddings"),
        lambda after: after.claimed.tokens == 16384,
    ),
    Case(
        "claim-overruled",
        LLAMA | {"model_type": "zamba2", "use_mem_rope": True, "use_long_context": True},
        stating(False, "use_long_context"),
        same,
    ),
    Case(
        "base-key-not-read",
        NEOX | {"rope_theta": 5e5},
        moved("rope_theta", "rotary_emb_base"),
        with_base(5e5),
    ),
    Case(
        "base-key-not-read",
        NEOX | {"rope_theta": 5e5, "rotary_emb_base": 1e4},
        without("rope_theta"),
        same,
    ),
    Case(
        "base-key-not-read",
        LLAMA | {"model_type": "gptj", "rotary_dim": 32},
        without("rope_theta"),
        same,
    ),
    Case(
        "base-stated-twice",
        LLAMA | {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
        without("rope_theta"),
        same,
    ),
    Case(
        "outer-rope-keys-not-read",
        {"model_type": "llava", "rope_scaling": YARN, "text_config": LLAMA},
        lambda _: {"model_type": "llava", "text_config": LLAMA | {"rope_scaling": YARN}},
        with_scaling("Yarn", factor=4.0),
    ),
    Case(
        "outer-rope-keys-not-read",
        {"model_type": "llava", "rope_scaling": YARN, "text_config": scaled(**YARN)},
        without("rope_scaling"),
        same,
    ),
    Case(
        "rope-scaling-not-read",
        LLAMA | {"model_type": "gptj", "rotary_dim": 32, "rope_scaling": YARN},
        without("rope_scaling"),
        same,
    ),
    Case(
        "old-type-key-not-read",
        GEMMA | {"rope_scaling": {"type": "linear", "factor": 8.0}},
        lambda c: c | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        lambda after: (
            {type(r.scaling).__name__ for _, r in after.rotary_groups()} == {"Linear", "Unscaled"}
        ),
    ),
    Case(
        "flat-rope-parameters-ignored",
        GEMMA | {"rope_parameters": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5}},
        lambda c: c | {"rope_parameters": {"full_attention": c["rope_parameters"]}},
        lambda after: (
            {(type(r.scaling).__name__, r.rope_theta) for _, r in after.rotary_groups()}
            == {("Linear", 5e5), ("Unscaled", 1e4)}
        ),
    ),
    Case(
        "mrope-interleaved-not-read",
        LLAMA
        | {"model_type": "qwen2_vl_text"}
        | {"rope_scaling": {"mrope_section": [8, 12, 12], "mrope_interleaved": True}},
        stating(False, "rope_scaling", "mrope_interleaved"),
        same,
    ),
    Case("head-dim-not-whole", LLAMA | {"hidden_size": 516}, stating(64, "head_dim"), same),
    Case(
        "encoding-unknown",
        {"max_position_embeddings": 1024, "hidden_size": 64, "num_attention_heads": 4},
        stating("gpt2", "model_type"),
        lambda after: after.model_type == "gpt2",
    ),
    Case(
        "incomplete-rotary",
        {key: value for key, value in LLAMA.items() if key != "hidden_size"},
        stating(512, "hidden_size"),
        lambda after: (first(after).head_dim, first(after).rope_theta) == (64, 1e4),
    ),
    Case("static-yarn", scaled(**YARN), by_rope("none", 1024), plain_at(1024)),
    Case(
        "unseen-angles",
        scaled(**YARN) | {"max_position_embeddings": 8192},
        stating(8.0, "rope_scaling", "factor"),
        with_scaling("Yarn", factor=8.0),
    ),
    Case(
        "depends-on-length",
        scaled(rope_type="dynamic", factor=4.0),
        lambda c: {k: v for k, v in c.items() if k != "rope_scaling"} | {"rope_theta": 5e4},
        lambda after: frequencies(after, 1024) == frequencies(after, 4096),
    ),
    Case("no-rope-type", scaled(factor=4.0), without("rope_scaling"), same),
    Case(
        "no-rope-type",
        scaled(factor=4.0),
        stating("linear", "rope_scaling", "rope_type"),
        with_scaling("Linear", factor=4.0),
    ),
    Case(
        "trained-lengths-disagree",
        scaled(**YARN) | {"original_max_position_embeddings": 2048},
        without("rope_scaling", "original_max_position_embeddings"),
        same,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda each: each.code)
def test_a_remedy_for_a_configuration_mends_it(
    case: Case, followed: Followed, remedy_of: Remedy
) -> None:
    before = audit(read_config(case.config))
    assert remedy_of(before, case.code)
    after = audit(read_config(case.follow(copy.deepcopy(dict(case.config)))))
    followed(before, after, case.code, case.meant)


def test_every_remedy_is_followed_or_has_a_reason_why_it_cannot_be(
    unfollowed: Any, remedy_of: Remedy
) -> None:
    tried = [(case.code, remedy_of(audit(read_config(case.config)), case.code)) for case in CASES]
    assert unfollowed(False, tried) == []


def test_a_remedy_that_nobody_has_followed_is_told(unfollowed: Any) -> None:
    told = unfollowed(False, [])
    assert any(each.startswith("static-yarn: nobody has followed") for each in told)


def test_a_lone_mscale_that_is_removed_leaves_every_engine_at_what_transformers_computes() -> None:
    config = scaled(**YARN, mscale=0.707)
    right = frequencies(read_config(config), 4096).attention_factor
    without("rope_scaling", "mscale")(config)
    views = engine_views(read_config(config))
    assert {view.attention_factor for view in views if view.claim is not None} == {right}


@pytest.mark.parametrize(
    "config",
    [
        LLAMA | {"model_type": "nobodys", "qk_rope_head_dim": 0, "qk_nope_head_dim": 64},
        LLAMA | {"model_type": "nobodys", "qk_rope_head_dim": 64, "mla_use_nope": True},
        LLAMA | {"model_type": "nobodys", "alibi": True},
        LLAMA | {"model_type": "gpt2"},
        {"model_type": "nobodys", "relative_attention_num_buckets": 32, "n_positions": 512,
         "hidden_size": 64, "num_attention_heads": 4},
    ],
)  # fmt: skip
def test_nobody_is_told_to_add_a_base_to_a_model_that_may_not_rotate(config: Json) -> None:
    told = " ".join(each.remedy.lower() for each in audit(read_config(config)).findings)
    assert "add " not in told
    assert "state " not in told


def test_a_type_that_is_there_is_not_asked_for(remedy_of: Remedy) -> None:
    config = {"model_type": "nobodys", "hidden_size": 5120, "max_position_embeddings": 4096}
    told = remedy_of(audit(read_config(config)), "encoding-unknown")
    assert "'nobodys'" in told
    assert "name the model's architecture" not in told
