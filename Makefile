# `make` lists all commands. Everything installs into .venv, which these commands make themselves.
PYTHON ?= python3
BIN := .venv/bin

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

demo: .venv/demo ## the main job, on this machine
	@$(BIN)/datamux demo

test: .venv/dev ## the default test suite, offline, on two cores: a few minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not slow"

test-slow: .venv/dev ## the tests that take long: compilers, other engines, full-width models, two machines
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m slow

check: .venv/dev ## format, lint, types, import direction, generated pages, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/results.py --check
	$(BIN)/python scripts/commands.py --check
	$(BIN)/python scripts/pictures.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs: .venv/dev ## write the generated pages and pictures, and build the documentation into site/
	$(BIN)/python scripts/commands.py
	$(BIN)/python scripts/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

packages: .venv/dev ## build wheel and sdist, and try each extra in an empty environment: slow
	$(BIN)/python scripts/packages.py

results: .venv/dev ## write the models' cards, the result tables and the plots from the records
	$(BIN)/python scripts/results.py

format: .venv/dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what the commands above made
	rm -rf .venv dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

.venv/python:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	@touch $@

.venv/demo: .venv/python pyproject.toml constraints.txt
	@echo "installing into .venv (once; torch is large)"
	$(BIN)/pip install --quiet -c constraints.txt -e ".[bench]"
	@touch $@

.venv/dev: .venv/python pyproject.toml constraints.txt
	@echo "installing into .venv (once; torch is large)"
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	@touch $@

.PHONY: help demo test test-slow check docs packages results format clean
.DEFAULT_GOAL := help
