# `make demo` and `make test` each need nothing but a fresh checkout and Python >= 3.11; scripts/setup brings the rest.
VENV ?= .venv
BIN := $(VENV)/bin
export VENV

.PHONY: help demo test check format clean

help:
	@echo "make demo    a complete gateway with a simulated provider (DEMO_ARGS=... are passed on)"
	@echo "make test    everything the tests need, then the tests (TEST_ARGS=... are passed on)"
	@echo "make check   format, lint, types, layers and tidiness"
	@echo "make format  mend what can be mended"

demo:
	@scripts/setup demo
	@exec $(BIN)/hoptrio demo $(DEMO_ARGS)

test:
	@scripts/setup test
	$(BIN)/python -m pytest -q -n 2 $(TEST_ARGS)

check:
	@scripts/setup test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/flake8 hoptrio tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

format:
	@scripts/setup test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist build tests/sdk/node/node_modules
