# make demo   sets up and runs the main job on generated data
# make check  sets up and runs lint, types and the fast tests
# make test   sets up and runs lint, types and all tests
# make coverage  sets up, runs all tests and prints which lines of src they miss
# make docs   sets up and builds the documentation in out/docs
# make fuzz   sets up and throws 100,000 mutated model files at load, and other hostile input
# make dist   sets up, builds the sdist and the wheel in dist and checks them
# make bench  sets up and runs the paper's experiments (hours; goes on where it was stopped)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo check test coverage docs fuzz dist test-oldest bench test-bench lint types format clean

help:
	@sed -n '1,8s/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Lumberjack needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@echo "Setting up $(VENV) (once; about a minute) ..."
	@$(PYTHON) -m venv $(VENV)

# The version is in src/lumberjack/__init__.py; an installation keeps a copy of it.
$(VENV)/demo.stamp: pyproject.toml src/lumberjack/__init__.py | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[data,plot]'
	@touch $@

$(VENV)/test.stamp: pyproject.toml src/lumberjack/__init__.py | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

demo: $(VENV)/demo.stamp
	@$(BIN)/python examples/raw_table.py
	@$(BIN)/python -m benchmarks.toy
	@$(BIN)/python examples/web_paths.py
	@$(BIN)/python -m benchmarks.height

check: lint types
	$(BIN)/python -m pytest -m "not slow" tests

test: lint types docs
	$(BIN)/python -m pytest

# Warnings are errors, and so are links that lead nowhere.
docs: $(VENV)/test.stamp
	$(BIN)/python -m sphinx -b html -E -n -W --keep-going -q docs out/docs

# From the first import on, and once more without compilation, lest kernels count as never run.
PLAIN := tests/test_anatomy.py tests/test_domain.py tests/test_growing.py tests/test_guided.py tests/test_prefixes.py \
	tests/test_kinds.py tests/test_noise.py tests/test_released.py tests/test_residuals.py tests/test_search.py \
	tests/test_structure.py tests/test_targets.py tests/test_thinning.py tests/test_training.py \
	tests/test_leaves.py tests/test_tree.py
coverage: $(VENV)/test.stamp
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -m "not slow" $(PLAIN)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

fuzz: $(VENV)/test.stamp
	$(BIN)/python tests/hostile/models.py 100000
	LUMBERJACK_FUZZ=2000 $(BIN)/python -m pytest tests/hostile

# Schemas that the package brings along: no network.
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema vendor
lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(SCHEMA).github-workflows .github/workflows/*.yml
	@$(SCHEMA).dependabot .github/dependabot.yml
	@$(SCHEMA).github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	@$(SCHEMA).github-issue-config .github/ISSUE_TEMPLATE/config.yml
	@$(SCHEMA).citation-file-format CITATION.cff

dist: $(VENV)/test.stamp
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python .ci/check_dist.py

types: $(VENV)/test.stamp
	$(BIN)/mypy

format: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venv-oldest .venv-bench out build dist
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The oldest versions that pyproject.toml declares, in an environment of their own.
OLDEST := .venv-oldest
$(OLDEST)/stamp: pyproject.toml requirements-oldest.txt
	@$(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-oldest.txt
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

test-oldest: $(OLDEST)/stamp
	$(OLDEST)/bin/python -m pytest -p no:cacheprovider tests/test_forest.py tests/test_domain.py tests/test_io.py tests/test_cli.py tests/test_cli_tables.py tests/test_tables.py tests/test_kernels.py tests/test_progress.py tests/integration

# The paper's experiments, in an environment of their own: diffprivlib needs an older scikit-learn.
BENCH := .venv-bench
$(BENCH)/stamp: pyproject.toml
	@$(PYTHON) -m venv $(BENCH)
	@$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

bench: $(BENCH)/stamp
	-$(BENCH)/bin/python -m benchmarks run
	-$(BENCH)/bin/python -m benchmarks run --ablation
	$(BENCH)/bin/python -m benchmarks report

test-bench: $(BENCH)/stamp
	$(BENCH)/bin/python -m pytest -p no:cacheprovider tests/benchmarks
