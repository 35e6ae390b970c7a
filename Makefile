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
CARGO_TARGET_DIR ?= target
override CARGO_TARGET_DIR := $(abspath $(CARGO_TARGET_DIR))
export CARGO_TARGET_DIR
BIN := $(VENV)/bin
LOCKED := $(if $(wildcard Cargo.lock),--locked)
# Releases that everybody has; CONSTRAINTS= takes the newest.
CONSTRAINTS ?= constraints.txt
PINNED := $(CONSTRAINTS:%=--constraint %)
# The CPython of `make test-newer`.
NEWER ?= 3.14
RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) $(shell find crates -name '*.rs' -o -name Cargo.toml)
PACKAGES := greenlane greenlane-serve greenlane-work greenlane-tools
# Those with native code, and what only tests call: built in place.
NATIVE := packages/greenlane packages/greenlane-tools tests/native
PYTEST := $(BIN)/python -m pytest
# On both cores. The whole has a limit, and a test that holds the GIL is named, which `timeout` of pyproject.toml cannot.
FAST := not slow and not system and not measured and not soak
SIDE_BY_SIDE := -q -n 2 --durations=20 --session-timeout=600 -o faulthandler_timeout=240 -o faulthandler_exit_on_timeout=true
# The feed's native code: a workspace of its own, with results of its own. Tests use what compiles sooner and computes
# the same; `greenlane demo feed` builds what is measured by itself.
FEED := systems/feed
RELEASE := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
FEED_PYTHON := FEED_PROFILE=quick PYTHONPATH=$(FEED) $(BIN)/python
OFFERS_PYTHON := PYTHONPATH=systems/offers $(BIN)/python
GO_MODULES := $(FEED)/native/go systems/offers/go
FEED_CARGO := CARGO_TARGET_DIR=$(abspath $(CARGO_TARGET_DIR))/feed cargo
FEED_WORKSPACE := --manifest-path $(FEED)/native/Cargo.toml --workspace --profile quick --locked --quiet
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# PYTHON= given and the environment made by another: it is made again.
MADE_BY_PYTHON = grep -qsxF "executable = $$(PYTHON=$(PYTHON) scripts/toolchain python)" $(VENV)/pyvenv.cfg
$(if $(PYTHON),$(shell ($(MADE_BY_PYTHON)) 2>/dev/null || rm -f $(VENV)/.deps.stamp))

# A shell's active environment or PYTHONPATH must not decide what is built or tested.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME

.PHONY: help build guest feed-native offers-go demo try test test-python test-rust test-go test-system nightly test-all test-newer newest examples ecosystem programs soak prove bench lint format types docs site wheel wheels python clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: $(VENV)/.native.stamp ## .venv with dependencies, native module (release) and bin/greenlane

$(VENV)/.deps.stamp: pyproject.toml $(PACKAGES:%=packages/%/pyproject.toml) tests/native/pyproject.toml $(CONSTRAINTS)
	@scripts/toolchain build
	@$(if $(PYTHON),$(MADE_BY_PYTHON),$(BIN)/python -c '' 2>/dev/null) \
		|| { python=$$(scripts/toolchain python) && "$$python" -m venv --clear $(VENV); }
	@# --group is pip 25.1's; ensurepip's own is often older.
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev $(PINNED)
	@# Plain Python in place, without what they need: that is in the group, and what is native is built below.
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps $(foreach each,$(filter-out $(NATIVE),$(PACKAGES:%=packages/%)),-e $(each))
	@touch $@

$(VENV)/.native.stamp: $(VENV)/.deps.stamp $(RUST_SOURCES)
	@scripts/toolchain build
	@for each in $(NATIVE); do \
		(cd $$each && PIP_QUIET=1 VIRTUAL_ENV=$(abspath $(VENV)) $(abspath $(BIN))/maturin develop --release $(LOCKED)) || exit 1; \
	done
	@touch $@

feed-native: build
	@$(FEED_PYTHON) -m feed.native

offers-go: build
	@if scripts/toolchain go; then $(OFFERS_PYTHON) -m offers.build; fi

demo: build ## the pricing service under five servers, measured side by side (under 4 minutes)
	$(BIN)/greenlane demo pricing $(ARGS)

try: build ## stock gunicorn and Greenlane under the same load, in half a minute; ARGS="shop:app --route /a"
	$(BIN)/greenlane try $(ARGS)

test: test-rust test-go test-python ## cargo test, go test, then pytest without servers and soak

test-rust: build
	cargo test --workspace $(LOCKED) --quiet
	$(FEED_CARGO) test $(FEED_WORKSPACE)

test-go: ## of what is in Go; without Go they are left out
	@if scripts/toolchain go; then cd systems/offers/go && go test ./...; fi

guest: ## the guest alone, in an environment of its own: installed and tested in two minutes
	@scripts/toolchain build
	@[ -x $(VENV)-guest/bin/python ] || "$$(scripts/toolchain python)" -m venv $(VENV)-guest
	$(VENV)-guest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-guest/bin/python -m pip install --quiet --group guest $(PINNED)
	cd packages/greenlane && PIP_QUIET=1 PYO3_PYTHON=$(abspath $(VENV)-guest/bin/python) VIRTUAL_ENV=$(abspath $(VENV)-guest) \
		$(abspath $(VENV)-guest/bin/maturin) develop --release $(LOCKED)
	$(VENV)-guest/bin/python -m pytest $(SIDE_BY_SIDE) --dist worksteal -m "$(FAST)" packages/greenlane/tests $(ARGS)

test-python: feed-native
	FEED_PROFILE=quick $(PYTEST) $(SIDE_BY_SIDE) --dist worksteal -m "$(FAST)" $(ARGS)

test-system: feed-native offers-go ## one real run per host, broker, system and command (installs missing Debian packages)
	scripts/servers
	FEED_PROFILE=quick $(PYTEST) $(SIDE_BY_SIDE) --dist loadfile -m gate $(ARGS)

nightly: feed-native offers-go ## hours: what CI leaves out; a table of what failed how often (ARGS="measured system slow soak ecosystem 3.13")
	scripts/servers
	FEED_PROFILE=quick $(BIN)/python scripts/nightly.py $(ARGS)

soak: build ## minutes: client aborts, thread deaths, workers that are killed, 20,000 orders under faults, attacks on permits
	$(PYTEST) -m soak --timeout 600 $(ARGS)

test-all: test ## make test, then the tests on each other CPython of this machine (3.11 to 3.15) in its own .venv-3.x
	@done=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	scripts/toolchain interpreters | { failed=""; while read -r version python; do \
		[ "$$version" != "$$done" ] || continue; \
		echo "== CPython $$version ($$python)"; \
		$(MAKE) --no-print-directory test-python VENV=.venv-$$version PYTHON=$$python \
			CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cpython-$$version </dev/null || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "failed on CPython$$failed" >&2; exit 1; }; }

test-newer: ## the guest and its tests on one newer CPython (NEWER=3.14), which is fetched: three minutes
	@$(BIN)/python -m pip install --quiet --group release $(PINNED)
	@python=$$($(BIN)/python scripts/python.py $(NEWER)) && $(MAKE) --no-print-directory guest \
		VENV=.venv-$(NEWER) PYTHON="$$python" CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/cpython-$(NEWER)

newest: ## each night: the newest releases of what we depend on, also beyond our bounds; what is newer, then tests and hosts
	rm -rf .venv-newest
	$(MAKE) --no-print-directory build VENV=.venv-newest CONSTRAINTS=
	.venv-newest/bin/python -m pip install --quiet --upgrade gunicorn celery kombu gevent greenlet uvicorn
	.venv-newest/bin/python scripts/constraints.py .venv-newest
	$(MAKE) --no-print-directory test-python VENV=.venv-newest CONSTRAINTS=
	.venv-newest/bin/python -m pytest -q -m "system and not measured and not soak" --timeout 180 \
		packages/greenlane/tests/hosts packages/greenlane/tests/record packages/greenlane-work/tests

ecosystem: build ## public test suites, stock and with us: the same tests pass (two hours; ARGS="--suite trio --mode permits")
	scripts/servers
	@$(BIN)/python -m tests.ecosystem.run $(ARGS)

programs: build ## public programs on seven servers under record: jobs and latencies beside the client's own (20 minutes)
	@$(BIN)/python -m tests.ecosystem.programs $(ARGS)

prove: build ## each claim of the README: measured, target, verdict
	$(BIN)/python -m bench.prove $(ARGS)

bench: build ## micro-benchmarks: overhead per request, per phase
	$(BIN)/python -m bench.overhead $(ARGS)

lint: build ## ruff, rustfmt, clippy, gofmt, go vet; sizes (budgets.toml); spelling and style; generated documents
	@scripts/toolchain lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/budgets.py
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs systems packages scripts bench tests crates
	$(BIN)/python scripts/prose.py
	$(BIN)/python scripts/settings_page.py --check
	$(BIN)/python scripts/errors_page.py --check
	$(BIN)/python scripts/metrics_page.py --check
	$(BIN)/python scripts/scenarios_page.py --check
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(LOCKED) --quiet -- -D warnings
	cargo fmt --manifest-path $(FEED)/native/Cargo.toml --all --check
	$(FEED_CARGO) clippy --all-targets $(FEED_WORKSPACE) -- -D warnings
	@if scripts/toolchain go; then for module in $(GO_MODULES); do \
		(cd $$module && test -z "$$(gofmt -l . | tee /dev/stderr)" && go vet ./...) || exit 1; done; fi

format: build ## rewrite sources in the house's form
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .
	cargo fmt --all
	cargo fmt --manifest-path $(FEED)/native/Cargo.toml --all
	@if scripts/toolchain go; then gofmt -w $(GO_MODULES); fi

types: feed-native ## mypy strict; the native modules against their .pyi
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest greenlane._native greenlane_tools._native greenlane_testing._native --mypy-config-file pyproject.toml
	$(FEED_PYTHON) -c 'import feed.native, sys; from mypy import stubtest; sys.exit(stubtest.main())' \
		feed._native --mypy-config-file pyproject.toml --allowlist $(FEED)/native/stubtest.txt --ignore-unused-allowlist

docs: build ## settings.md, errors.md, metrics.md, scenarios.md from their declarations; architecture.md and guest.md from processes
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/errors_page.py
	$(BIN)/python scripts/metrics_page.py
	$(BIN)/python scripts/scenarios_page.py
	PYTHONPATH=. $(BIN)/python scripts/architecture_page.py
	PYTHONPATH=.:packages/greenlane $(BIN)/python -m tests.trace.table

site: ## the documentation site, in out/site: strict, so a dead link or a page outside mkdocs.yml fails
	@[ -x .venv-site/bin/mkdocs ] || { $(BIN)/python -m venv .venv-site && .venv-site/bin/python -m pip install --quiet --upgrade 'pip>=25.1'; }
	.venv-site/bin/python -m pip install --quiet --group site
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict --quiet

wheel: build ## release wheels of all distributions, in dist/
	@for each in packages/greenlane packages/greenlane-tools; do \
		(cd $$each && $(abspath $(BIN))/maturin build --release $(LOCKED) --out $(abspath dist) --interpreter $(abspath $(BIN))/python) || exit 1; \
	done
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist packages/greenlane-serve packages/greenlane-work

examples: wheel ## the examples of README and the tutorial, in a fresh environment from the wheels
	scripts/servers
	rm -rf target/examples && $(BIN)/python -m venv --without-pip target/examples
	$(BIN)/python -m pip --python target/examples/bin/python install --quiet $(PINNED) --find-links dist \
		'greenlane[gunicorn,celery,redis,tools]==$(RELEASE)' flask django fastapi uvicorn
	EXAMPLES_BIN=$(abspath target/examples/bin) $(PYTEST) -q --timeout 180 \
		tests/system/test_examples.py tests/system/test_tutorial.py

python: build ## VERSION=3.14: a newer CPython below target/python, for make test-all; nothing is installed on the machine
	@$(BIN)/python -m pip install --quiet --group release $(PINNED)
	@$(BIN)/python scripts/python.py "$(VERSION)"

wheels: build ## the release, in dist/: wheels for CPython 3.11-3.15 and free-threaded ones, x86-64 and aarch64; tried where they run
	$(BIN)/python -m pip install --quiet --group release $(PINNED)
	$(BIN)/python scripts/wheels.py $(ARGS)

clean: ## remove everything that make has built
	rm -rf .venv .venv-3.* target dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find packages tests bench scripts systems -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	rm -f packages/*/src/*/_native*.so tests/native/src/*/_native*.so
