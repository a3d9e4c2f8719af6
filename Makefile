# Two commands do all the set-up: `make run` and `make test`. Everything lives in .venv; delete it to start afresh.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
SETUP := pyproject.toml constraints.txt
# one thread a process: kernels, browsers and solvers share the cores without spinning; a file stays in one process
SUITE := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile
export OMP_WAIT_POLICY := passive

.PHONY: run test test-full lab app notebooks regress mutants benchmarks check format clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "got $$($(PYTHON) --version); expected Python 3.11 to 3.13; try make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# torch goes first and alone, pinned: any other route to it may bring several gigabytes of CUDA libraries
$(VENV)/.torch: $(VENV)/pyvenv.cfg constraints.txt
	$(PIP) torch
	@touch $@

$(VENV)/.run: $(VENV)/.torch $(SETUP)
	$(PIP) --editable '.[run]'
	@touch $@

$(VENV)/.lab: $(VENV)/.torch $(SETUP)
	$(PIP) --editable '.[lab,panel]'
	@touch $@ $(VENV)/.run

$(VENV)/.test: $(VENV)/.torch $(SETUP)
	$(PIP) --editable '.[test]'
	$(PIP) --no-deps azula torchcfm
	@touch $@ $(VENV)/.run $(VENV)/.lab

$(VENV)/.dev: $(VENV)/.test
	$(PIP) --editable '.[dev]'
	@touch $@

run: $(VENV)/.run  ## paths between two real images, headless, on the shipped Fashion-MNIST model
	$(BIN)/workbench run 10_paths

test: $(VENV)/.test  ## the whole default suite: unit, contracts, notebooks, headless runs, browser
	$(SUITE) -m "not slow"

test-full: $(VENV)/.test  ## the same with the slow tests
	HYPOTHESIS_PROFILE=full $(SUITE)

lab: $(VENV)/.lab  ## JupyterLab on an executed copy of the tour
	$(BIN)/workbench lab

app: $(VENV)/.lab  ## the lenses as a page on the loopback address
	$(BIN)/workbench app

notebooks: $(VENV)/.test  ## refresh the committed outputs of the notebooks and refuse anything volatile
	$(BIN)/workbench notebooks

regress: $(VENV)/.run  ## compare every notebook's numbers with the committed baselines
	$(BIN)/workbench regress

mutants: $(VENV)/.test  ## plant each fault of tests/mutations and see its test fail
	$(BIN)/python tests/mutate.py

benchmarks: $(VENV)/.test  ## ratios against bare model calls and peer libraries
	for file in benchmarks/*.py; do $(BIN)/python $$file || exit 1; done

check: $(VENV)/.dev  ## lint, format check and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/.dev  ## format and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) build dist runs screenshots .lab *.egg-info .pytest_cache .ruff_cache .hypothesis
