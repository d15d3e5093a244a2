# levywalk: `make demo` and `make test` set up what they need in .venv; no root, no other tools than python3.11, make and git.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PACKAGE := .venv/.package
STAMP := .venv/.installed
PEERS := .venv/.peers
DOCS := .venv/.docs
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Without stored bytecode every process that a test starts would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE
# Long tests have more workers than cores, since those of fleets and of processes wait for some of their time. Each
# worker collects all tests, which takes ten seconds, so that the quick tests have as many workers as cores.
PYTEST := $(BIN)/python -m pytest -q --dist worksteal

.PHONY: demo test test-more test-soak frameworks digits check wheel docs address proto bench bench-page bench-theory bench-fleet league claims claims-second published phase-diagram clean help

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

test: $(STAMP)  ## Set up and run the tests (five minutes on two cores)
	$(PYTEST) -n 2

FRAMEWORKS := .venv/.frameworks
$(FRAMEWORKS): $(STAMP)
	$(PIP) -e '.[torch,jax]'
	@touch $@

frameworks: $(FRAMEWORKS)  ## Install torch and JAX, and run the tests that need them (three minutes, 2 GB)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/frameworks src/levywalk/problem/torch_models.py src/levywalk/problem/jax_models.py

test-more: $(STAMP)  ## Run the long tests: random faults, kills, exhaustive search, more examples (half an hour)
	$(PYTEST) -n 4 -m '(more or hypothesis) and not soak' --hypothesis-profile=more

test-soak: $(STAMP)  ## Run the longest tests, whose shorter ones `make test-more` has (half an hour)
	$(PYTEST) -n 4 -m 'soak or hypothesis' --hypothesis-profile=soak

check: $(STAMP)  ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports

wheel:  ## Build sdist and wheel, and try the wheel in an empty environment without extras (minutes)
	PYTHON=$(PYTHON) .ci/wheel

# MathJax is 24 MB as it is installed; the one file of it that the site needs is 2.1 MB.
build/mathjax/node_modules/mathjax:
	@mkdir -p build/mathjax
	npm install --silent --no-audit --no-fund --prefix build/mathjax mathjax@3.2.2 \
		|| echo "npm cannot install MathJax here: formulas stay as they were typed"

# A CPU build of torch that is in .venv already is taken as it is; else pip may bring one with CUDA.
$(DOCS): $(PACKAGE)
	$(PIP) -e '.[docs]'
	$(PIP) -e '.[torch,jax]' \
		|| echo "torch or JAX cannot be installed here: the gallery leaves out their examples, and says so"
	@touch $@

docs: $(DOCS) build/mathjax/node_modules/mathjax  ## Build the site, examples included, without a warning, and check its links (some minutes the first time); open build/site/html/index.html
	$(BIN)/python -m website

address:  ## Set the project's address wherever it is said: make address ADDRESS=https://github.com/OWNER/levywalk
	@test -n "$(ADDRESS)" || { echo "type: make address ADDRESS=https://github.com/OWNER/levywalk"; exit 2; }
	$(PYTHON) -m website.address "$(ADDRESS)"

proto: $(STAMP)  ## Write src/levywalk/fleet/runtime/messages_pb2.py from messages.proto, after a change there
	$(BIN)/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src levywalk/fleet/runtime/messages.proto

$(PEERS): $(STAMP)
	$(PIP) -e '.[bench]' \
		|| echo "not all libraries to compare with could be installed; their rows will say so"
	@touch $@

bench: $(PEERS)  ## Run the benchmarks (ten minutes): the engine against C, plain loops and other libraries
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

claims-second: $(STAMP)  ## The same claims on a second, independent range of seeds (half an hour), beside the first in docs/claims.md
	$(BIN)/levywalk reproduce --all --seeds second --no-figures --out levywalk-reproduction-second
	$(BIN)/python -m benchmarks.claims levywalk-reproduction levywalk-reproduction-second

published: $(STAMP)  ## The authors' published curves against their own settings (minutes); prints the table of docs/paper.md and draws docs/figures/published.svg
	$(BIN)/python -m benchmarks.published --write

phase-diagram: $(STAMP)  ## Which method wins over signal to noise and importance ratio (50 minutes); writes docs/figures/phase-diagram.svg
	$(BIN)/python -m benchmarks.phase_diagram --write

digits: $(FRAMEWORKS)  ## Digits cut by label, with softmax, an MLP and a CNN (ten minutes); writes docs/digits.md
	$(BIN)/python -m benchmarks.digits

league: $(STAMP)  ## Let all pairs compete (about an hour), judge the goals, and write the results into docs/league.md
	$(BIN)/levywalk league --check --out levywalk-league; found=$$?; \
		$(BIN)/python -m benchmarks.league levywalk-league && exit $$found

clean:  ## Remove the environment and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache levywalk-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
