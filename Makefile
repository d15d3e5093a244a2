# levywalk: `make demo` and `make test` set up what they need in .venv; no root, no other tools than python3.11, make and git.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PACKAGE := .venv/.package
STAMP := .venv/.installed
PEERS := .venv/.peers
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Three workers on two cores: tests of fleets wait most of their time.
PYTEST := $(BIN)/python -m pytest -q -n 3 --dist worksteal

.PHONY: demo test test-more check proto bench bench-page bench-theory bench-fleet claims clean help

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# What the package itself needs; tests and checks need more, which is installed on top of it.
$(PACKAGE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "levywalk needs Python 3.11 or newer; set PYTHON=…"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

$(STAMP): $(PACKAGE)
	$(PIP) -e '.[test,check]'
	@touch $@

demo: $(PACKAGE)  ## Set up and run the demo: a walk gets trapped, a jump sets it free
	$(BIN)/levywalk demo --out levywalk-demo

test: $(STAMP)  ## Set up and run the tests (seven minutes on two cores)
	$(PYTEST)

test-more: $(STAMP)  ## Run the long tests: soak, random faults, kills, exhaustive search, more examples (a quarter of an hour)
	$(PYTEST) -m 'more or hypothesis' --hypothesis-profile=more

check: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

proto: $(STAMP)  ## Write src/levywalk/fleet/runtime/messages_pb2.py from messages.proto, after a change there
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src levywalk/fleet/runtime/messages.proto

$(PEERS): $(STAMP)
	$(PIP) -e '.[bench]' \
		|| echo "not all libraries to compare with could be installed; their rows will say so"
	@touch $@

bench: $(PEERS)  ## Run the benchmarks (five minutes): the engine against C, plain loops and other libraries
	$(BIN)/python -m benchmarks --json benchmarks/results.json

bench-page: $(STAMP)  ## Write docs/performance.md and its figures from what `make bench` found
	$(BIN)/python -m benchmarks.page

bench-fleet: $(STAMP)  ## Hops per second of real node processes over mutual TLS (minutes)
	$(BIN)/python -m benchmarks.nodes

bench-theory: $(STAMP)  ## Time and memory of the theory at 1k, 100k and 1M nodes (minutes)
	$(BIN)/python -m benchmarks.theory

claims: $(STAMP)  ## Ask all of the paper's claims (half an hour) and write docs/claims.md with its figures
	$(BIN)/levywalk reproduce --all --out levywalk-reproduction
	$(BIN)/python -m benchmarks.claims levywalk-reproduction

clean:  ## Remove the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache levywalk-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
