# Everything runs in a virtual environment of the repository's own.
#   make test PYTHON=python3.13 VENV=.venv-3.13     another interpreter, beside the first
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Which benchmarks `make bench` runs, one after the other, and with which options.
#   make bench BENCH=genetic OPTIONS='--sizes 40x16 --seeds 2'
#   make bench BENCH=round STORE=1    # and keep its rows for the documents
BENCH ?= round goodput fitting genetic nodes sia
OPTIONS ?=

# Half as many more workers than cores, since many tests wait for processes that they start; the tests
# of a file stay on one worker, for the set-up that they share.
#   make test PARALLEL=      one after the other, as a debugger needs it
PARALLEL ?= --numprocesses $(shell $(PYTHON) -c 'import os; print(3 * os.cpu_count() // 2)') --dist loadfile

SOURCES := data experiments formulations models solvers tests

.DEFAULT_GOAL := help
.PHONY: help setup demo test suite test-slow test-adaptdl lint format types wheel-test docs screenshots \
	bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# A stamp is newer than what it was made from exactly when set-up has nothing to do.
INSTALL = $(PYTHON) -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

$(VENV)/.stamp-run: pyproject.toml constraints.txt
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.stamp-run

$(VENV)/.stamp-docs: pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev,docs]'
	@touch $@ $(VENV)/.stamp-dev $(VENV)/.stamp-run

setup: $(VENV)/.stamp-dev  ## create .venv with everything needed for development
	@:

demo: $(VENV)/.stamp-run  ## install what is needed and run a short demonstration
	@$(BIN)/goodalloc demo

# Several threads on as few cores as continuous integration has mostly wait for each other.
suite test-slow wheel-test: export OMP_NUM_THREADS = 1
# What JAX has compiled is shared by all processes of the tests; a limit of its size makes JAX lock it.
suite test-slow wheel-test: export JAX_COMPILATION_CACHE_DIR = $(abspath $(VENV))/.compiled
suite test-slow wheel-test: export JAX_COMPILATION_CACHE_MAX_SIZE = 1000000000
suite test-slow wheel-test: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS = 0.5
# Certificates of rounds on trees that ship have the digits of speeds of a processor without AVX-512.
ifneq (,$(shell grep -o -m 1 avx512bw /proc/cpuinfo 2> /dev/null))
ICL := $(shell grep -o -m 1 avx512_vbmi2 /proc/cpuinfo)
suite test-slow wheel-test: export NPY_DISABLE_CPU_FEATURES = X86_V4$(if $(ICL), AVX512_ICL)
endif

test: lint types suite  ## lint, type-check and run the tests (not those marked slow)

suite: $(VENV)/.stamp-dev  ## run the tests alone (not those marked slow)
	$(BIN)/python -P -m pytest -m 'not slow' $(PARALLEL)

test-slow: $(VENV)/.stamp-dev  ## run the tests marked slow
	$(BIN)/python -P -m pytest -m slow

# Published packages with their tests; their own dependencies (Kubernetes, old NumPy) are not needed.
test-adaptdl: $(VENV)/.stamp-dev  ## fetch AdaptDL and run its own tests with this package's policy
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target build/adaptdl adaptdl==0.2.11 adaptdl-sched==0.2.11 autograd==1.9.1
	$(BIN)/python -P -m pytest -q tests/solvers/policies/test_adaptdl_suite.py

lint: $(VENV)/.stamp-dev  ## check style and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(VENV)/.stamp-dev  ## apply the formatter and the safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(VENV)/.stamp-dev  ## run both type checkers
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

# The wheel goes into a fresh environment that borrows only the dependencies of
# $(VENV), by a path file; `pythonpath=` keeps the tests off the working tree.
SITE_PACKAGES := -P -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

wheel-test: $(VENV)/.stamp-dev  ## build sdist and wheel, test the installed wheel
	@set -e; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	$(BIN)/python -m build --no-isolation --outdir "$$work/dist" . > "$$work/log" 2>&1 \
		|| { cat "$$work/log"; exit 1; }; \
	$(BIN)/python -m venv --without-pip "$$work/venv"; python="$$work/venv/bin/python"; \
	$(BIN)/python $(SITE_PACKAGES) > "$$("$$python" $(SITE_PACKAGES))/dependencies.pth"; \
	$(BIN)/python -m pip --quiet --disable-pip-version-check --python "$$python" \
		install --no-deps --no-index "$$work"/dist/*.whl; \
	"$$python" -P -c 'import goodalloc.models as m; print("wheel under test:", m.__file__)'; \
	"$$python" -P -m pytest -o pythonpath= -m 'not slow' $(PARALLEL)

# The pages are gathered in build/docs-source (.docs/pages.py); notebooks are executed.
docs: $(VENV)/.stamp-docs  ## build the documentation into build/docs; a warning is an error
	@mkdir -p build/docs-source
	$(BIN)/python -P -m sphinx --jobs auto --quiet --fail-on-warning --keep-going \
		-c .docs -d build/docs-cache build/docs-source build/docs
	@echo "open build/docs/index.html"

screenshots: $(VENV)/.stamp-dev  ## make the pictures of pages in the guide anew (needs Chromium; minutes)
	$(BIN)/python -P .docs/screenshots.py

bench: $(VENV)/.stamp-run  ## run the benchmarks, or one (BENCH=round OPTIONS=--help)
	@set -e; for name in $(BENCH); do echo "== $$name $(OPTIONS)"; \
		$(BIN)/python -P -m goodalloc.experiments.benchmarks.$(if $(STORE),stored )$$name $(OPTIONS); \
	done

clean:  ## remove builds and caches, not the environment
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
