# `make` lists what there is. Everything installs into .venv, which these commands make themselves.
PYTHON ?= python3
BIN := .venv/bin

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

demo: .venv/demo ## the main job, on this machine
	@$(BIN)/datamux demo

test: .venv/dev ## the whole default test suite, offline, on two cores
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

check: .venv/dev ## format, lint, types, import direction, generated pages, docs, the README's code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python experiments/report.py --check
	$(BIN)/python scripts/commands.py --check
	$(BIN)/python scripts/pictures.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/integration/test_documents.py -k readme

docs: .venv/dev ## write the generated pages and pictures, and build the documentation into site/
	$(BIN)/python scripts/commands.py
	$(BIN)/python scripts/pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

packages: .venv/dev ## build wheel and sdist, and try each extra in an empty environment: slow
	$(BIN)/python scripts/packages.py

results: .venv/dev ## write the models' cards and the result tables from the run records
	$(BIN)/python experiments/cards.py
	$(BIN)/python experiments/report.py

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

.PHONY: help demo test check docs packages results format clean
.DEFAULT_GOAL := help
