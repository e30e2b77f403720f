"""What llama.cpp knows of an architecture and a GGUF file leaves unsaid, as a table of facts.

Source: llama.cpp's `llama_model_rope_type` and the hyperparameter loaders of each architecture
(state of autumn 2026). Keys are the names that `general.architecture` holds.

Layouts are those of the file: converters reorder the query and key rows of Llama-like models,
so that "interleaved" here and "half" in the Hugging Face checkpoint are the same model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ropewalk.rope.sections import SectionLayout
from ropewalk.rope.spec import Layout, Placement
from ropewalk.short import short


@short
@dataclass(frozen=True, slots=True)
class WindowPattern:
    """Which layers see a window: all of every `period` but one, which sees everything.

    The full layer comes last in each period, or first when `full_first`. A period of 0 puts a
    window on every layer. `default_size` serves when the file states no window; without it, no
    stated window means no windows.
    """

    period: int
    full_first: bool = False
    default_size: int | None = None
    kind: Literal["sliding", "chunked", "two-sided"] = "sliding"

    def is_full(self, layer: int) -> bool:
        """Whether this layer, counted from 0, sees everything."""
        if self.period == 0:
            return False
        return layer % self.period == (0 if self.full_first else self.period - 1)


@short
@dataclass(frozen=True, slots=True)
class ArchFacts:
    """One architecture.

    `placement`: which channels of a head turn where not all do. `section_layout`: how llama.cpp
    deals out the pairs where the file has sections. `rotary` False: attention without rotary
    encoding. `local_base`: the base of windowed layers when the file states none (None: as
    elsewhere). `local_unscaled`: scaling leaves windowed layers alone. `full_has_position` False:
    layers that see everything are told no position.
    `nope_step`: every n-th layer is told none. `recurrent`: the kind of layer that has no
    attention, found by a zero in `attention.head_count_kv`; `all_recurrent`: no layer has any;
    `full_interval`: only every n-th layer has. `zero_kv_is_feed_forward`: such a zero with a
    feed-forward length is a layer that mixes no tokens. `alibi`: the largest bias where the
    file states none; `alibi_layers` limits that to models of so many layers. `softcap`: the cap
    on scores where the file states none. `attention_scale`: what replaces 1/sqrt(head_dim).
    `scale_by_width_layers`: models of so many layers scale by 1/sqrt(width / heads) instead.
    `temperature`: see `SoftmaxRule`. `mla`: latent attention, in which YaRN's amplitude moves
    into the softmax scale. `yarn_log_unit`: what one unit of mscale_all_dim is in
    `yarn_log_multiplier`, None where llama.cpp does not read that key. `yarn_reads`: the keys
    `rope.scaling.yarn_*` that it reads here; elsewhere a file may state them to no effect.
    """

    layout: Layout = "half"
    placement: Placement = "first"
    section_layout: SectionLayout = "chunked"
    rotary: bool = True
    windows: WindowPattern | None = None
    local_base: float | None = None
    local_unscaled: bool = False
    full_has_position: bool = True
    nope_step: int = 0
    recurrent: str = "recurrent"
    all_recurrent: bool = False
    full_interval: int = 0
    zero_kv_is_feed_forward: bool = False
    alibi: float = 0.0
    alibi_layers: int = 0
    softcap: float | None = None
    attention_scale: float | None = None
    scale_by_width_layers: int = 0
    temperature: tuple[float, float] | None = None
    mla: bool = False
    yarn_log_unit: float | None = None
    yarn_reads: frozenset[str] = frozenset()


_BETAS = frozenset({"beta_fast", "beta_slow"})
_NORM = ArchFacts("interleaved")
_NEOX = ArchFacts()
_NONE = ArchFacts(rotary=False)
_MLA = ArchFacts("interleaved", "last", mla=True, yarn_log_unit=0.1)
_QWEN3_NEXT = ArchFacts(recurrent="gated delta net", full_interval=4)
_QWEN35 = replace(_QWEN3_NEXT, section_layout="interleaved")
_ISWA4_NOPE = ArchFacts(windows=WindowPattern(4), full_has_position=False)

_INTERLEAVED_PLAIN = (
    "llama deci internlm2 minicpm xverse command-r olmo arctic deepseek chatglm glm4 granite "
    "granitemoe chameleon bailingmoe neo-bert arcee ernie4_5 ernie4_5-moe llama-embed maincoder "
    "llada starcoder"
).split()

_HALF_PLAIN = (
    "falcon dbrx bert jina-bert-v3 nomic-bert nomic-bert-moe eurobert stablelm bitnet qwen qwen2 "
    "qwen2moe dream qwen3 qwen3moe llada-moe rnd1 olmoe phi2 phimoe plamo gemma starcoder2 "
    "openelm gptneox codeshell orion nemotron exaone bailingmoe2 dots1 hunyuan-moe "
    "hunyuan-dense hunyuan_vl seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded jais2 "
    "glm4moe qwen2vl paddleocr falcon-h1 mimo2 step35"
).split()

ARCHITECTURES: dict[str, ArchFacts] = {
    **dict.fromkeys(_INTERLEAVED_PLAIN, _NORM),
    **dict.fromkeys(_HALF_PLAIN, _NEOX),
    # Learned positions, relative buckets or slopes: the file's tensors and keys say which.
    **dict.fromkeys("gpt2 mpt t5 t5encoder jais".split(), _NONE),
    "bloom": ArchFacts(rotary=False, alibi=8.0),
    "refact": ArchFacts(rotary=False, alibi=8.0),
    "jina-bert-v2": ArchFacts(rotary=False, alibi=8.0),
    "baichuan": ArchFacts("interleaved", alibi=8.0, alibi_layers=40),
    # Latent attention.
    **dict.fromkeys("deepseek2 mistral4".split(), _MLA),
    # Its loader does not ask for yarn_log_multiplier.
    "glm-dsa": replace(_MLA, yarn_log_unit=None),
    # Heads as in a plain model, in spite of the name.
    "deepseek2-ocr": _NORM,
    "minicpm3": ArchFacts(placement="last"),
    "plm": ArchFacts("interleaved", "last"),
    "mistral3": ArchFacts("interleaved", yarn_log_unit=1.0, yarn_reads=_BETAS),
    # Windows on some layers.
    "gemma2": ArchFacts(
        windows=WindowPattern(2, default_size=4096), softcap=50.0, scale_by_width_layers=46
    ),
    "gemma3": ArchFacts(
        windows=WindowPattern(6), local_base=1e4, local_unscaled=True, scale_by_width_layers=62
    ),
    "gemma3n": ArchFacts(
        windows=WindowPattern(5), local_base=1e4, local_unscaled=True, attention_scale=1.0
    ),
    "gemma4": ArchFacts(
        windows=WindowPattern(6), local_base=1e4, local_unscaled=True, attention_scale=1.0
    ),
    "gemma-embedding": ArchFacts(
        windows=WindowPattern(6, kind="two-sided"), local_base=1e4, local_unscaled=True
    ),
    "modern-bert": ArchFacts(
        windows=WindowPattern(3, full_first=True, kind="two-sided"), local_base=1e4
    ),
    "gpt-oss": ArchFacts(windows=WindowPattern(2)),
    "olmo2": ArchFacts(windows=WindowPattern(4), local_unscaled=True),
    "plamo3": ArchFacts(windows=WindowPattern(8), local_base=1e4),
    "phi3": ArchFacts(windows=WindowPattern(0)),
    "grok": ArchFacts(softcap=30.0, yarn_reads=_BETAS | {"ext_factor"}),
    # Layers without position.
    "cohere2": ArchFacts("interleaved", windows=WindowPattern(4), full_has_position=False),
    "exaone4": _ISWA4_NOPE,
    "exaone-moe": _ISWA4_NOPE,
    "afmoe": _ISWA4_NOPE,
    "smallthinker": ArchFacts(windows=WindowPattern(4, full_first=True), full_has_position=False),
    "smollm3": ArchFacts("interleaved", nope_step=4),
    "llama4": ArchFacts(
        "interleaved",
        windows=WindowPattern(4, default_size=8192, kind="chunked"),
        full_has_position=False,
        temperature=(8192.0, 0.1),
    ),
    # Layers without attention.
    "mamba": ArchFacts(recurrent="mamba", all_recurrent=True),
    "mamba2": ArchFacts(recurrent="mamba2", all_recurrent=True),
    **dict.fromkeys(
        "rwkv6 rwkv6qwen2 rwkv7 arwkv7".split(), ArchFacts(recurrent="rwkv", all_recurrent=True)
    ),
    "jamba": ArchFacts(rotary=False, recurrent="mamba"),
    "kimi-linear": ArchFacts(rotary=False, recurrent="kimi delta attention"),
    "nemotron_h": ArchFacts(rotary=False, recurrent="mamba2", zero_kv_is_feed_forward=True),
    "nemotron_h_moe": ArchFacts(rotary=False, recurrent="mamba2", zero_kv_is_feed_forward=True),
    "granitehybrid": ArchFacts("interleaved", recurrent="mamba2"),
    "plamo2": ArchFacts(recurrent="mamba"),
    "lfm2": ArchFacts(recurrent="short convolution"),
    "lfm2moe": ArchFacts(recurrent="short convolution"),
    "qwen3next": _QWEN3_NEXT,
    **dict.fromkeys("qwen35 qwen35moe".split(), _QWEN35),
    # Several axes of position, dealt out in turns.
    **dict.fromkeys("qwen3vl qwen3vlmoe".split(), ArchFacts(section_layout="interleaved")),
}

UNKNOWN_ARCHITECTURE = _NEOX
"""What is assumed of an architecture that is not in the table; a remark says so."""

GRANITE = frozenset({"granite", "granitemoe", "granitehybrid"})
"""Here `rope.scaling.finetuned` False means that there is no rotary encoding at all."""

MLP_HEADS = frozenset({"deci"})
"""Here a layer with no heads is a feed-forward layer, and not recurrent."""


_ITS_OWN = (
    "apertus arcee arctic chatglm cohere2 dbrx exaone exaone4 falcon gemma gemma2 glm4 granite "
    "granitemoe grok internlm2 jamba lfm2 llama mamba mamba2 minicpm minicpm3 mistral4 mpt "
    "nemotron olmo olmo2 olmoe openelm orion phi3 phimoe qwen2 qwen3 seed_oss smollm3 stablelm "
    "starcoder2 xverse"
).split()

ARCHITECTURE_OF: dict[str, str] = {
    **{name: name for name in _ITS_OWN},
    **dict.fromkeys(("mistral", "mixtral"), "llama"),
    **dict.fromkeys(("mistral3", "ministral3"), "mistral3"),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), "deepseek2"),
    "bloom": "bloom",
    "cohere": "command-r",
    "ernie4_5": "ernie4_5",
    "falcon_h1": "falcon-h1",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4",
    "glm4_moe": "glm4moe",
    "gpt2": "gpt2",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoehybrid": "granitehybrid",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    "llama4_text": "llama4",
    "modernbert": "modern-bert",
    "nemotron-nas": "deci",
    "olmo3": "olmo2",
    "phi": "phi2",
    "qwen2_moe": "qwen2moe",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
}
"""From a model type (of the language model's part) to the architecture of its GGUF file."""
