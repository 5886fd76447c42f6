# Two commands are all a newcomer needs: `make quickstart` and `make test`. Each does its own set-up in .venv.
VENV ?= .venv
BIN := $(VENV)/bin
TRAINER ?= $(VENV)/trainer
# Tests side by side: one more than cores, since many of them wait.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
# The first Python of 3.12 and 3.11 that really starts.
PYTHON ?= $(shell for p in python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: quickstart test check format clean

quickstart: $(VENV)/.ready  ## the whole pipeline on recorded model replies: no key, no GPU, no Docker
	@$(BIN)/endless run quickstart
	@if [ "$(TRAIN)" = no ]; then :; \
	elif ! command -v g++ >/dev/null; then echo "training: skipped, it needs a C++ compiler (Debian: apt install g++)"; \
	else $(MAKE) --no-print-directory train; fi

.PHONY: train
train: $(if $(ENDLESS_TRAINER),,$(VENV)/.ready-trainer) | $(VENV)/.ready
	@echo && echo "and now with training: SFT, PPO and evaluation of a policy that fits on two cores (TRAIN=no leaves it out);"
	@echo "four steps of PPO show that it works, the fifteen of \`endless run tiny\` show that it learns"
	@ENDLESS_TRAINER=$(or $(ENDLESS_TRAINER),$(abspath $(TRAINER))/bin/python) \
		$(BIN)/endless run tiny ppo.epochs=4 eval.dev.samples=4

test: $(VENV)/.ready-dev  ## all tests; those that need an absent engine are skipped with the reason
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not machine"
	@$(BIN)/pytest -q -m machine

check: $(VENV)/.ready-dev  ## formatting, lint, types, layers
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

format: $(VENV)/.ready-dev
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .

clean:  ## forget the environment; results in outputs/ stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: needs Python 3.11 or 3.12 (with venv); name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 2; }
	@echo "setting up $(VENV) (about two minutes, once)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	@$(PIP) install --use-pep517 -e .
	@touch $@

$(VENV)/.ready-trainer: runner/training/cpu/requirements.txt | $(BIN)/python
	@echo "setting up $(TRAINER): OpenRLHF and vLLM for a CPU (2.7 GB, about two minutes, once)"
	@$(BIN)/python -m venv $(TRAINER)
	@$(TRAINER)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -r $<
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(BIN)/python
	@$(PIP) install --use-pep517 -e '.[dev]'
	@touch $@ $(VENV)/.ready
