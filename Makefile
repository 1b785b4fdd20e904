# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-long mutants lint wheel bench clean

help:            ## list the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("veilrec needs Python 3.11 to 3.13, got %d.%d. Set PYTHON=python3.11, say." % sys.version_info[:2] if not (3, 11) <= sys.version_info < (3, 14) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/.made
	$(PIP) -e ".[plots]"
	@touch $@

$(VENV)/.tested: pyproject.toml constraints.txt | $(VENV)/.installed
	$(PIP) -e ".[test]"
	@touch $@

demo: $(VENV)/.installed   ## train, compare and recommend on embedded data; writes a page
	$(BIN)/veilrec demo

lint: $(VENV)/.tested      ## ruff, mypy and the architecture test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py

test: $(VENV)/.tested      ## the whole suite, under 12 minutes on two cores
	$(BIN)/python -m pytest

test-long: $(VENV)/.tested ## the long tier: accuracy and speed on real data
	$(BIN)/python -m pytest -m long

mutants: $(VENV)/.tested   ## put known faults into a copy, one by one: each must be noticed by its test
	$(BIN)/python tests/mutants/run.py --out docs/results/mutants.json

wheel: $(VENV)/.tested     ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean:           ## remove what make made
	rm -rf $(VENV) build dist runs veilrec-demo
