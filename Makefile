# Two commands are all a newcomer needs: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The versions and checksums that polyad is tested with, for the Python of $(VENV)
LOCK = locks/$$($(BIN)/python -c 'import sys; print("py311" if sys.version_info < (3, 12) else "py312")')
LOCKED = $(PIP) --no-deps --require-hashes -r $(LOCK)
# Address of an index with CPU builds of torch; without it pip takes its usual one
TORCH_INDEX ?=
# One thread per test process: two processes on two cores beat two processes of two threads.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-all lint ruff spelling words page types unit browser coverage docs package bench attacks fuzz \
    check-oldest lock audit qgis-plugin test-qgis clean

# Writes to polyad-demo/, which git ignores.
demo: $(VENV)/.scene
	$(BIN)/polyad demo

test: lint types unit

# Everything: full matrices, hostile files, faults, kills, the cluster, the code blocks of all pages.
test-all: lint types
	$(MAKE) unit TIER=

lint: ruff spelling words page

# Files that git tracks are checked, so that your maps, notebooks and environments may lie beside
# them. A source archive has no git: there, the folders of the second argument are.
FOLDERS := attacks benchmarks docs examples integrations packaging src tests tools
tracked = { git grep -Ilz '' -- $(1) 2>/dev/null || printf '%s\0' $(2); } | xargs -0

ruff: $(VENV)/.ready
	$(call tracked,'*.py' '*.pyi' '*.ipynb' pyproject.toml,$(FOLDERS) pyproject.toml) $(BIN)/ruff check
	$(call tracked,'*.py' '*.pyi' '*.ipynb',$(FOLDERS)) $(BIN)/ruff format --check

spelling: $(VENV)/.ready
	$(call tracked,.,$(FOLDERS) *.md) $(BIN)/codespell

# Phrases with a better word, in what users read
words: $(VENV)/.ready
	$(call tracked,'*.md' 'src/*' 'integrations/*' 'benchmarks/*.py' 'tools/*.py',$(FOLDERS) *.md) \
	    $(BIN)/python tools/words.py

# The labeling page's scripts: eslint, and TypeScript over their JSDoc types. Where npm is missing,
# or has no network for its first install, they are left out with a note.
PAGE := tools/page
PAGE_BIN := $(PAGE)/node_modules/.bin
STATIC := src/polyad/app/static
page:
	@if ! command -v npm >/dev/null 2>&1; then \
	    echo "npm is not installed: the labeling page's scripts are not checked"; \
	elif ! $(MAKE) --silent $(PAGE)/node_modules/.ready >/dev/null 2>&1; then \
	    echo "npm could not install eslint: the labeling page's scripts are not checked"; \
	else \
	    $(call tracked,'$(STATIC)/*.js',$(STATIC)) \
	        $(PAGE_BIN)/eslint --config $(PAGE)/eslint.config.js --max-warnings 0 \
	    && $(PAGE_BIN)/tsc --project $(PAGE); \
	fi

$(PAGE)/node_modules/.ready: $(PAGE)/package.json $(PAGE)/package-lock.json $(PAGE)/.npmrc
	cd $(PAGE) && npm ci --silent
	touch $@

types: $(VENV)/.ready
	$(BIN)/mypy

TIER ?= -m "not slow"
unit: $(VENV)/.ready browser
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --durations 15 $(TIER)

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

# What the demonstration needs, and what tests and checks need beside it.
$(VENV)/.scene: pyproject.toml $(wildcard locks/*.txt locks/*/*.txt)
	$(PYTHON) -m venv $(VENV)
	$(LOCKED)/scene.txt
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) -r locks/torch.txt
	$(PIP) --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.ready: $(VENV)/.scene
	$(LOCKED)/dev.txt
	touch $@

# The documentation site, with the gallery run: build/site/html. Warnings are errors.
docs: $(VENV)/.docs
	$(ONE_THREAD) $(BIN)/python -m tools.site.build

$(VENV)/.docs: $(VENV)/.ready
	$(LOCKED)/docs.txt
	touch $@

# Source archive and wheel in dist/, with what a package index would refuse found here.
package: $(VENV)/.release
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

$(VENV)/.release: $(VENV)/.ready
	$(LOCKED)/release.txt
	touch $@

# Side-by-side timings (about 10 minutes): writes docs/benchmarks.md. Leave the machine alone.
bench: $(VENV)/.bench
	$(ONE_THREAD) $(BIN)/python -W ignore -m benchmarks

$(VENV)/.bench: $(VENV)/.ready
	$(LOCKED)/bench.txt
	touch $@

# Hostile files: every case that is kept, under strace (about 15 minutes), and a search for more.
attacks: $(VENV)/.ready
	$(BIN)/python -m attacks --trace

SECONDS ?= 600
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m attacks.search --seconds $(SECONDS)

$(VENV)/.fuzz: $(VENV)/.ready
	$(LOCKED)/fuzz.txt
	touch $@

# The lowest versions that pyproject.toml allows (this fetches an old torch: several GB).
check-oldest: .venv-oldest/.ready
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -q -n $(JOBS) --dist worksteal

.venv-oldest/.ready: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv .venv-oldest
	$(PYTHON) tools/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'  # the first with --group
	.venv-oldest/bin/python -m pip install --quiet -c .venv-oldest/constraints.txt \
	    -e '.[all]' --group dev
	touch $@

# Write locks/. Versions that are locked stay; make lock UPGRADE=--upgrade takes the newest of each.
UPGRADE ?=
lock: .venv-lock/.ready
	.venv-lock/bin/python tools/lock.py $(UPGRADE)

.venv-lock/.ready:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check packaging uv
	touch $@

# Known vulnerabilities of what locks/ names; asks a public database, so it needs a network.
audit: .venv-audit/.ready
	for lock in py311 py312; do \
	    sed -n 's/^\([a-z0-9][^ ;]*==[^ ;]*\).*/\1/p' locks/torch.txt locks/$$lock/*.txt | sort -u \
	        > .venv-audit/$$lock.txt && \
	    .venv-audit/bin/pip-audit --strict --no-deps --disable-pip -r .venv-audit/$$lock.txt || exit 1; \
	done

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
	rm -rf .venv .venv-oldest .venv-audit .venv-lock .mypy_cache .ruff_cache .hypothesis .coverage \
	    .coverage.* htmlcov $(PAGE)/node_modules
