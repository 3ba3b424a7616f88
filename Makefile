# `make demo` and `make test` each need nothing but a fresh checkout and Python >= 3.11; scripts/setup brings the rest.
VENV ?= .venv
# What builds and runs the container: podman or docker.
ENGINE ?= podman
BIN := $(VENV)/bin
export VENV
# Strict: a broken link, or a page without a place, fails. The variable silences an advertisement.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml
# The tests start hundreds of interpreters: without bytecode each would compile all of hoptrio again, half of its start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check format docs bench bench-check soak world chaos matrix kills api clients fuzz binary returns conform \
	lock audit pythons container clean

help:
	@echo "make demo    a complete gateway with a simulated provider (DEMO_ARGS=... are passed on)"
	@echo "make test    everything the tests need, then the tests (TEST_ARGS=... are passed on)"
	@echo "make check   format, lint, types, layers, tidiness and the documentation"
	@echo "make format  mend what can be mended"
	@echo "make docs    the documentation as a site, into build/site"
	@echo "make bench   gateways next to each other, up to 20 minutes, and the ledger's rates (BENCH_ARGS=... are passed on)"
	@echo "make bench-check  what a stream costs, counted, against the committed limits (BENCH_ARGS=--lock writes them)"
	@echo "make soak    an hour of mixed load while everything is reloaded, killed and restarted (SOAK_ARGS='--minutes 3' is a look)"
	@echo "make world   100,000 simulated streams over crashing nodes, in virtual time (WORLD_ARGS=... are passed on)"
	@echo "make chaos   5,000 streams with every failure, and kills, on the real thing (CHAOS_ARGS=... are passed on)"
	@echo "make matrix  every recorded stream converted for every other protocol's SDK (HOPTRIO_CORPUS: the recordings)"
	@echo "make api     the control plane's API against what is made up of its own description (API_ARGS=... are passed on)"
	@echo "make clients agents finish a turn with a tool call on channels of every protocol; 1.5 GB of packages (CLIENTS_ARGS=...)"
	@echo "make kills   200 kills of workers, supervisors, nodes and PostgreSQL, at eight moments (KILLS_ARGS=... are passed on)"
	@echo "make returns 1,000 clients that are cut off and come back, 2,000 streams whose clients left (RETURNS_ARGS=... are passed on)"
	@echo "make fuzz    a minute of fuzzing for each place where strangers' bytes come in (FUZZ_ARGS=... are passed on)"
	@echo "make conform known faults of streaming gateways tried on hoptrio from outside, in two minutes (CONFORM_ARGS=... are passed on)"
	@echo "make lock    requirements/*.txt anew: the newest versions that pyproject.toml allows, with hashes"
	@echo "make audit   known vulnerabilities of what is locked, as PyPI knows them"
	@echo "make pythons the tests of the rooms and the demo on every Python from 3.11 on that is found (PYTHONS=... names them)"
	@echo "make binary  dist/hoptrio, the server as one file that needs no Python, and its tests"
	@echo "make container  the image, and its tests in containers (ENGINE=docker, BASE=... of the Containerfile)"

demo:
	@scripts/setup demo
	@exec $(BIN)/hoptrio demo $(DEMO_ARGS)

test:
	@scripts/setup test
	@# Three on two cores: many tests of real processes wait. Whoever is done takes over what others have before them.
	$(BIN)/python -m pytest -q -n 3 --dist worksteal $(TEST_ARGS)

check:
	@scripts/setup test
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	@scripts/lint-async
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py
	$(MKDOCS)

docs:
	@scripts/setup docs
	$(BIN)/python -m tests.support.pages
	$(MKDOCS)

format:
	@scripts/setup test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench:
	@scripts/setup test
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m bench $(BENCH_ARGS)
	$(BIN)/python -m bench.ledger

bench-check:
	@scripts/setup test
	$(BIN)/python -m bench check $(BENCH_ARGS)

soak:
	@scripts/setup test
	$(BIN)/python -m bench soak $(SOAK_ARGS)

world:
	@scripts/setup test
	$(BIN)/python -m bench.world $(WORLD_ARGS)

chaos:
	@scripts/setup test
	$(BIN)/python -m tests.chaos --streams 5000 $(CHAOS_ARGS)

matrix:
	@scripts/setup test
	$(BIN)/python -m tests.matrix

fuzz:
	@scripts/setup test
	$(BIN)/python -m pip install --quiet --editable ".[fuzz]"
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

binary:
	@scripts/binary
	@scripts/setup test
	HOPTRIO_BINARY=dist/hoptrio $(BIN)/python -m pytest -q tests/binary

# Podman's own format has no health check; to docker the variable means nothing.
container:
	@scripts/setup test
	BUILDAH_FORMAT=docker $(ENGINE) build $(if $(BASE),--build-arg BASE=$(BASE)) -f contrib/container/Containerfile -t hoptrio .
	HOPTRIO_IMAGE=hoptrio HOPTRIO_ENGINE="$(ENGINE)" $(BIN)/python -m pytest -q tests/container

lock:
	@scripts/lock

audit:
	@scripts/lock audit

pythons:
	@scripts/pythons

kills:
	@scripts/setup test
	$(BIN)/python -m tests.chaos --streams 0 --kills 200 --postgres $(KILLS_ARGS)

returns:
	@scripts/setup test
	$(BIN)/python -m tests.returns $(RETURNS_ARGS)

conform:
	@scripts/setup test
	$(BIN)/python -m bench.conform $(CONFORM_ARGS)

api:
	@scripts/setup test
	HOPTRIO_API_EXAMPLES=200 $(BIN)/python -m pytest -q tests/control/test_description.py $(API_ARGS)

clients:
	@scripts/setup test
	$(BIN)/python -m tests.clients $(CLIENTS_ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist build tests/sdk/node/node_modules tests/clients/node/node_modules tests/clients/.venv
