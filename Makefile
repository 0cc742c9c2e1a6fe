# Every target sets up what it needs. PYTHON picks the interpreter, EXTRAS what is installed beside the core.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
DATA ?= $(or $(PILOTAGE_DATA),../shared/data)

HELM_VERSION := v3.22.0
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: quickstart install dev tools test lint format bench parity clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The stamp depends on what decides the installed packages; code itself is installed in editable form.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/.installed

install: $(VENV)/.installed  ## the core, into .venv
dev: $(VENV)/.installed-dev  ## the core and all checks, into .venv

quickstart: install  ## install, compare policies on a generated GPU cluster, print where the report is
	$(BIN)/pilotage compare --trace openb-like --policies fgd,pilotage-pack,best-fit,least-allocated,random \
		--seeds 42-46 --out out/quickstart

# Real programs that tests use. The Go compiler comes with the development packages.
$(BIN)/helm: | $(VENV)/.installed-dev
	GOBIN=$(abspath $(BIN)) GOTOOLCHAIN=local GOFLAGS=-trimpath $(BIN)/go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

tools: dev $(BIN)/helm  ## Chromium (Debian package) and helm (built), for tests
	command -v chromium >/dev/null || \
		{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq --no-install-recommends chromium; }

test: tools  ## lint and every test
	$(MAKE) lint
	$(BIN)/pilotage doctor --compile
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: dev  ## ruff, mypy --strict, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: dev  ## rewrite the layout of all files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install  ## the simulator's benchmark
	$(BIN)/pilotage bench sim

parity: dev  ## all 225 published runs, bit by bit (needs the public data, see docs/data.md)
	PILOTAGE_DATA=$(abspath $(DATA)) $(BIN)/python -m pytest tests/parity -n $(JOBS) -m "data or not data" --all-rows -q

clean:  ## remove the environment and all results
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
