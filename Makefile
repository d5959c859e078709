# Targets: install, demo, test, check, bench. README.md shows what each prints.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test check bench lock format clean
.DEFAULT_GOAL := install

install: $(STAMP)

# Wheels come from requirements.lock (pinned and hashed); the project itself is linked, not copied.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; found $$($(PYTHON) --version). Try: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { echo "cannot make $(VENV): on Debian or Ubuntu install the package python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install
	@$(BIN)/python examples/demo.py

test: install
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m pytest -q -p no:randomly tests/integration/test_migrations.py

bench: install
	$(BIN)/python benchmarks/turn.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Needs uv. Writes no address of any registry into the lock.
lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --no-annotate --extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) var dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
