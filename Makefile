# Every target does all of its own set-up: Python 3.11 or newer, pip and make are enough.

PYTHON ?= python3
JOBS ?= 3
ARGS ?=
FORGERIES ?= 20000
KILLS ?= 500

VENV := .venv
BENCH_VENV := .venv-bench
JAX_VENV := .venv-jax
STAMP := $(VENV)/.installed
BENCH_PINS := benchmarks/constraints.txt
BENCH_STAMP := $(BENCH_VENV)/.installed
JAX_PINS := benchmarks/constraints-jax.txt
JAX_STAMP := $(JAX_VENV)/.installed
RUN := $(VENV)/bin/python
BENCH_RUN := $(BENCH_VENV)/bin/python
JAX_RUN := $(JAX_VENV)/bin/python
PIP_INSTALL := -m pip install --quiet --no-input --disable-pip-version-check

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup train test test-quick test-all chaos check format bench bench-guard bench-adapters bench-data bench-checkpoint bench-training mutants docs dist clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) ## create .venv with everything for training, tests and checks

train: $(STAMP) ## train an agent: SAC with PER and 3-step returns on Pendulum-v1, about two minutes
	$(RUN) -m recollect train $(ARGS)

test: $(STAMP) ## run the tests
	$(RUN) -m pytest -n $(JOBS) --dist loadgroup -m "not long" $(ARGS)

test-quick: $(STAMP) ## run a cross-section of the tests in a minute or so, without Ray and learning
	RECOLLECT_PROGRAMS=small $(RUN) -m pytest -n $(JOBS) --dist loadgroup -m "not long and not slow" --cases 3 \
		tests/unit tests/contract tests/regression $(ARGS)

test-all: $(STAMP) ## run the tests with the long tables
	RECOLLECT_LONG=1 $(RUN) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

chaos: $(STAMP) ## fail, tear and kill every write of a checkpoint, kill 500 trainings, forge 20,000 runs; takes hours
	RECOLLECT_LONG=1 RECOLLECT_FORGERIES=$(FORGERIES) RECOLLECT_KILLS=$(KILLS) $(RUN) -m pytest -n $(JOBS) --dist loadgroup \
		tests/unit/files/test_disk.py tests/unit/runs tests/unit/agent/storages/experience/persistence $(ARGS)

check: $(STAMP) ## lint, format check, types
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

format: $(STAMP) ## rewrite the source in house format
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

bench: $(BENCH_STAMP) ## compare with the peers, in a venv of its own
	$(BENCH_RUN) benchmarks/replay.py $(ARGS)

bench-guard: $(STAMP) ## count what the hot paths do; fails where one does 5 % more than before
	$(RUN) -m benchmarks.guard $(ARGS)

bench-adapters: $(STAMP) ## time the loops of other libraries with their buffers and with ours
	$(RUN) -m benchmarks.adapters $(ARGS)

bench-data: $(STAMP) ## learn from given data: RLPD beside SAC, offline algorithms beside behaviour cloning
	$(RUN) -m benchmarks.prior_data $(ARGS)

bench-checkpoint: $(BENCH_STAMP) ## measure what a checkpoint of a full replay costs, beside the peers'
	$(BENCH_RUN) -m benchmarks.checkpoint $(ARGS)

bench-training: $(BENCH_STAMP) $(JAX_STAMP) ## time whole training loops beside the peers', SBX in a venv of its own
	$(BENCH_RUN) benchmarks/training.py $(ARGS)

mutants: $(STAMP) ## plant faults into the source and see the tests catch each one
	$(RUN) -m tests.mutants -n $(JOBS) $(ARGS)

docs: $(STAMP) ## build the site into build/site; a warning is an error
	$(RUN) docs/site.py build/docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict # --quiet would hide warnings from --strict
	@echo "open build/site/index.html; the search needs a server: $(RUN) -m http.server -d build/site"

dist: $(STAMP) ## build the wheel and the source distribution into dist/
	$(RUN) -m build --outdir dist .

clean: ## remove caches and build products
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . \( -path ./$(VENV) -o -path ./$(BENCH_VENV) -o -path ./$(JAX_VENV) -o -path ./.git \) -prune \
		-o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean ## also remove the virtual environments
	rm -rf $(VENV) $(BENCH_VENV) $(JAX_VENV)

# Some distributions ship Python without ensurepip; there the outer pip installs pip into the venv.
define create_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "Recollect needs Python 3.11 or newer, got $$($(PYTHON) --version); use make PYTHON=python3.11"; exit 1; }
@test -x $(1)/bin/pip || { echo "creating $(1)"; $(PYTHON) -m venv $(1) 2>/dev/null; } \
	|| { $(PYTHON) -m venv --clear --without-pip $(1) && $(PYTHON) -m pip --python $(1)/bin/python install --quiet pip; }
endef

$(STAMP): pyproject.toml constraints.txt
	$(call create_venv,$(VENV))
	@echo "installing into $(VENV)"
	@$(RUN) $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

# The peers have pins of their own: what one of them needs may be older than what we are tested with.
$(BENCH_STAMP): pyproject.toml $(BENCH_PINS)
	$(call create_venv,$(BENCH_VENV))
	@echo "installing into $(BENCH_VENV)"
	@$(BENCH_RUN) $(PIP_INSTALL) -c $(BENCH_PINS) -e '.[bench]'
	@peers=$$($(BENCH_RUN) -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["peers"])') || exit 1; \
	for peer in $$peers; do \
		echo "installing the peer $$peer"; \
		$(BENCH_RUN) $(PIP_INSTALL) -c $(BENCH_PINS) "$$peer" \
			|| echo "$$peer could not be installed; the benchmark runs without it"; \
	done
	@touch $@

# SBX needs JAX, which has pins of its own. Torch comes first, so that the CPU build is what the others find.
$(JAX_STAMP): $(JAX_PINS)
	$(call create_venv,$(JAX_VENV))
	@echo "installing into $(JAX_VENV)"
	@$(JAX_RUN) $(PIP_INSTALL) -c $(JAX_PINS) torch \
		&& $(JAX_RUN) $(PIP_INSTALL) -c $(JAX_PINS) imageio packaging mujoco \
		&& $(JAX_RUN) $(PIP_INSTALL) -c $(JAX_PINS) sbx-rl jax \
		|| echo "SBX could not be installed; the benchmark runs without it"
	@touch $@
