# Everything from a fresh clone: each target makes .venv and installs what it needs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHOW := --quiet
PIP := $(BIN)/python -m pip install $(SHOW) --disable-pip-version-check -c constraints.txt
PINS := pyproject.toml constraints.txt

.PHONY: demo test quick integrations docs dist lint test-oldest test-newest bench clean

# The first time, pip takes minutes: it shows what it does. With all that the demo says to try next.
demo:
	@test -e $(VENV)/.explore || echo "Installing torch and the rest into $(VENV): minutes, the first time."
	@$(MAKE) --no-print-directory $(VENV)/.explore SHOW=
	$(BIN)/cola demo

# One command per line: make stops at the first that fails. -rs: why tests were skipped.
test: lint
	$(BIN)/python -m pytest -q --doctest-modules src
	$(BIN)/python -m pytest -q -rs -n 2

# While one works: laws, the contract, and one look at ensembles, sampling and multirate, in a minute.
QUICK := tests/laws/test_manifold.py tests/laws/test_native.py tests/laws/test_reversible.py \
	tests/constraints tests/integrators tests/optimizers/test_contract.py tests/optimizers/test_sgd.py \
	tests/optimizers/test_repeating.py tests/optimizers/test_not_finite.py \
	tests/optimizers/test_optimizer_contract.py tests/optimizers/test_rates.py \
	tests/optimizers/test_bounds.py tests/optimizers/test_bad_input.py::TestProjectionsThatFail \
	tests/ensemble/test_members_follow_cola.py tests/sampling/test_sample.py \
	tests/native/test_elementwise.py tests/native/test_rows.py \
	tests/optimizers/test_directions.py::TestEqualToTheKnownOnes \
	tests/optimizers/test_directions.py::test_one_pass_and_formulas_agree_in_weights_and_state \
	tests/partitioned/test_transcriptions.py tests/test_architecture.py

quick: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/python -m pytest -q -n 2 $(QUICK)

# In the frameworks that people use: they come with a venv of their own.
integrations: $(VENV)-integrations/.installed
	$(VENV)-integrations/bin/python -m pytest -q --doctest-modules src/colangevin/integrations
	$(VENV)-integrations/bin/python -m pytest -q -n 2 tests/integrations

# The site in build/site; a warning or a link that leads nowhere is an error.
docs: $(VENV)/.docs
	$(BIN)/python scripts/site.py

# Wheel and sdist in dist/, as they would be published: metadata and README checked, and the wheel
# tried in a venv of its own.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/try_wheel.py

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# The core with the oldest torch that pyproject.toml allows, and with the newest that was tested.
test-oldest test-newest: test-%: $(VENV)-%/.core
	$(VENV)-$*/bin/python -m pytest -q --ignore=tests/lab -m "not slow and not statistical"

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) $(VENV)-* .mypy_cache .pytest_cache .ruff_cache .hypothesis out build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp for each set of extras, so that installing one never hides that another is missing.
$(VENV)/.explore $(VENV)/.dev $(VENV)/.bench $(VENV)/.docs $(VENV)/.dist: $(VENV)/.%: $(VENV)/.created $(PINS)
	$(PIP) -e ".[$*]"
	@touch $@

$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)-integrations/.installed: $(PINS)
	$(PYTHON) -m venv $(VENV)-integrations
	$(VENV)-integrations/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[integrations]"
	@touch $@

# Without dependencies, which the list has in full: torch's would bring all of CUDA.
$(VENV)-%/.core: constraints-%.txt pyproject.toml scripts/cuda_stubs.py
	$(PYTHON) -m venv --clear $(VENV)-$*
	$(VENV)-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $< -e .
	$(VENV)-$*/bin/python scripts/cuda_stubs.py
	@touch $@
