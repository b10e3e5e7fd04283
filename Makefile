# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
# One thread per test process: two processes on two cores beat two processes of two threads.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-all lint ruff spelling page types unit browser coverage docs package bench attacks fuzz \
    check-oldest constraints audit qgis-plugin test-qgis clean

demo: $(VENV)/.ready
	$(BIN)/polyad demo

test: lint types unit

# Everything: full matrices, hostile files, faults, kills, the cluster, the code blocks of all pages.
test-all: lint types
	$(MAKE) unit TIER=

lint: ruff spelling page

ruff: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

spelling: $(VENV)/.ready
	$(BIN)/codespell

# The labeling page's scripts: eslint, and TypeScript over their JSDoc types. Where npm is missing,
# or has no network for its first install, they are left out with a note.
PAGE := tools/page
PAGE_BIN := $(PAGE)/node_modules/.bin
page:
	@if ! command -v npm >/dev/null 2>&1; then \
	    echo "npm is not installed: the labeling page's scripts are not checked"; \
	elif ! $(MAKE) --silent $(PAGE)/node_modules/.ready >/dev/null 2>&1; then \
	    echo "npm could not install eslint: the labeling page's scripts are not checked"; \
	else \
	    $(PAGE_BIN)/eslint --config $(PAGE)/eslint.config.js --max-warnings 0 src/polyad/app/static \
	    && $(PAGE_BIN)/tsc --project $(PAGE); \
	fi

$(PAGE)/node_modules/.ready: $(PAGE)/package.json $(PAGE)/package-lock.json $(PAGE)/.npmrc
	cd $(PAGE) && npm ci --silent
	touch $@

types: $(VENV)/.ready
	$(BIN)/mypy

TIER ?= -m "not slow"
unit: $(VENV)/.ready browser
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(TIER)

# The tests of the labeling page run in Chromium and are skipped where there is none.
browser:
	@command -v chromium >/dev/null 2>&1 || \
	    { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && \
	    apt-get install -y -qq chromium >/dev/null 2>&1; } || true

# Which lines the tests reach, other processes and the journeys' wheel included (50 minutes on two
# busy cores). A failed test does not stop it: one limits the size of files, coverage's own included.
coverage: $(VENV)/.ready browser
	$(BIN)/coverage erase
	-$(ONE_THREAD) $(BIN)/coverage run -m pytest -q -n $(JOBS) --dist worksteal
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --sort cover

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# The documentation site, with the gallery run: build/site/html. Warnings are errors.
docs: $(VENV)/.docs
	$(ONE_THREAD) $(BIN)/python -m tools.site.build

$(VENV)/.docs: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# Source archive and wheel in dist/, with what a package index would refuse found here.
package: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

$(VENV)/.release: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
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

# The plugin for QGIS, as a zip that QGIS installs.
qgis-plugin:
	$(PYTHON) tools/qgis_plugin.py dist/polyad_qgis.zip

# The plugin in QGIS itself, without windows; needs what Debian calls qgis and python3-qgis.
test-qgis: $(VENV)/.ready
	@if command -v qgis_process >/dev/null 2>&1; then \
	    $(ONE_THREAD) $(BIN)/python -m pytest -q integrations/qgis/tests; \
	else \
	    echo "qgis_process is not installed: the QGIS plugin is not tested"; \
	fi

clean:
	rm -rf .venv .venv-oldest .venv-audit .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* \
	    htmlcov $(PAGE)/node_modules
