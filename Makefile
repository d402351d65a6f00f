# SPDX-License-Identifier: Apache-2.0
# make harm   sets up what is missing, then measures the harm to a video (ARGS="--qdisc=dualpi2" is passed on)
# make check  lint, types and the unit tests, which start no program: 1 minute
# make test   sets up, then checks and runs all tests but the nightly ones: 10 minutes; `pytest -m nightly` runs those
# make paper  sets up, then makes the runs of the tables in README and docs, and writes these: more than a day on two cores
# make setup  packages, Python environment, virtual APU, clip and player; warm: a moment
# make release  writes wheel, source archive, prebuilt parts, bill of materials and checksums to dist/ (SIGN=KEY signs)
# make lock   renews requirements.txt from pyproject.toml
# make clean  removes what tools left in the checkout (the cache and results/ stay)

SOJOURN_CACHE ?= $(HOME)/.cache/sojourn
export SOJOURN_CACHE
BIN := $(SOJOURN_CACHE)/venv/bin
PYTEST := $(BIN)/python -m pytest
# As many as tests/conftest.py finds room for; of the unit tests, which never wait, one a processor.
SIDE_BY_SIDE := --numprocesses=auto --maxprocesses=4 --dist=loadscope
UNIT := --numprocesses=logical --maxprocesses=4 --dist=loadscope
SERVICE ?= youtube

.DEFAULT_GOAL := help
.PHONY: help harm paper test check lint unit setup environment release lock clean

help:
	@sed -n 's/^# make/make/p' Makefile

# A lab in real time needs more programs than one in simulated time.
harm:
	@sh harness/setup.sh $(if $(findstring --lab,$(filter-out --lab=sim,$(ARGS))),real-time,simulated)
	@$(BIN)/python -m sojourn.harness.cli harm --service=$(SERVICE) $(ARGS)

# A user's own defaults are for what he measures, not for the tests of the code.
test unit: export SOJOURN_DEFAULTS :=
# Each worker and each command that the tests start would compile what it imports.
test unit: export PYTHONDONTWRITEBYTECODE :=

test: setup lint
	$(PYTEST) tests/lab tests/programs tests/unit -m "not nightly and not live" $(SIDE_BY_SIDE)

check: environment lint unit

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	if cargo fmt --version >/dev/null 2>&1; then for crate in rust rust/origin; do cargo fmt --check --manifest-path traffic/$$crate/Cargo.toml || exit 1; done; fi

unit:
	$(PYTEST) tests/unit $(UNIT)

paper: setup
	$(BIN)/python -m sojourn.harness.cli paper

setup: environment
	@$(BIN)/python -m sojourn.harness.cli build

environment:
	@sh harness/setup.sh

release: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
release: setup
	rm -rf dist
	$(BIN)/hatchling build -d dist
	$(BIN)/python -m sojourn.harness.cli build --pack=dist/sojourn-prebuilt-amd64.tar.zst $(if $(SIGN),--sign=$(SIGN))
	$(BIN)/python -m sojourn.harness.bundle.bill_of_materials dist/sojourn.cdx.json
	cd dist && sha256sum * >SHA256SUMS && cat SHA256SUMS
	$(if $(SIGN),ssh-keygen -Y sign -n sojourn -f $(SIGN) dist/SHA256SUMS)

lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	  --no-emit-index-url --no-header pyproject.toml --output-file requirements.txt

clean:
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
