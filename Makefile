# Kore's errands. Only Python 3.11+ and make are needed; everything else is installed into .venv.

VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=
FUZZ_S ?= 600

# Without bytecode every start would compile the libraries again.
unexport PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup docs screenshots chat test test-postgres proofs injection test-all check lint format constraints schema vendor catalogue bench crash soak fuzz image-test clean

help:
	@echo "make setup        install, then the first questions: model, name, Telegram"
	@echo "make chat         talk to Kore in this terminal"
	@echo "make test         run the suite, without the long proofs"
	@echo "make test-postgres  what stores something, on PostgreSQL in place of SQLite"
	@echo "make proofs       the long proofs only: every way out of the sandbox, kills by the dozen"
	@echo "make test-all     both"
	@echo "make injection    prompt injection with other sandboxes, and as an ordinary user"
	@echo "make check        lint, types, layering, house tests"
	@echo "make lint         the same without the house tests, which make test runs, too"
	@echo "make format       put the code into its house form"
	@echo "make bench        measure what the README quotes"
	@echo "make crash        1,000 kills over 5,000 messages, 100 of long work, 1,000 faults of workers"
	@echo "make soak         an hour of everything that a person does on the web page (needs chromium)"
	@echo "make fuzz         new examples for every property, and ten minutes of odd input (FUZZ_S=600)"
	@echo "make image-test   build the container image, run it, kill it, restart it"
	@echo "make constraints  resolve all dependencies anew into constraints.txt"
	@echo "make vendor       fetch the browser modules of the web page anew (needs npm)"
	@echo "make schema       update docs/events.schema.json, control-socket.md, settings.md, openapi.json and others from the code"
	@echo "make catalogue    sort the languages' catalogues and list what they lack"
	@echo "make docs         build the documentation as a site, into build/site"
	@echo "make screenshots  take the pictures of the pages anew, of running programs (needs tmux)"
	@echo "make clean        remove .venv and all that was built"

# The terminal belongs to Kore alone (job control gives it a process group of its own), so that
# Ctrl-C stops a turn and never make.
setup: $(VENV)/.runtime
	@if [ -t 0 ]; then trap '' TSTP; set -m; fi; $(BIN)/kore init

# Whoever tries Kore has no project yet: not its own source, where make runs.
chat: $(VENV)/.runtime
	@if [ -t 0 ]; then trap '' TSTP; set -m; fi; KORE_AGENT_START_IN=workspace $(BIN)/kore agent

# More workers than processors: a test that waits for a process leaves its processor to another.
WORKERS ?= $(shell echo $$(( $$(nproc 2>/dev/null || echo 2) * 2 )))

test: $(VENV)/.dev
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" $(PYTEST_ARGS)

# What speaks of the store: the gateway with its terminals and pages, its service, kills. One part: make test-postgres
# POSTGRES_TESTS=tests/gateway/bus
POSTGRES_TESTS ?= tests/gateway tests/contracts/test_service.py tests/crash \
	--ignore tests/gateway/store/sqlite --ignore tests/gateway/store/postgres \
	--ignore tests/gateway/store/test_cipher.py

test-postgres: $(VENV)/.dev
	@KORE_TEST_STORE=postgres $(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not slow" \
		$(POSTGRES_TESTS) $(PYTEST_ARGS)

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

# One part only: make fuzz FUZZ="paths archives"
fuzz: $(VENV)/.dev
	@$(if $(FUZZ),,KORE_TEST_PROFILE=search $(BIN)/pytest -n auto -m hypothesis $(PYTEST_ARGS))
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_S) $(FUZZ)

image-test: $(VENV)/.dev
	@$(BIN)/python -m tests.image

# Resolved for the oldest Python that Kore runs on, whatever runs here: Debian 12 has 3.11.2, and
# some libraries ask for a later patch.
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

# A shim that answers "not selected" or a Python that is too old does not count.
define find_python
python=; for name in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then python=$$name; break; fi; done; \
if [ -z "$$python" ]; then \
	echo "Kore needs Python 3.11 or newer, and found none: install it, or name one with make PYTHON=/path/to/python3." >&2; \
	exit 1; fi
endef

$(BIN)/pip:
	@$(find_python); \
	if ! $$python -c 'import ensurepip' 2>/dev/null; then \
		echo "$$python cannot make virtual environments: install its venv module (Debian and Ubuntu: apt-get install python3-venv)." >&2; \
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
