"""Whether input table and output head are one: the flag a family reads, what it takes without.

Measured on transformers 5.24: every language model of the library was made without weights, with
`tie_word_embeddings` unsaid, true and false, outside and inside its text part, and its two tables
were compared. The sets below hold what came out; the tests make a sample of the models again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.dialects.hf.family import TEXT_PARTS
from ropewalk.dialects.values import Section
from ropewalk.short import short

TIED = frozenset(
    """
    albert aya_vision bart bert bert-generation big_bird biogpt blenderbot blenderbot-small blip
    blip_text_model bloom camembert canary cohere cohere2 cohere2_moe cohere2_vision
    cohere_compass_text convbert csm ctrl d_fine dab-detr data2vec-text deberta deberta-v2
    deepseek_vl deepseek_vl_hybrid deformable_detr deimv2 diffusion_gemma diffusion_gemma_text
    distilbert electra ernie ernie4_5 ernie4_5_moe ernie4_5_vl_moe ernie4_5_vl_moe_text esm
    falcon falcon_mamba flaubert flava florence2 fnet fun_asr_nano funnel gemma gemma2 gemma3
    gemma3_text gemma3n gemma3n_text gemma4 gemma4_assistant gemma4_text gemma4_unified
    gemma4_unified_assistant gemma4_unified_text glmasr got_ocr2 gpt-sw3 gpt2 gpt_bigcode
    gpt_neo gpt_neox_japanese granite_docling granite_docling_text granite_speech
    granite_speech5_ctc granite_speech_plus granite_swa grounding-dino gte hunyuan_vl
    hunyuan_vl_text hyperclovax_vision_v2 ibert internvl janus jetmoe jina_embeddings_v3
    kimi_k25 kosmos-2 kosmos_2_5_text_model kosmos_2_text_model lara_mini layoutlm led lfm2
    lfm2_moe lfm2_vl lfm3 lfm3_vl lighton_ocr longformer lxmert m2m_100 mamba marian mbart
    megatron-bert mimi mimi_decoder mimi_encoder minicpm3 minicpm_ocr mistral3 mm-grounding-dino
    mobilebert modernbert modernbert-decoder moonshine moss_transcribe_diarize mpnet mpt mra mvp
    neomme nllb-moe nomic_bert nystromformer openai-gpt opt ovis2 paddleocr_vl paddleocr_vl_text
    paligemma pe_audio_video pegasus pegasus_x plbart pp_chart2table pp_doclayout_v3
    pp_doclayout_v4 prophetnet qwen2_5_omni_text qwen3_asr qwen3_vl_moe_text recurrent_gemma
    roberta roberta-prelayernorm roc_bert roformer ropewalk_decoder rt_detr_v2 sam sam_hq
    seamless_m4t seamless_m4t_v2 smollm3 speech_to_text speecht5 squeezebert starcoder2
    switch_transformers t5_gemma_module t5gemma2 t5gemma2_decoder t5gemma2_encoder t5gemma2_text
    tapas trocr vaultgemma vilt visual_bert voxtral_realtime whisper xglm xlm xlm-roberta
    xlm-roberta-xl xlnet xmod yoso youtu zamba zamba2 zaya
    """.split()
)
"""Types that obey the flag, and are tied without it."""

UNTIED = frozenset(
    """
    EvollaModel afmoe apertus apertus1p5 apertus1p5_text arcee aria aria_text axk1 axk2 bamba
    beam bitnet blt blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher
    bridgetower chameleon codegen cohere_asr cohere_compass cosmos3_edge_text cosmos3_omni cwm
    dbrx deepseek_ocr2 deepseek_ocr2_encoder deepseek_ocr2_text deepseek_v2 deepseek_v3
    deepseek_v32 deepseek_v4 diffllama doge dory dots1 dots3_note dots3_note_text emu3
    emu3_text_model eurobert exaone exaone4 exaone4_5 exaone_moe falcon_h1 fast_vlm flex_olmo
    flint fsmt fuyu git glm glm4 glm46v glm4_moe glm4_moe_lite glm4v glm4v_moe glm4v_moe_text
    glm5_next glm5_next_text glm_image glm_moe_dsa glm_ocr glmga gpt_neox gpt_oss gptj granite
    granite4_vision granite4_vision_text granitemoe granitemoe_swa granitemoehybrid
    granitemoeshared helium higgs_audio_v2 hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4
    hy_v4_vl hy_v4_vl_text hyperclovax idefics idefics2 idefics3 imagegpt internlm3 iquestcoder
    jais2 jamba kolibri1 kyutai_speech_to_text laguna llama llama4_text llava llava_next
    llava_next_video llava_onevision longcat_flash mamba2 mellum mimo_v2_flash minicpmv4_6
    minicpmv4_7 minimax minimax_m2 minimax_m3_vl minimax_m3_vl_text ministral ministral3 mistral
    mistral4 mistral_large4 mistral_large4_text mixtral mllama_text_model modernvbert
    molmo2_text moonshine_streaming moshi_depth muse_glimmer muse_glimmer_text muse_spark_text
    musicgen_decoder musicgen_melody_decoder nanochat nemotron neucodec olmo olmo2 olmo3
    olmo_hybrid olmoe openai_privacy_filter persimmon phi phi3 phi4_multimodal phimoe pix2struct
    pix2struct_text_model pp_formulanet_text qianfan_ocr qwen2 qwen2_5_omni_talker
    qwen2_5_omni_thinker qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_5 qwen3_5_moe
    qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor
    qwen3_omni_moe_talker_text qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp
    qwen4_exp_text reformer rwkv sarvam_mla sarvam_moe seed_oss shieldgemma2 smolvlm solar_open
    stablelm step3p5 step3p7 ultrabert ultravbert unlimited_ocr unlimited_ocr_text video_llama_3
    video_llava vipllava xcodec2
    """.split()
)
"""Types that obey the flag, and are untied without it."""

EITHER = frozenset(
    """
    fast_vlm glm4v glm4v_moe glm_ocr hunyuan_vl kosmos-2 llava llava_next_video llava_onevision
    minimax_m3_vl paddleocr_vl qwen2_5_vl qwen2_vl shieldgemma2 video_llama_3
    """.split()
)
"""Types that are tied where the flag is true outside the text part, or inside it."""

TEXT = frozenset(
    """
    blip-2 instructblip instructblipvideo kosmos-2.5 llama4 qwen2_5_omni qwen3_omni_moe
    vibevoice
    """.split()
)
"""Types whose text part is a model of its own, which reads its own flag and nothing else."""

ALWAYS = frozenset(
    """
    longt5 mt5 t5 udop umt5
    """.split()
)
"""Types that are tied whatever the flag says."""

NEVER = frozenset(
    """
    audioflamingo3 bailing_hybrid bigbird_pegasus cosmos3_edge cpmant esmc evolla inkling2
    inkling2_loop inkling2_loop_text inkling2_text inkling_mm_model inkling_text kimi_linear
    luke mllama molmo2 moshi muse_spark musicflamingo nemo_speechlm nemotron_h omniasr pop2piano
    qwen2_audio rembert t5gemma vibevoice_asr voxtral xlstm
    """.split()
)
"""Types that are untied whatever the flag says."""


@short
@dataclass(frozen=True, slots=True)
class Tying:
    """What a configuration, and the family it names, say of the two tables.

    `family` is the model type that decides, None for none. `flag` is tie_word_embeddings where
    the family reads it, None where it is unsaid or not read; `default` what the family takes
    then, None where the family is not known. `fixed`: the family reads no flag.
    """

    family: str | None
    flag: bool | None
    default: bool | None
    fixed: bool = False

    @property
    def tied(self) -> bool | None:
        """Whether a head that is not stored is the input table; None for not known."""
        return self.default if self.flag is None else self.flag


UNKNOWN = Tying(None, None, None)
"""Without a configuration."""


def tying(config: Section) -> Tying:
    """The rule for a whole configuration. Raises ConfigError for a flag that is none."""
    family = config.text("model_type")
    part = _text_part(config)
    if family in ALWAYS or family in NEVER:
        return Tying(family, None, family in ALWAYS, fixed=True)
    flag = config.flag("tie_word_embeddings")
    if family is not None and family.startswith("lfm2"):
        older = config.flag("tie_embedding")
        flag = flag if older is None else older
    if part is not None:
        inner = tying(part)
        if family is None or family in TEXT or (family == "perception_lm" and flag is None):
            return inner
        if family in EITHER:
            return _either(family, flag, inner)
        if family not in TIED and family not in UNTIED:
            # Nobody here knows where it looks: what is said nearest to the tables counts.
            return Tying(family, flag if inner.flag is None else inner.flag, None)
    known = family in TIED or family in UNTIED
    return Tying(family, flag, family in TIED if known else None)


def _either(family: str, flag: bool | None, inner: Tying) -> Tying:
    own = family in TIED if flag is None else flag
    found = own or bool(inner.tied)
    unsaid = flag is None and inner.flag is None
    return Tying(family, None, found) if unsaid else Tying(family, found, family in TIED)


def _text_part(config: Section) -> Section | None:
    key = next((key for key in TEXT_PARTS if config.has(key)), None)
    return None if key is None else config.section(key)
