# make demo   set up, then: draw films -> train -> index unseen ones -> search -> the page (about four minutes on two free
#             cores; DEMO_SERVE=0 make demo ends without the page)
# make test   set up, then the tests that CI runs
# make browser   Chromium for the tests of the page, where this is Debian and we are root; without it they are skipped
# make wheel  builds dist/prvr-VERSION-py3-none-any.whl, for `pip install "dist/….whl[media,server,encoders]"`
# make picture   draws docs/images/page.png again, by the test of the page
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-all wheel picture browser strace lint format clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "== setting up $(VENV) (a few minutes the first time; pip shows its progress below)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt -e ".[dev]"
	@touch $@

demo: setup
	$(BIN)/prvr demo

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not gpu"

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
	$(BIN)/python -m pip install -q -c constraints.txt -e ".[dev,scale]"
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
