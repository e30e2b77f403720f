"""transformers' own side: its registered configurations and the tables of its rotary modules."""

from __future__ import annotations

import copy
import importlib
import inspect
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from huggingface_hub.errors import StrictDataclassError

Table = tuple[list[float], float]
"""Inverse frequencies and what multiplies cos and sin."""

LISTED = Path(__file__).parent.parent / "left_out.toml"


SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
    "yarn, mscale pair": {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 2048,
        "mscale": 0.707,
        "mscale_all_dim": 1.0,
        "beta_fast": 24.0,
        "beta_slow": 2.0,
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 4096,
    },
    "longrope": {"rope_type": "longrope"},
}

KEPT = ("rope_theta", "partial_rotary_factor", "mrope_section")

REFUSALS = (
    *(ValueError, LookupError, AttributeError, TypeError, RuntimeError),
    *(StrictDataclassError, FutureWarning),
)
"""How a class or its rotary module refuses a scaling, in so many words or by failing."""


class Upstream:
    """What the installed transformers has, asked of its own classes; no model is ever built."""

    def __init__(self) -> None:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        self.release: str = transformers.__version__
        self.refused: dict[tuple[str, str], str] = {}
        self.listed: dict[str, Any] = tomllib.loads(LISTED.read_text(encoding="utf-8"))

    def config_class(self, model_type: str) -> Any:
        """The configuration class of a model type."""
        from transformers import CONFIG_MAPPING

        return CONFIG_MAPPING[model_type]

    def registered(self) -> list[str]:
        """One model type for each registered class with a `rope_parameters` field."""
        from transformers import CONFIG_MAPPING

        types: dict[Any, str] = {}
        for model_type in CONFIG_MAPPING:
            config = CONFIG_MAPPING[model_type]
            if any("rope_parameters" in getattr(c, "__annotations__", {}) for c in config.__mro__):
                types.setdefault(config, model_type)
        return sorted(types.values())

    def config(self, model_type: str, **changes: Any) -> Any:
        """A configuration with its class's defaults, in the shape that `left_out.toml` gives it."""
        shape = self.listed["shapes"].get(model_type, {})
        return self.config_class(model_type)(**{**shape, **changes})

    def rotary_module(self, config: Any) -> Any:
        """The model's own rotary module."""
        return self._rotary_class(config)(config)

    def tables(self, config: Any) -> dict[str, Table]:
        """The tables of the model's own rotary module, by kind of layer, "" for all layers."""
        module = self.rotary_module(config)
        if hasattr(module, "inv_freq"):
            amplitude = float(getattr(module, "attention_scaling", 1.0))
            return {"": (module.inv_freq.flatten().tolist(), amplitude)}
        if hasattr(module, "freqs_ci"):
            # Llama 4's images: turned by 1 along x at the first patch, x before y.
            turned = module.freqs_ci[0].flatten().angle()
            return {"": (turned[: len(turned) // 2].tolist(), 1.0)}
        kinds = [
            name.removesuffix("_inv_freq")
            for name, _ in module.named_buffers()
            if name.endswith("_inv_freq") and not name.endswith("original_inv_freq")
        ]
        return {
            kind: (
                getattr(module, f"{kind}_inv_freq").tolist(),
                float(getattr(module, f"{kind}_attention_scaling")),
            )
            for kind in kinds
        }

    def at_length(self, config: Any, kind: str, length: int) -> Table:
        """The table of a schedule that depends on the length, by the function that computes it."""
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        rope = config.rope_parameters[kind] if kind else config.rope_parameters
        rule = ROPE_INIT_FUNCTIONS[rope["rope_type"]]
        inv_freq, amplitude = rule(config, None, seq_len=length, layer_type=kind or None)
        return inv_freq.tolist(), float(amplitude)

    def variants(self, model_type: str) -> Iterator[tuple[str, Any]]:
        """The default configuration of a type, and one for each scaling that its class accepts."""
        default = self.config(model_type)
        yield "as it is", default
        if default.default_rope_type == "axial":
            return
        pairs = {kind: len(table[0]) for kind, table in self.tables(default).items()}
        for name, scaling in SCALINGS.items():
            rope, claimed = copy.deepcopy(default.rope_parameters), _claimed(default)
            if "" in pairs:
                rope = _scaled(rope, pairs[""], scaling, claimed)
            else:
                rope |= {k: _scaled(rope[k], n, scaling, claimed) for k, n in pairs.items()}
            try:
                config = self.config(model_type, rope_parameters=rope)
                self.tables(config)
            except REFUSALS as error:
                self.refused[model_type, name] = f"{type(error).__name__}: {error}"
                continue
            yield name, config

    def flat(self, model_type: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Configurations with one dictionary for all layers, in both spellings, as they are read.

        Beside each stands what a file would hold: nothing there has been put in its place by the
        class. Only the scalings whose numbers need no shape.
        """
        default = self.config(model_type)
        shape = self.listed["shapes"].get(model_type, {})
        stated = {k: v for k, v in default.to_dict().items() if k != "rope_parameters"}
        for name in ("linear", "yarn", "llama3"):
            rope = {**SCALINGS[name], "rope_theta": 77_777.0}
            for key in ("rope_parameters", "rope_scaling"):
                if (model_type, key) == ("mistral4", "rope_scaling"):
                    # A listed defect.
                    continue
                changes = {"rope_parameters": None, key: rope}
                try:
                    made = self.config_class(model_type)(**{**shape, **copy.deepcopy(changes)})
                    self.tables(made)
                except REFUSALS as error:
                    self.refused[model_type, f"{name}, {key}"] = f"{type(error).__name__}: {error}"
                    continue
                yield f"{name}, {key}", made, {**stated, key: rope}

    def _rotary_class(self, config: Any) -> Any:
        """The rotary class made for this configuration, else the only one that takes it."""
        found = {
            name: kind
            for name, kind in vars(self._modeling(config)).items()
            if name.endswith("RotaryEmbedding") and inspect.isclass(kind)
        }
        names = [base.__name__ for base in type(config).__mro__]
        fitting = [kind for kind in found.values() if _wanted_config(kind) in names[:1]]
        if not fitting:
            fitting = [k for name, k in found.items() if "Vision" not in name and "DiT" not in name]
        if not fitting:
            raise LookupError(f"no rotary class among {sorted(found)}")
        return fitting[0]

    def _modeling(self, config: Any) -> ModuleType:
        """The module of the model that serves this configuration."""
        from transformers import MODEL_MAPPING

        name = type(config).__module__.replace("configuration_", "modeling_")
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            model = MODEL_MAPPING[type(config)]
            return importlib.import_module(model.__module__)


def _claimed(config: Any) -> int:
    """max_position_embeddings; configurations of images and sound may have none."""
    return int(getattr(config, "max_position_embeddings", None) or 4096)


def _wanted_config(rotary: Any) -> str:
    """The name of the configuration class that a rotary class says it takes."""
    parameters = list(inspect.signature(rotary.__init__).parameters.values())
    wanted = parameters[1].annotation if len(parameters) > 1 else None
    return getattr(wanted, "__name__", str(wanted))


def _scaled(
    rope: Mapping[str, Any], pairs: int, scaling: Mapping[str, Any], claimed: int
) -> dict[str, Any]:
    """A rope dictionary with this scaling in place of its own."""
    kept = set(KEPT)
    if rope.get("rope_type") == "proportional":
        # There the key says how many pairs turn; elsewhere how wide the turning part is.
        kept.remove("partial_rotary_factor")
    lists: dict[str, Any] = {}
    if scaling["rope_type"] == "longrope":
        lists = {
            "short_factor": [1.0 + i / 64 for i in range(pairs)],
            "long_factor": [1.0 + i / 2 for i in range(pairs)],
            "original_max_position_embeddings": max(claimed // 4, 2),
        }
    return {**{k: rope[k] for k in kept if k in rope}, **scaling, **lists}


@pytest.fixture(scope="session")
def upstream() -> Upstream:
    """The installed transformers, as these tests ask it."""
    return Upstream()
