# Needs python3 (3.11 or newer), pip and make; everything else is installed into .venv by uv.
PYTHON ?= python3
BIN    := .venv/bin
UV     := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
UVDEP  := $(if $(findstring .uv/,$(UV)),.uv/bin/uv)
# Without bytecode files every import of torch costs two seconds more.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help setup quickstart test lint types format results methods lock clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready  ## create the environment

quickstart: .venv/.ready  ## set up, train ProCo and a baseline on the bundled images, compare them
	@$(BIN)/proco compare quickstart/logit_adjustment quickstart/proco --seeds 0 --out runs

test: .venv/.ready  ## run the tests
	$(BIN)/python -m pytest -q -n auto

lint: .venv/.ready  ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.ready  ## check the types of src, strictly
	$(BIN)/mypy

format: .venv/.ready  ## rewrite the files in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

results: .venv/.ready  ## write docs/results.md and its figures from results/
	$(BIN)/python -m tools.make_results

methods: .venv/.ready  ## write docs/methods.md from the registered methods
	$(BIN)/python -m tools.make_methods

lock: $(UVDEP)  ## renew requirements.lock from pyproject.toml
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url --extra dev -o requirements.lock pyproject.toml

clean:  ## remove the environment and the caches
	rm -rf .venv .uv .mypy_cache .pytest_cache .ruff_cache

.uv/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "proco needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv .uv
	.uv/bin/python -m pip install -q 'uv>=0.9'

.venv/.ready: requirements.lock pyproject.toml $(UVDEP)
	test -x $(BIN)/python || $(UV) venv -q --python $(PYTHON) .venv
	$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements.lock
	$(UV) pip install -q --python $(BIN)/python --no-deps -e .
	@touch $@
