# Everything runs inside .venv; `make test` and `make demo` need only python3, python3-venv, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What running needs is installed, and what the tests need besides.
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# Processes that share the tests; 0 runs them in pytest's own, for --pdb and -s. Four, for a test of processes waits for half
# of its time: that many keep two cores busy. tests/conftest.py says which tests stay together and which come first: xdist's
# own order, by the number of tests, would keep slow ones for the end. A cache of its own: xdist adds the group to a test's
# id, and --last-failed skips failed tests where it finds ids with and without.
WORKERS ?= 4
share = $(if $(filter-out 0,$(1)),-n $(1) --dist loadgroup --no-loadscope-reorder -o cache_dir=.pytest_cache/grouped)
PARALLEL := $(call share,$(WORKERS))
# Real clients, dpkg and whole systems keep a core busy, and some clients have short time limits of their own.
PAIR := $(call share,$(if $(filter 0 1,$(WORKERS)),$(WORKERS),2))

# Where this is set, as in some containers, each worker of each target would compile every module of the tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test thorough slow real wheel setup-test picture matrix conformance coverage lint bench fuzz chaos test-windows clean deb deb-test

install: $(STAMP)

# pip shows its progress: the first time may take a minute.
$(RUNS): pyproject.toml
	@echo 'Installing Hearth into $(VENV); this is done once.'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[demo]'
	$(BIN)/python -m compileall -q service/hearth
	touch $@

# The same environment, whether it is there already or not.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --quiet --upgrade pip
	$(PIP) --quiet --editable '.[test]'
	$(BIN)/python -m compileall -q service/hearth
	touch $(RUNS) $@

demo: $(RUNS)
	@$(BIN)/hearth demo

test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST_ARGS)

# Left out of `make test`: edge cases of the protocol and of the command line, servers by URL, reloads, sharing, misbehaving
# servers, a systemd in trouble, the demo, one scenario over every wire.
thorough: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "thorough and not slow" $(PYTEST_ARGS) tests/conformance tests/process tests/e2e

# Left out as well: real systemd once more, on the newest Python at hand.
slow: $(STAMP)
	$(BIN)/python -m pytest $(PAIR) -m slow $(PYTEST_ARGS) tests/e2e

# Real servers and clients from PyPI and npm, which are installed below .real at first.
real: $(STAMP)
	$(BIN)/python tests/real/install.py
	$(BIN)/python -m pytest $(PAIR) -m real $(PYTEST_ARGS) tests/real

# The sdist, and the wheel out of it, into dist.
wheel: $(STAMP)
	rm -f dist/mcp_hearth-*
	$(BIN)/python -m build --outdir dist

# `hearth setup` and the installed packages on a fresh Debian with real clients, which is made below .fresh at first.
setup-test: $(STAMP) wheel deb
	$(BIN)/python tests/fresh/layers.py
	$(BIN)/python -m pytest $(PAIR) -m real $(PYTEST_ARGS) tests/fresh

# The Debian package, in dist/; lintian has to be content with it. Built anew when something in it has changed.
deb: dist/.deb

dist/.deb: $(wildcard $(shell git ls-files debian docs launchd packaging service units '*.md' LICENSE pyproject.toml))
	packaging/deb/build.sh
	touch $@

# Its life on real systemd, autopkgtest and piuparts. Needs root.
deb-test: $(STAMP) deb
	$(BIN)/python -m pytest $(PAIR) -m deb $(PYTEST_ARGS) tests/deb

# Draws docs/terminal.svg anew, from what a terminal shows in there.
picture: $(STAMP) wheel
	$(BIN)/python tests/fresh/layers.py
	HEARTH_WRITE_PICTURE=1 $(BIN)/python -m pytest -m real -k wheel tests/fresh/test_setup.py

# Writes docs/matrix.md anew; `make test` fails when it finds anything else.
matrix: $(STAMP)
	HEARTH_WRITE_MATRIX=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/conformance/test_matrix.py

# MCP's own suite, installed below .official, against HTTP on the socket. WRITE=--write writes docs/conformance.md anew.
conformance: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m official.run $(WRITE)

# Branch coverage, daemons included; the bridge runs without site-packages and is counted by its unit tests only.
coverage: $(STAMP)
	mkdir -p .coverage
	$(BIN)/coverage run -m pytest $(PARALLEL) tests/unit tests/process
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy --platform win32
	$(BIN)/mypy --platform win32 winsvc/hearth_service.py

# Beside it, programs of others from PyPI, which are installed below .peers at first.
bench: $(STAMP)
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/run.py

fuzz: $(STAMP)
	$(BIN)/python tests/fuzz/run.py

# A few minutes; `make test` has a short form. HEARTH_CHAOS_SEED=N repeats the mix of a round, whose seed is printed.
chaos: $(STAMP)
	HEARTH_CHAOS_KILLS=50 HEARTH_CHAOS_ROUNDS=3 HEARTH_CHAOS_SECONDS=120 $(BIN)/python -m pytest -s -v $(PYTEST_ARGS) tests/process/test_chaos_*.py tests/process/test_upgrade.py

# By a Windows Python under Wine, which is installed first where that is allowed; without it they are skipped, except in CI.
test-windows: $(STAMP)
	$(BIN)/python tests/windows/run.py $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) .real .official .peers .fresh .wine .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
