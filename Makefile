# Everything that a clone needs: `make run` and `make test` set up .venv and find Java on first use.

PYTHON ?= python3
ENGINE ?= spark
ARGS ?=
WORKERS ?= auto
CLUSTER_TESTS ?= tests/conformance tests/test_pandas.py
MEMORY ?= arranged off starved
MEMORY_TESTS ?= tests/laws tests/test_crash.py tests/test_durability.py tests/test_definitions_durability.py \
  tests/test_rules_durability.py tests/test_lagging_restart.py tests/test_tide.py

.DEFAULT_GOAL := help
.PHONY: help run run-pipeline test test-all test-long test-memory test-cluster check format hunt bench lock clean FORCE

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  ENGINE=spark|duckdb chooses the engine of run and bench (now: $(ENGINE))"
	@echo "  ARGS=...            is passed on to pytest and to the benchmark"
	@echo "  WORKERS=...         is the number of processes that tests run in (now: $(WORKERS), at most 4)"
	@echo "  PYTHON=...          is the Python that .venv is made with (now: $(PYTHON))"

run: .venv/.ready ## Run the inventory example (ENGINE=spark or duckdb)
	@if [ "$(ENGINE)" = spark ]; then JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME || exit 1; fi; \
	  .venv/bin/tidemark run examples/inventory/inventory.sql --engine $(ENGINE)

run-pipeline: .venv/.ready ## Run the pipeline over Delta tables of others (ENGINE=spark or duckdb)
	@if [ "$(ENGINE)" = spark ]; then JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME || exit 1; fi; \
	  .venv/bin/python examples/pipeline/pipeline.py $(ENGINE)

# The quick run has every law and engine with a smaller budget (tests/effort.py). Java compiles less of what runs briefly.
PYTEST = start=$$(date +%s); JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && \
  export TIDEMARK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" && \
  trap 'echo "tests: $$(( $$(date +%s) - start )) s"' EXIT && \
  .venv/bin/pytest -n $(WORKERS) --maxprocesses 4 --dist loadgroup --durations 15

test: .venv/.ready ## Run the tests in some minutes (ARGS="-m 'not spark'" leaves Spark out)
	@export TIDEMARK_TEST=quick; $(PYTEST) $(ARGS)

test-all: .venv/.ready ## Run every test in full, crash suites, TPC-H and other kinds of Spark sessions included
	@export TIDEMARK_TEST=all; $(PYTEST) $(ARGS)
	@TIDEMARK_TEST=quick $(MAKE) --no-print-directory test-memory MEMORY=starved
	@$(MAKE) --no-print-directory test-cluster CLUSTER_TESTS="tests/conformance/test_corner_cases.py tests/test_pandas.py"

test-long: .venv/.ready ## Run ten times the examples of every law, and the whole suite on other kinds of Spark sessions
	@export TIDEMARK_TEST=long; $(PYTEST) $(ARGS)
	@TIDEMARK_TEST=all $(MAKE) --no-print-directory test-memory
	@$(MAKE) --no-print-directory test-cluster

# The conformance suite has these kinds of databases by itself.
test-memory: .venv/.ready ## Run laws and crash suites with all rows arranged, with none, and with next to no memory
	@for memory in $(MEMORY); do \
	  echo "memory: $$memory"; \
	  TIDEMARK_TEST_MEMORY=$$memory .venv/bin/pytest -n $(WORKERS) --maxprocesses 4 --dist loadgroup \
	    -m "not spark" $(MEMORY_TESTS) || exit 1; \
	done

# Each kind of session in a process of its own: Spark Connect and classic Spark do not share one. "Forced" are the
# databases that leave all that is stored to Spark, whatever its size.
test-cluster: .venv/.ready ## Run the conformance suite on worker processes and on a Spark Connect server
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && for kind in cluster connect; do \
	  echo "on $$kind:"; \
	  TIDEMARK_TEST_SPARK=$$kind .venv/bin/pytest $(CLUSTER_TESTS) -m spark -k "forced or pandas" $(ARGS) || exit 1; \
	done

check: .venv/.ready ## Check format, lint and types
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

format: .venv/.ready ## Format the code and apply the safe fixes of the linter
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# On DuckDB unless another engine is named: reference, duckdb, statements (DuckDB without short cuts), spark, forced
# (Spark for all that is stored).
hunt: .venv/.ready ## Hunt for wrong answers (SEED=… MINUTES=… ENGINE=duckdb or forced; exit code 1 if there is one)
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && \
	  .venv/bin/python -m tests.hunt --engine $(if $(filter command line environment,$(origin ENGINE)),$(ENGINE),duckdb) \
	  --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

bench: .venv/.ready ## Run the benchmark (ENGINE=spark or duckdb, ARGS=--quick for a short one)
	@JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME && \
	  .venv/bin/tidemark bench --engine $(ENGINE) $(ARGS)

lock: ## Resolve the dependencies of pyproject.toml anew into requirements.lock
	@scripts/lock.sh "$(PYTHON)"

clean: ## Remove .venv, caches and everything that was built
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find src benchmarks tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp holds the folder that .venv was made for. A .venv whose Python is gone, or that was copied or moved
# here together with the folder (its scripts still point to the old place), is made anew.
ifneq ($(shell .venv/bin/python -c pass 2>/dev/null && cat .venv/.ready 2>/dev/null),$(CURDIR))
.venv/.ready: FORCE
endif

.venv/.ready: requirements.lock pyproject.toml benchmarks/pyproject.toml
	@scripts/venv.sh "$(PYTHON)"
