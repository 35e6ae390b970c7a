# Greenlane's commands: people and CI call the same. `make help` lists them.
#
#   PYTHON=/path/to/python3.12   interpreter to build with (else scripts/toolchain chooses)
#   VENV=.venv                   where it is installed
#   ARGS="..."                   handed to demo, prove, bench, pytest

SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:

VENV ?= .venv
export CARGO_TARGET_DIR ?= target
BIN := $(VENV)/bin
LOCKED := $(if $(wildcard Cargo.lock),--locked)
RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) $(shell find crates -name '*.rs' -o -name Cargo.toml)
EXTRAS := demo,gunicorn,lab
PYTEST := $(BIN)/python -m pytest
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# PYTHON= given and the environment made by another: it is made anew.
MADE_BY_PYTHON = grep -qsxF "executable = $$(PYTHON=$(PYTHON) scripts/toolchain python)" $(VENV)/pyvenv.cfg
$(if $(PYTHON),$(shell ($(MADE_BY_PYTHON)) 2>/dev/null || rm -f $(VENV)/.deps.stamp))

# A shell's active environment or PYTHONPATH must not decide what is built or tested.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

.PHONY: help build demo test test-python test-rust test-system test-all soak prove bench lint format types docs wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: $(VENV)/.native.stamp ## .venv with dependencies, native module (release) and bin/greenlane

$(VENV)/.deps.stamp: pyproject.toml
	@scripts/toolchain build
	@$(if $(PYTHON),$(MADE_BY_PYTHON),$(BIN)/python -c '' 2>/dev/null) \
		|| { python=$$(scripts/toolchain python) && "$$python" -m venv --clear $(VENV); }
	@# --group is pip 25.1's; ensurepip's own is often older.
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev
	@touch $@

$(VENV)/.native.stamp: $(VENV)/.deps.stamp $(RUST_SOURCES)
	@scripts/toolchain build
	PIP_QUIET=1 VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release $(LOCKED) --extras $(EXTRAS)
	@touch $@

demo: build ## the pricing service under five servers, measured side by side (under 4 minutes)
	$(BIN)/greenlane demo pricing $(ARGS)

test: test-rust test-python ## cargo test, then pytest without servers and soak

test-rust: build
	cargo test --workspace $(LOCKED) --quiet

test-python: build
	$(PYTEST) -m "not system and not soak" $(ARGS)

test-system: build ## tests with real servers and a browser (installs missing Debian packages)
	scripts/servers
	$(PYTEST) -m "system and not soak" --timeout 180 $(ARGS)

soak: build ## minutes: a service with client aborts and thread deaths; workers that are killed; 20,000 orders under faults
	$(PYTEST) -m soak --timeout 600 $(ARGS)

test-all: test ## the tests on each supported CPython of this machine (3.11, 3.12, 3.13), each in its own .venv-3.x
	@scripts/toolchain interpreters | { failed=""; while read -r version python; do \
		echo "== CPython $$version ($$python)"; \
		$(MAKE) --no-print-directory test-python VENV=.venv-$$version PYTHON=$$python \
			CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cpython-$$version </dev/null || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "failed on CPython$$failed" >&2; exit 1; }; }

prove: build ## each claim of the README: measured, target, verdict
	$(BIN)/python -m bench.prove $(ARGS)

bench: build ## micro-benchmarks: overhead per request, per phase
	$(BIN)/python -m bench.overhead $(ARGS)

lint: build ## ruff, rustfmt, clippy; generated documents are up to date
	@scripts/toolchain lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/settings_page.py --check
	$(BIN)/python scripts/metrics_page.py --check
	$(BIN)/python scripts/scenarios_page.py --check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(LOCKED) --quiet -- -D warnings

format: build ## rewrite sources in the house's form
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	cargo fmt --all

types: build ## mypy strict; the native module against its .pyi
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest greenlane._native --mypy-config-file pyproject.toml

docs: build ## docs/settings.md, metrics.md and scenarios.md from the declarations that they are about
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/metrics_page.py
	$(BIN)/python scripts/scenarios_page.py

wheel: build ## a release wheel in dist/
	$(BIN)/maturin build --release $(LOCKED) --out dist --interpreter $(BIN)/python

clean: ## remove everything that make has built
	rm -rf .venv .venv-3.* target dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	rm -f python/greenlane/_native*.so
