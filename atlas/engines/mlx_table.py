"""What each model file of mlx-lm reads of a rotation: `python -m atlas.engines.mlx_table`.

Every model file of the installed mlx-lm is built tiny, once for each way in which a configuration
can spell a base, a share of the channels and a schedule, and what it then rotates by is compared
with the candidates: the schedule as `rope_utils` computes it, the base alone, or something else.
The answers are `src/ropewalk/dialects/engines/mlx.json`, which the mlx row of
`ropewalk audit --engines` reads.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mlx_lm.models.rope_utils import SuScaledRoPE, initialize_rope

from atlas.engines.mlx_models import (
    KINDS,
    Json,
    Observed,
    Turn,
    model_files,
    near,
    nested,
    observe,
    plain,
    remapped,
    required,
    sizes,
    turn_of,
    without_scaling,
)

TABLE = Path(__file__).parents[2] / "src/ropewalk/dialects/engines/mlx.json"

BASE, INNER, LOCAL = 12345.0, 54321.0, 4321.0
BASE_KEYS = ("rope_theta", "rotary_emb_base", "rope_freq_constant", "rope_local_base_freq",
             "swa_rope_theta", "local_rope_theta", "global_rope_theta")  # fmt: skip
SHARE_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_pct")
LISTS = ([1.0 + i / 100 for i in range(64)], [1.0 + i / 2 for i in range(64)])
TYPES: dict[str, Json] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 4.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 1024,
             "mscale": 1.0, "mscale_all_dim": 0.5},
    "llama3": {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 1024},
    "longrope": {"original_max_position_embeddings": 1024, "long_mscale": 1.3,
                 "short_mscale": 1.2},
    "su": {"original_max_position_embeddings": 1024, "long_mscale": 1.3, "short_mscale": 1.2},
    "mrope": {"mrope_section": [8, 12, 12]},
    "proportional": {"partial_rotary_factor": 0.25},
}  # fmt: skip
ALPHA = 8.0
_WANTED = re.compile(r"must contain keys \{(.*)\}")
SPELLINGS = (
    ("rope_scaling", "type"),
    ("rope_scaling", "rope_type"),
    ("rope_parameters", "rope_type"),
    ("rope_parameters", "nested"),
)
_FILLERS: tuple[Json, ...] = (
    {},
    {"rope_scaling": None},
    {"rope_scaling": {"type": "default", "rope_type": "default"}},
    {"rope_scaling": {"type": "yarn", **TYPES["yarn"]}},
    {"rope_scaling": {"type": "longrope", **TYPES["longrope"],
                      "short_factor": [1.0] * 16, "long_factor": [1.0] * 16}},
    {"rope_parameters": {"rope_type": "yarn", "rope_theta": BASE, "llama_4_scaling_beta": 0.1,
                         **TYPES["yarn"]}},
    {"rope_parameters": {kind: {"rope_type": "default", "rope_theta": BASE}
                         for kind in ("full_attention", "sliding_attention")}},
)  # fmt: skip


class File:
    """One model file and what is asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.filler: Json = {}
        self.sizes = sizes(name)

    def built(self, rope: Json) -> Observed:
        """The model with these keys beside the sizes; raises what mlx-lm raises."""
        inner = {**copy.deepcopy(self.sizes), **copy.deepcopy(rope)}
        if not nested(self.name):
            return observe(inner)
        return observe({"model_type": self.name, "vocab_size": 512, "text_config": inner})

    def asked(self, rope: Json) -> Observed | str:
        """The same, or the error's words."""
        try:
            return self.built(rope)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever mlx-lm raises is data
            return f"{type(error).__name__}: {error}"[:120]

    def entry(self) -> Json:
        """The answers of this file."""
        found: Json = {}
        last = ""
        for extra in ({}, {"partial_rotary_factor": 0.5}):
            for filler in _FILLERS:
                built = self.asked({"rope_theta": BASE, **filler, **extra})
                if not isinstance(built, str):
                    break
                found.setdefault("stops", built)
                last = built
            else:
                continue
            break
        else:
            return {"unknown": last}
        self.filler = {**filler, **extra}
        if self.filler:
            found["needs"] = {
                key: "null" if value is None else "any" for key, value in self.filler.items()
            }
        else:
            found.pop("stops", None)
        if not built.turns:
            return {"rotates": False, **found}
        turn = next(iter(built.turns.values()))
        found["interleaved"] = turn.interleaved
        found["base"] = self._base()
        found["share"] = self._share()
        found["scaling"] = self._scaling()
        return found

    def _with(self, rope: Json) -> Json:
        return {**copy.deepcopy(self.filler), **rope}

    def _base(self) -> Json:
        """Where the base is read from, by kind of layer, and the default."""
        answer: Json = {"default": _bases(self.asked(self._with({}))), "keys": []}
        values = {key: 7000.0 + 11 * i for i, key in enumerate(BASE_KEYS)}
        for key, value in values.items():
            bases = _bases(self.asked(self._with({key: value})))
            if isinstance(bases, dict):
                hit = [kind for kind, base in bases.items() if abs(base - value) < 0.5]
                answer["keys"] += [[key, kind] for kind in hit]
        own = {k: v for k, v in self.filler.items() if k != "rope_parameters"}
        flat = self.filler.get("rope_parameters", {})
        flat = {} if "full_attention" in flat else flat
        inner = {"rope_type": "default", **flat, "rope_theta": INNER}
        answer["parameters"] = _hit(_bases(self.asked({**own, "rope_parameters": inner})), INNER)
        both = self.asked({**own, "rope_theta": BASE, "rope_parameters": inner})
        answer["both"] = _hit(_bases(both), INNER)
        by_kind = {
            kind: {"rope_type": "default", "rope_theta": value}
            for kind, value in (("full_attention", INNER), ("sliding_attention", LOCAL))
        }
        bases = _bases(self.asked({**own, "rope_parameters": by_kind}))
        answer["nested"] = (
            bases
            if isinstance(bases, str)
            else [
                kind
                for kind, value in bases.items()
                if abs(value - (LOCAL if kind == "sliding" else INNER)) < 0.5
            ]
        )
        return answer

    def _share(self) -> Json:
        """Channels of a head of 64 (or of 32 under latent attention), by the key that says half."""
        answer: Json = {}
        theta = {"rope_theta": BASE}
        bare = {k: v for k, v in self.filler.items() if k != "partial_rotary_factor"}
        flat = self.filler.get("rope_parameters", {})
        flat = {} if "full_attention" in flat else flat
        inner = {"rope_type": "default", **flat, **theta, "partial_rotary_factor": 0.25}
        wanted = {"default": {**bare, **theta}}
        wanted |= {key: {**bare, **theta, key: 0.25} for key in SHARE_KEYS}
        wanted["rope_parameters"] = {**bare, **theta, "rope_parameters": inner}
        for key, rope in wanted.items():
            found = self.asked(rope)
            if isinstance(found, str):
                answer[key] = found
            else:
                answer[key] = max(turn.channels for turn in found.turns.values())
        return {
            key: value
            for key, value in answer.items()
            if key in ("default",) or value != answer["default"]
        }

    def _scaling(self) -> Json:
        """Of each spelling and type: "as" rope_utils, "plain", "other", or the error."""
        answer: Json = {}
        for place, key in SPELLINGS:
            row: Json = {}
            for word, keys in TYPES.items():
                row[word] = self._cell(place, key, word, keys)
            answer[f"{place}.{key}"] = row
        return answer

    def _cell(self, place: str, key: str, word: str, keys: Json) -> Any:
        unscaled = self.asked(self._with({"rope_theta": BASE}))
        assert not isinstance(unscaled, str), unscaled
        pairs = next(iter(unscaled.turns.values())).channels // 2
        spelled = "rope_type" if key == "nested" else key
        rope = {spelled: word, "rope_theta": BASE, **keys}
        if word in ("longrope", "su"):
            rope |= {"short_factor": LISTS[0][:pairs], "long_factor": LISTS[1][:pairs]}
        if place == "rope_scaling":
            rope.pop("rope_theta")
        if "llama_4_scaling_beta" in (self.filler.get("rope_parameters") or {}):
            rope |= {"llama_4_scaling_beta": 0.1}
            rope.setdefault("original_max_position_embeddings", 1024)
        found, wants = self._scaled(place, rope, key == "nested"), []
        if isinstance(found, str) and (wanted := _WANTED.search(found)):
            wants = sorted({*re.findall(r"'(\w+)'", wanted[1])} - {*rope})
            rope |= dict.fromkeys(wants, ALPHA)
            again = self._scaled(place, rope, key == "nested")
            found, wants = (found, []) if isinstance(again, str) else (again, wants)
        if isinstance(found, str):
            return found
        # A filler that scales is no model without scaling.
        scaled = any(each in json.dumps(self.filler) for each in ("yarn", "longrope"))
        plain_turns = {} if scaled else unscaled.turns
        words = {
            _kind(layer): _word(turn, word, rope, plain_turns.get(layer))
            for layer, turn in found.turns.items()
        }
        different = sorted({*words.values()})
        answer: Any = words if len(different) > 1 else different[0]
        beside: Json = {"wants": wants} if wants else {}
        if word == "yarn":
            without = self._scaled(place, {**rope, "mscale_all_dim": 0}, key == "nested")
            changed = 1.0 if isinstance(without, str) else _ratio(found, without)
            if abs(changed - 1.0) > 1e-6:
                beside["softmax"] = round(changed, 6)
        return {"how": answer, **beside} if beside else answer

    def _scaled(self, place: str, rope: Json, by_kind: bool) -> Observed | str:
        beside = {k: v for k, v in self.filler.items() if not k.startswith("rope_")}
        said: Json = copy.deepcopy(rope)
        if by_kind:
            said = {"full_attention": said,
                    "sliding_attention": {"rope_type": "default", "rope_theta": BASE}}  # fmt: skip
        return self.asked({**beside, "rope_theta": BASE, place: said})


def _ratio(a: Observed, b: Observed) -> float:
    layer = next(iter(a.scales), None)
    if layer is None or layer not in b.scales:
        return 1.0
    return a.scales[layer] / b.scales[layer]


def _kind(layer: int) -> str:
    return "full" if layer < 0 else KINDS[layer % len(KINDS)].split("_")[0]


def _bases(found: Observed | str) -> dict[str, float] | str:
    if isinstance(found, str):
        return found
    bases = {_kind(layer): round(without_scaling(turn), 3) for layer, turn in found.turns.items()}
    return bases or "rotates nothing"


def _hit(bases: dict[str, float] | str, value: float) -> list[str] | str:
    if isinstance(bases, str):
        return bases
    return [kind for kind, base in bases.items() if abs(base - value) < 1.0]


def _word(turn: Turn, word: str, rope: Json, unscaled: Turn | None) -> str:
    """What the module of one layer computes, among the candidates."""
    base = without_scaling(turn)
    same = unscaled is not None and near(turn, unscaled)
    if (
        same
        or word in ("default", "mrope")
        or (near(turn, plain(turn, base)) and word != "dynamic")
    ):
        return "plain"
    grown = BASE * ALPHA ** (turn.channels / (turn.channels - 2))
    if "alpha" in rope and near(turn, plain(turn, grown)):
        return "alpha"
    if word in ("longrope", "su"):
        return _lists(turn, rope)
    known = {**rope, "type": word}
    theirs = initialize_rope(turn.channels, BASE, turn.interleaved, known, 8192)
    built = turn_of(theirs)
    if built is not None and near(turn, built):
        return "as"
    return "plain" if near(turn, plain(turn, base)) else "other"


def _lists(turn: Turn, rope: Json) -> str:
    """Which lists, which original length and which amplitude a longrope module takes."""
    for original in (1024, 2048, 4096):
        for mscale in (None, 1.3):
            for use in ("long_factor", "short_factor"):
                theirs = SuScaledRoPE(
                    turn.channels, BASE, 8192, original, rope[use], rope[use], None, mscale
                )
                same = turn_of(theirs)
                if same is not None and near(turn, same):
                    said = {1024: "dictionary", 2048: "top", 4096: "4096"}[original]
                    return f"{use} {said if mscale is None else 'long_mscale'}"
    return "other"


def table() -> Json:
    """All model files, and which types are served by another's file."""
    files = {name: File(name).entry() if _loads(name) else {"stops": "cannot be imported"}
             for name in model_files()}  # fmt: skip
    return {"version": version("mlx-lm"), "remapped": remapped(), "files": files}


def _requires(name: str) -> Json:
    """The keys without which its arguments cannot be made, beside those of the rotation."""
    if not _loads(name):
        return {}
    return {"requires": required(name)}


def _loads(name: str) -> bool:
    try:
        sizes(name)
    except (ImportError, SystemExit):
        return False
    return True


def read() -> Json:
    """The table as it was written, each file with its own block of schedules."""
    found: Json = json.loads(TABLE.read_text("utf-8"))
    shared = found.pop("scalings")
    for entry in found["files"].values():
        if "scaling" in entry:
            entry["scaling"] = shared[entry["scaling"]]
    return found


def write(found: Json) -> None:
    """A line a file; blocks of schedules that several files share stand once."""
    shared: list[str] = []
    lines = []
    for name, entry in sorted(found["files"].items()):
        block = json.dumps(entry.get("scaling"))
        if "scaling" in entry and block not in shared:
            shared.append(block)
        own = {**entry, "scaling": shared.index(block)} if "scaling" in entry else entry
        lines.append(f"  {json.dumps(name)}: {json.dumps(own)}")
    head = json.dumps({key: value for key, value in found.items() if key != "files"})
    scalings = ",\n  ".join(shared)
    files = ",\n".join(lines)
    text = f'{head[:-1]},\n "scalings": [\n  {scalings}\n ],\n "files": {{\n{files}\n }}}}\n'
    TABLE.write_text(text, "utf-8")


def main() -> None:
    """Write the table, or with names measure these files again and leave the others."""
    if names := sys.argv[1:]:
        found = read()
        found["files"] |= {name: File(name).entry() for name in names}
    else:
        found = table()
    found["files"] = {name: {**entry, **_requires(name)} for name, entry in found["files"].items()}
    write(found)


if __name__ == "__main__":
    main()
