# make serve | install | test | lint | soak | bench | clean      (make help says more)

PYTHON ?= python3
VENV ?= .venv
export PYTHON VENV

# Options of `make serve`; empty ones are left to the environment and the defaults.
MODEL ?=
HOST ?=
PORT ?=
DEVICE ?=
ARGS ?=

SERVE_OPTIONS = $(if $(HOST),--host '$(HOST)') $(if $(PORT),--port '$(PORT)') \
	$(if $(DEVICE),--device '$(DEVICE)') $(ARGS) $(if $(MODEL),'$(MODEL)')

.DEFAULT_GOAL := help
.PHONY: help install install-test install-lint install-soak serve test lint soak bench clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

install: ## Make .venv and install Refloat into it
	@scripts/install

install-test:
	@scripts/install test

install-lint:
	@scripts/install test,lint

install-soak:
	@scripts/install test,soak

serve: install ## Serve a model: make serve MODEL=... PORT=... HOST=... DEVICE=... ARGS="..."
	@exec $(VENV)/bin/refloat serve $(SERVE_OPTIONS)

test: install-test ## All tests but the long ones
	@scripts/test $(ARGS)

lint: install-lint ## Lint and types
	@scripts/check

soak: install-soak ## The long versions of tests
	@scripts/soak $(ARGS)

bench: install-test ## Compare Refloat with the bare engine on this machine
	@$(VENV)/bin/refloat bench $(ARGS)

clean: ## Remove .venv and what tests left (never the models)
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist *.egg-info
