# `make demo` and `make test` do everything on a fresh machine: environment, install, run.
PYTHON ?= python3
VENV ?= .venv
# Installed first, so that no dependency resolves torch by itself. On Linux PyPI's wheel is a CUDA build of
# several GB; for the CPU build pass TORCH="torch --index-url https://download.pytorch.org/whl/cpu".
TORCH ?= torch==2.13.0
# Seeds of the demo: below 3 the report gives no interval, each takes about as long again.
SEEDS ?= 2
# What tests/peers compares with, at the versions whose numbers it pins. Installed without their requirements: verl's
# want an older transformers, ray and wandb, and a Python below 3.13 that its losses do not need.
PEERS := verl==0.9.1 trl==1.16.0
BIN := $(VENV)/bin
SOURCES := pyproject.toml

.PHONY: demo test lint report clean

demo: $(VENV)/.installed
	$(BIN)/arena run --algos grpo,sampo,actfocus --envs all --tier cpu --num-seeds $(SEEDS) --name demo
	$(BIN)/arena report demo

test: $(VENV)/.peers lint
	scripts/chromium.sh
	$(BIN)/python -m pytest

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check

# The example report in reports/: the records of `make demo`, and a third seed of two environments.
report: demo
	$(BIN)/arena run --algos grpo,sampo,actfocus --envs sokoban,frozen_lake --tier cpu --num-seeds 3 --name demo
	$(BIN)/arena report demo --out reports/demo

$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet $(TORCH)
	touch $@

$(VENV)/.installed: $(VENV)/.torch $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.torch $(SOURCES) Makefile
	$(BIN)/python -m pip install --quiet --editable ".[test,alfworld,reasoning]"
	touch $@ $(VENV)/.installed

$(VENV)/.peers: $(VENV)/.tested Makefile
	$(BIN)/python -m pip install --quiet --editable ".[peers]"
	$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python $(PEERS)
	touch $@

clean:
	rm -rf $(VENV) build dist
