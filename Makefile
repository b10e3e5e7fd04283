# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
# One thread per test process: two processes on two cores beat two processes of two threads.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test lint types unit browser bench attacks fuzz check-oldest constraints audit clean

demo: $(VENV)/.ready
	$(BIN)/polyad demo

test: lint types unit

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

unit: $(VENV)/.ready browser
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal

# The tests of the labelling page run in Chromium and are skipped where there is none.
browser:
	@command -v chromium >/dev/null 2>&1 || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
	    apt-get install -y -qq chromium >/dev/null 2>&1; } || true

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Side-by-side timings (about 10 minutes): writes docs/benchmarks.md. Leave the machine alone.
bench: $(VENV)/.bench
	$(ONE_THREAD) $(BIN)/python -W ignore -m benchmarks

$(VENV)/.bench: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $@

# Hostile files: every case that is kept, under strace (about 15 minutes), and a search for more.
attacks: $(VENV)/.ready
	$(BIN)/python -m attacks --trace

SECONDS ?= 600
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m attacks.search --seconds $(SECONDS)

$(VENV)/.fuzz: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	touch $@

# The lowest versions that pyproject.toml allows (this fetches an old torch: several GB).
check-oldest: .venv-oldest/.ready
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -q -n $(JOBS) --dist worksteal

.venv-oldest/.ready: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) tools/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c .venv-oldest/constraints.txt -e '.[dev]'
	touch $@

# Write down what is installed. To move on: pip install --upgrade in $(VENV), make test, then this.
constraints: $(VENV)/.ready
	$(BIN)/python tools/constraints.py > constraints.part
	mv constraints.part constraints.txt
	touch $(VENV)/.ready

# Known vulnerabilities of what constraints.txt names; asks a public database, so it needs a network.
audit: .venv-audit/.ready
	.venv-audit/bin/pip-audit --strict --no-deps --disable-pip -r constraints.txt

.venv-audit/.ready:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-audit .mypy_cache .ruff_cache .hypothesis
