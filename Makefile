# Development tasks. Only Python 3.11+ and make are needed; everything else is installed into .venv.

VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
FUZZ_S ?= 600

# Without bytecode, every start would compile the libraries again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup docs screenshots chat test test-postgres compatibility proofs injection test-all check lint format constraints schema vendor catalogue bench crash soak fuzz image-test clean

help:
	@echo "make setup        install, then the first questions: model, name, Telegram"
	@echo "make chat         talk to Kore in this terminal"
	@echo "make test         run the suite, without the long proofs"
	@echo "make test-postgres  run the tests of the gateway on PostgreSQL instead of SQLite"
	@echo "make compatibility  run the tests with programs of others, and write docs/compatibility.md"
	@echo "make proofs       run only the long proofs: sandbox escapes, dozens of kills"
	@echo "make test-all     run the whole suite, with the long proofs"
	@echo "make injection    test prompt injection with other sandboxes and as an ordinary user"
	@echo "make check        lint, types, layering, house tests"
	@echo "make lint         the same without the house tests, which are also part of make test"
	@echo "make format       format the code"
	@echo "make bench        measure the figures in the README"
	@echo "make crash        1,000 kills over 5,000 messages, 100 of long work, 1,000 faults of workers"
	@echo "make soak         use the web page for an hour as a person would (needs chromium)"
	@echo "make fuzz         new examples for every property, and ten minutes of random input (FUZZ_S=600)"
	@echo "make image-test   build the container image, run it, kill it, restart it"
	@echo "make constraints  resolve all dependencies into constraints.txt"
	@echo "make vendor       download the browser modules of the web page (needs npm)"
	@echo "make schema       update docs/events.schema.json, control-socket.md, settings.md, openapi.json and others from the code"
	@echo "make catalogue    sort the translation catalogues and list missing translations"
	@echo "make docs         build the documentation as a site, into build/site"
	@echo "make screenshots  retake the pictures in the docs from running programs (needs tmux)"
	@echo "make clean        remove .venv and everything that was built"

# Job control gives Kore its own process group, so that Ctrl-C stops a turn and not make.
setup: $(VENV)/.runtime
	@if [ -t 0 ]; then trap '' TSTP; set -m; fi; $(BIN)/kore init

# Start in the workspace: otherwise Kore's own source would be the project.
chat: $(VENV)/.runtime
	@if [ -t 0 ]; then trap '' TSTP; set -m; fi; KORE_AGENT_START_IN=workspace $(BIN)/kore agent

# More workers than processors: a test waits for two thirds of its time for timers and other
# processes.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) * 3 )))

test: $(VENV)/.dev
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

# Tests that use the store: the gateway with its terminals and pages, its service, kills. To run a
# part: make test-postgres POSTGRES_TESTS=tests/gateway/bus
POSTGRES_TESTS ?= tests/gateway tests/contracts/test_service.py tests/crash \
	--ignore tests/gateway/store/sqlite --ignore tests/gateway/store/postgres \
	--ignore tests/gateway/store/test_cipher.py

test-postgres: $(VENV)/.dev
	@KORE_TEST_STORE=postgres $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" \
		$(POSTGRES_TESTS) $(PYTEST_ARGS)

# `.ci/run compatibility` installs the programs first.
compatibility: $(VENV)/.dev
	@$(BIN)/pytest -n 2 -m counterpart --compatibility $(PYTEST_ARGS)

proofs: $(VENV)/.dev
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m slow $(PYTEST_ARGS)

injection: $(VENV)/.dev
	@$(BIN)/python -m tests.injection -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

test-all: $(VENV)/.dev
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)

check: lint
	$(BIN)/pytest tests/house $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.dev
	@$(BIN)/python -m bench

crash: $(VENV)/.dev
	@$(BIN)/python -m tests.crash --kills 1000 --messages 5000
	@$(BIN)/python -m tests.crash.longwork --kills 100
	@$(BIN)/python -m tests.crash.clients --kills 1000
	@$(BIN)/python -m tests.crash.workers --kills 700 --messages 3500
	@$(BIN)/python -m tests.crash.workers --kills 300 --messages 1500 --seed 2 --bus nats

soak: $(VENV)/.dev
	@$(BIN)/python -m tests.soak_web --minutes 60

# To run a part: make fuzz FUZZ="paths archives"
fuzz: $(VENV)/.dev
	@$(if $(FUZZ),,KORE_TEST_PROFILE=search $(BIN)/pytest -n auto -m hypothesis $(PYTEST_ARGS))
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_S) $(FUZZ)

image-test: $(VENV)/.dev
	@$(BIN)/python -m tests.image

# Resolve for the oldest supported Python regardless of the one that runs here: Debian 12 has
# 3.11.2, and some libraries require a later patch.
constraints:
	@$(find_python); \
	work=$$(mktemp -d) && trap 'rm -rf "$$work"' EXIT && \
	$$python -m venv "$$work" && \
	$$python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb')); print(*p['build-system']['requires'], *p['project']['dependencies'], *(d for d in sum(p['project']['optional-dependencies'].values(), []) if not d.startswith(p['project']['name'])), sep='\n')" > "$$work/wanted" && \
	"$$work/bin/pip" install -q --dry-run --ignore-installed --only-binary :all: --target "$$work/t" \
		--python-version 3.11.0 --report "$$work/report.json" -r "$$work/wanted" && \
	$$python -c "import json, re, sys; print(*sorted(re.sub('[-_.]+', '-', i['metadata']['name']).lower() + '==' + i['metadata']['version'] for i in json.load(open(sys.argv[1]))['install']), sep='\n')" "$$work/report.json" > constraints.txt && \
	echo "constraints.txt: $$(wc -l < constraints.txt) pinned packages"

schema: $(VENV)/.dev
	@$(BIN)/python -m tests.house.service_stub
	@$(BIN)/python -m tests.house.command_table
	@$(BIN)/python -m tests.house.event_schema > docs/events.schema.json
	@$(BIN)/python -m tests.house.control_page > docs/control-socket.md
	@$(BIN)/python -m tests.house.settings_page > docs/settings.md
	@$(BIN)/python -m tests.house.settings_page --example > config.example.json
	@$(BIN)/python -m tests.house.openapi > docs/openapi.json
	@$(BIN)/python -m tests.house.typescript > gateway/server/web/static/app/protocol.d.mts

vendor: $(VENV)/.dev
	@$(BIN)/python -m tests.house.vendored

catalogue: $(VENV)/.dev
	@$(BIN)/python -m tests.house.catalogue

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

screenshots: $(VENV)/.dev
	@$(BIN)/python -m pages.screenshots

clean:
	rm -rf $(VENV) .fuzz dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis *.egg-info

# Skip shims that report "not selected" and Pythons that are too old.
define find_python
python=; for name in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then python=$$name; break; fi; done; \
if [ -z "$$python" ]; then \
	echo "Kore needs Python 3.11 or newer and found none: install it, or run make PYTHON=/path/to/python3." >&2; \
	exit 1; fi
endef

$(BIN)/pip:
	@$(find_python); \
	if ! $$python -c 'import ensurepip' 2>/dev/null; then \
		echo "$$python cannot create virtual environments: install its venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; \
		exit 1; fi; \
	$$python -m venv $(VENV)

# The build backend comes from the same pinned list, hence no isolated build.
$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/pip
	@echo "Installing Kore into $(VENV) (about a minute, once) ..." >&2
	@$(BIN)/pip install -q -c constraints.txt hatchling
	@$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e '.[mcp,code]'
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
	@echo "Installing the tools for the site ..." >&2
	@$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@echo "Installing the tools for tests and checks ..." >&2
	@$(BIN)/pip install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@
