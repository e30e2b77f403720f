"""What llama.cpp knows of an architecture and a GGUF file leaves unsaid, as a table of facts.

Source: llama.cpp's `llama_model_rope_type` and the hyperparameter loaders of each architecture
(state of autumn 2026). Keys are the names that `general.architecture` holds.

Layouts are those of the file: converters reorder the query and key rows of Llama-like models,
so that "interleaved" here and "half" in the Hugging Face checkpoint are the same model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ropewalk.rope.log_rule import LogRule
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

    `placement`: which channels of a head are rotated where not all are. `section_layout`: how
    llama.cpp deals out the pairs where the file has sections. `rotary` False: attention without
    rotary encoding. `local_base`: the base of windowed layers when the file states none (None: as
    elsewhere). `local_unscaled`: scaling leaves windowed layers alone. `full_has_position` False:
    layers that see everything have no position.
    `nope_step`: every n-th layer has none. `recurrent`: the kind of layer that has no
    attention, found by a zero in `attention.head_count_kv`; `all_recurrent`: no layer has any;
    `full_interval`: only every n-th layer has. `zero_kv_is_feed_forward`: such a zero with a
    feed-forward length is a layer that mixes no tokens. `alibi`: the largest bias where the
    file states none; `alibi_layers` limits that to models of so many layers. `softcap`: the cap
    on scores where the file states none. `attention_scale`: what replaces 1/sqrt(head_dim).
    `scale_by_width_layers`: models of so many layers scale by 1/sqrt(width / heads) instead.
    `log_rule`: that of layers without position. `mla`: latent attention, in which YaRN's
    amplitude moves into the softmax scale. `yarn_log_unit`: what one unit of mscale_all_dim is in
    `yarn_log_multiplier`, None where llama.cpp does not read that key.
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
    log_rule: LogRule | None = None
    mla: bool = False
    yarn_log_unit: float | None = None


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
    "llada starcoder nanbeige"
).split()

_HALF_PLAIN = (
    "falcon dbrx bert jina-bert-v3 nomic-bert nomic-bert-moe eurobert stablelm bitnet qwen qwen2 "
    "qwen2moe dream qwen3 qwen3moe llada-moe rnd1 olmoe phi2 phimoe plamo gemma starcoder2 "
    "openelm gptneox codeshell orion nemotron exaone bailingmoe2 dots1 hunyuan-moe "
    "hunyuan-dense hunyuan_vl seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded jais2 "
    "glm4moe qwen2vl paddleocr falcon-h1 mimo2 step35 hy_v3 minimax-m3"
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
    **dict.fromkeys("deepseek2 deepseek32 mistral4".split(), _MLA),
    # Its loader does not ask for yarn_log_multiplier.
    "glm-dsa": replace(_MLA, yarn_log_unit=None),
    # Heads as in a plain model, in spite of the name.
    "deepseek2-ocr": _NORM,
    "minicpm3": ArchFacts(placement="last"),
    "plm": ArchFacts("interleaved", "last"),
    "mistral3": ArchFacts("interleaved", yarn_log_unit=1.0),
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
    "mellum": ArchFacts(windows=WindowPattern(4), local_unscaled=True),
    "laguna": ArchFacts(windows=WindowPattern(4, full_first=True), local_unscaled=True),
    "plamo3": ArchFacts(windows=WindowPattern(8), local_base=1e4),
    "phi3": ArchFacts(windows=WindowPattern(0)),
    "grok": ArchFacts(softcap=30.0),
    # Layers without position.
    "cohere2": ArchFacts("interleaved", windows=WindowPattern(4), full_has_position=False),
    "exaone4": _ISWA4_NOPE,
    "exaone-moe": _ISWA4_NOPE,
    "afmoe": _ISWA4_NOPE,
    "muse-glimmer": ArchFacts("interleaved", windows=WindowPattern(4), full_has_position=False),
    "smallthinker": ArchFacts(windows=WindowPattern(4, full_first=True), full_has_position=False),
    "smollm3": ArchFacts("interleaved", nope_step=4),
    "llama4": ArchFacts(
        "interleaved",
        windows=WindowPattern(4, default_size=8192, kind="chunked"),
        full_has_position=False,
        log_rule=LogRule("in steps", start=8192.0, scale=0.1, first=1),
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
    "afmoe apertus arcee arctic baichuan bitnet bloom chatglm cohere2 dbrx dots1 ernie4_5 "
    "exaone exaone4 falcon gemma gemma2 gemma4 glm4 gpt2 granite granite_swa granitemoe grok "
    "hrm_text hunyuan_vl hy_v3 hy_v4 internlm2 jamba laguna lfm2 llama mamba mamba2 mellum "
    "minicpm minicpm3 mistral3 mistral4 mpt nemotron nemotron_h olmo olmo2 olmoe openelm orion "
    "phi3 phimoe qwen qwen2 qwen3 seed_oss smollm3 stablelm starcoder2 xverse"
).split()

ARCHITECTURE_OF: dict[str, str] = {
    **{name: name for name in _ITS_OWN},
    "bailing_moe": "bailingmoe",
    "bailing_moe_v2": "bailingmoe2",
    **dict.fromkeys("bamba granitemoehybrid".split(), "granitehybrid"),
    "cohere": "command-r",
    "cohere2_moe": "cohere2moe",
    **dict.fromkeys(
        "deepseek_v2 deepseek_v3 glm4_moe_lite kimi_k2 kimi_k25 sarvam_mla youtu".split(),
        "deepseek2",
    ),
    "deepseek_v32": "deepseek32",
    "deepseek_v4": "deepseek4",
    **dict.fromkeys("dots3_note dots3_note_text".split(), "dots3note"),
    "ernie4_5_moe": "ernie4_5-moe",
    **dict.fromkeys("exaone4_5 exaone4_5_text".split(), "exaone4"),
    "exaone_moe": "exaone-moe",
    "falcon_h1": "falcon-h1",
    "falcon_mamba": "mamba",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    **dict.fromkeys("gemma4_assistant gemma4_unified_assistant".split(), "gemma4-assistant"),
    **dict.fromkeys("gemma4_text gemma4_unified".split(), "gemma4"),
    "glm": "chatglm",
    **dict.fromkeys("glm4_moe glm4v_moe glm4v_moe_text sarvam_moe solar_open".split(), "glm4moe"),
    **dict.fromkeys("glm4v glm4v_text glm_ocr".split(), "glm4"),
    "glm5_next": "glm5-next",
    "glm_moe_dsa": "glm-dsa",
    "gpt_bigcode": "starcoder",
    "gpt_neox": "gptneox",
    "gpt_oss": "gpt-oss",
    "granitemoe_swa": "granite_swa",
    "granitemoeshared": "granitemoe",
    "hunyuan_v1_dense": "hunyuan-dense",
    "hunyuan_v1_moe": "hunyuan-moe",
    **dict.fromkeys("internlm3 mistral mixtral".split(), "llama"),
    "kimi_linear": "kimi-linear",
    "lfm2_moe": "lfm2moe",
    "llama4_text": "llama4",
    **dict.fromkeys("mimo_v2 mimo_v2_flash".split(), "mimo2"),
    "minimax_m2": "minimax-m2",
    "minimax_m3_vl": "minimax-m3",
    "ministral3": "mistral3",
    "modernbert": "modern-bert",
    "muse_glimmer": "muse-glimmer",
    "nemotron-nas": "deci",
    "olmo3": "olmo2",
    "paddleocr_vl": "paddleocr",
    "phi": "phi2",
    **dict.fromkeys("qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text".split(), "qwen2vl"),
    "qwen2_moe": "qwen2moe",
    **dict.fromkeys("qwen3_5 qwen3_5_text".split(), "qwen35"),
    **dict.fromkeys("qwen3_5_moe qwen3_5_moe_text".split(), "qwen35moe"),
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    **dict.fromkeys("qwen3_vl qwen3_vl_text".split(), "qwen3vl"),
    **dict.fromkeys("qwen3_vl_moe qwen3_vl_moe_text".split(), "qwen3vlmoe"),
    **dict.fromkeys("qwen4_exp qwen4_exp_text".split(), "qwen4exp"),
    **dict.fromkeys("step3p5 step3p7".split(), "step35"),
}
"""From a model type (of the language model's part) to the architecture of its GGUF file.

From the classes that llama.cpp's converter registers (`conversion/`): by the class that
transformers 5.24 has for the type, and for types of other code by the class that their files name.
"""
