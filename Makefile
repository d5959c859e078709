# Targets: install, demo, test, check, bench. README.md shows what each prints.
# The first Python that is new enough; name another with `make install PYTHON=python3.13`.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

NODE_STAMP := node_modules/.installed

.PHONY: install node demo test check bench openapi lock format clean
.DEFAULT_GOAL := install

install: $(STAMP) node

# Wheels come from requirements.lock (pinned and hashed); the project itself is linked, not copied.
# An environment that cannot run pip is half made or of a Python that is gone: it is made anew.
$(STAMP): requirements.lock pyproject.toml
	@[ -n "$(PYTHON)" ] && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed; name it with: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "$(PYTHON) cannot make $(VENV); on Debian and Ubuntu install the package python3-venv" >&2; exit 2; }
	@echo "Installing into $(VENV); the first time takes a minute or two."
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# Some tests of the Stripe adapter talk to a stand-in from npm; nothing else needs node. In CI they
# are not skipped, so there a missing node fails in the tests and a failed download here.
node:
	@if ! command -v npm >/dev/null || ! command -v node >/dev/null; then \
		echo "node and npm are not there: tests against stripe-stateful-mock will be skipped."; \
	elif ! $(MAKE) --silent --no-print-directory $(NODE_STAMP); then \
		echo "npm failed: tests against stripe-stateful-mock will be skipped." >&2; [ -z "$$CI" ]; fi

$(NODE_STAMP): package-lock.json package.json
	@npm ci --silent --ignore-scripts --no-audit --no-fund
	@touch $@

demo: install
	@$(BIN)/python examples/demo.py

test: install
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -p no:randomly tests/integration/test_migrations.py

bench: install
	@$(BIN)/python benchmarks/turn.py
	@$(BIN)/python benchmarks/queue.py --requests 100000

# The description of the HTTP API, as it is committed; a test says when it is to be renewed.
openapi: install
	@$(BIN)/python -m support_agent.api.description docs/openapi.json

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Needs uv. Writes no address of any registry into the lock.
lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) node_modules var dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
