# Every target sets up what it needs. PYTHON picks the interpreter, EXTRAS what is installed beside the core.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
DATA ?= $(or $(PILOTAGE_DATA),../shared/data)

GO_TOOL = cd tests/tools && GOTOOLCHAIN=local GOWORK=off GOFLAGS=-modcacherw $(abspath $(BIN))/go build -trimpath -o $(abspath $@)
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: help quickstart install dev tools test lint format bench lab-demo parity manifests docs picture packages coverage mutation clean
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

# Real programs that tests use, in the versions of tests/tools/go.mod. The Go compiler comes with the development packages.
$(BIN)/helm: tests/tools/go.mod | $(VENV)/.installed-dev
	$(GO_TOOL) helm.sh/helm/v3/cmd/helm
$(BIN)/kustomize: tests/tools/go.mod | $(VENV)/.installed-dev
	$(GO_TOOL) sigs.k8s.io/kustomize/kustomize/v5

tools: dev $(BIN)/helm $(BIN)/kustomize  ## Chromium, stress-ng, ZooKeeper, Prometheus (Debian packages), helm, kustomize and a control plane (built), for tests
	$(BIN)/pilotage lab build --plugin
	{ command -v chromium && command -v stress-ng && command -v prometheus && test -e /usr/share/java/zookeeper.jar; } >/dev/null || \
		{ $(SUDO) apt-get update -qq && \
		$(SUDO) apt-get install -y -qq --no-install-recommends chromium prometheus stress-ng zookeeper; }

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

lab-demo:  ## a control plane, 500 pods, our policies beside kube-scheduler (builds the programs once)
	$(MAKE) dev
	$(BIN)/pilotage lab demo

parity: dev  ## all 225 published runs, bit by bit (needs the public data, see docs/data.md)
	PILOTAGE_DATA=$(abspath $(DATA)) $(BIN)/python -m pytest tests/parity -n $(JOBS) -m "data or not data" --all-rows -q

# Plain manifests of the chart, for those without Helm: a directory of deploy/kustomize, and the values it is made with.
RENDER = $(BIN)/helm template pilotage deploy/chart --namespace pilotage --kube-version 1.36.3 --set tls.source=secret
ALONE = scheduler.enabled=false
manifests: $(BIN)/helm  ## the chart as manifests, into deploy/kustomize
	$(RENDER) > deploy/kustomize/base/pilotage.yaml
	$(RENDER) --set scheduler.mode=advise > deploy/kustomize/advise/pilotage.yaml
	$(RENDER) --set $(ALONE),service.enabled=true > deploy/kustomize/service/pilotage.yaml
	$(RENDER) --set $(ALONE),service.enabled=true,pluginScheduler.enabled=true \
		> deploy/kustomize/plugin-scheduler/pilotage.yaml
	$(RENDER) --set $(ALONE),dashboard.enabled=true,dashboard.tokenSecret=pilotage-dashboard-token \
		> deploy/kustomize/dashboard/pilotage.yaml

docs: dev  ## the documentation as pages, into out/docs
	$(BIN)/mkdocs build --quiet --strict --site-dir out/docs

picture: quickstart dev  ## docs/report.png: the first screen of the quickstart's report
	$(BIN)/python docs/_picture.py out/quickstart/report.html docs/report.png

packages: dev  ## wheel and sdist, into out/packages
	$(BIN)/python -m hatchling build -d out/packages

# What is measured, and in which processes, says [tool.coverage] of pyproject.toml.
coverage: tools  ## branch coverage of the whole suite, at least 90 %, into out/coverage
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
		--cov --cov-report=term --cov-report=html

mutation: dev  ## kernels, cache and chooser changed in places: the tests must notice, into out/mutation
	PYTHONPATH=tests $(BIN)/python -m mutation

clean:  ## remove the environment and all results
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
