# make demo   set up, then: draw films -> train -> index unseen ones -> search -> the page (some minutes on two free
#             cores; DEMO_SERVE=0 make demo ends without the page)
# make test   set up, then the tests that CI runs
# make browser   Chromium for the tests of the page, where this is Debian and we are root; without it they are skipped
# make wheel  builds dist/prvr-VERSION-py3-none-any.whl, for `pip install "dist/….whl[media,server,encoders]"`
# make picture   draws docs/images/page.png again, by the test of the page
# make lock   renews locks/*.txt (versions and hashes) after a change of pyproject.toml or constraints.txt
# make sbom   lists what the locks hold, for programs that look for known problems: dist/prvr.cdx.json (CycloneDX)
#
# Packages are installed from locks/, by hash, apart from torch, whose build depends on the machine (docs/supply-chain.md).
# `make setup TORCH="--no-deps --require-hashes -r locks/torch.txt"` takes the build of the usual index, by hash.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
NEEDED := $(VENV)/.runtime
TORCH  ?= -c constraints.txt torch
UV     := uv==0.13.7

.PHONY: setup demo test test-all wheel picture browser strace lint format clean lock sbom

setup: $(STAMP)

define install
	@echo "== setting up $(VENV) (a few minutes the first time; pip shows its progress below)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --require-hashes -r $(1)
	$(BIN)/python -m pip install --no-compile $(TORCH)
	$(BIN)/python -m pip install --no-deps --no-build-isolation -e .
endef

$(STAMP): pyproject.toml constraints.txt locks/development.txt
	$(call install,locks/development.txt)
	@touch $@ $(NEEDED)

$(NEEDED): pyproject.toml constraints.txt locks/runtime.txt
	$(call install,locks/runtime.txt)
	@touch $@

demo: $(NEEDED)
	$(BIN)/prvr demo

lock:
	@test -x build/lock/bin/python || $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q $(UV)
	build/lock/bin/python tools/lock.py $(if $(UPGRADE),--upgrade)

sbom:
	$(PYTHON) tools/sbom.py

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not gpu"

picture: setup
	PRVR_PICTURES=1 $(BIN)/python -m pytest -q tests/server/test_page.py -k picture

browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then echo "== Chromium is there"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null \
			|| echo "== Chromium could not be installed: the tests of the page will be skipped"; \
	else echo "== no Chromium and no way to install it here: the tests of the page will be skipped"; fi

strace:
	@if command -v strace >/dev/null; then echo "== strace is there"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends strace >/dev/null \
			|| echo "== strace could not be installed: the tests of power cuts will be skipped"; \
	else echo "== no strace and no way to install it here: the tests of power cuts will be skipped"; fi

test-all: setup
	$(BIN)/python -m pytest

wheel: setup
	$(BIN)/python -m build --wheel --no-isolation

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist demo src/*.egg-info
