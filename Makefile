# Two commands do all of their own set-up: `make demo` and `make test`. See `make help`.
.DEFAULT_GOAL := help
.PHONY: help demo demo-spark demo-pipeline near check lint format test proof trace mutants soak bench bench-spark bench-spark-long floors clean
MINUTES ?= 60
ROWS ?= 100000000
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
# The tests start hundreds of programs: without byte code each of them compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Brings the machine and the environment up to date (at no cost if they are) and names the environment's Python.
run  := python=$$(tools/setup_machine.sh run) && "$$python"
dev  := python=$$(tools/setup_machine.sh dev) && "$$python"
full := python=$$(tools/setup_machine.sh test) && "$$python"

help: ## this list
	@sed -n 's/^\([a-z-]*\):.* ## \(.*\)/make \1#\2/p' Makefile | column -t -s '#'

demo: ## 200,000 records into an embedded Kafka, read back and verified
	@$(run) -m aioproducer demo

demo-spark: ## DataFrames into an embedded Kafka through Spark, exactly once, audited: a table and a picture
	@mkdir -p build && $(full) examples/spark_pipeline.py build/spark-report.png

demo-pipeline: ## a pipeline on a Spark cluster of two workers, killed on its way, audited: a table and a picture
	@mkdir -p build && $(full) -m examples.pipeline.demo build/pipeline-report.png

near: ## the tests near FILE="a.py b.py", or near all that differs from main (on main: from the last commit)
	@$(dev) -m tools.near $(FILE)

check: ## before each commit: lint, and the tests of the library
	@$(dev) -m tools.checks check

lint: ## ruff, ruff format, mypy, stubtest, import-linter
	@$(dev) -m tools.checks lint

format: ## let ruff format the tree and mend what it can
	@$(dev) -m ruff format -q . && $(dev) -m ruff check --fix -q .

test: ## everything: lint, the core suite on the oldest and the newest Python, real Kafka, the distribution
	@$(full) -m tools.checks test $(if $(REPEAT_UNTIL),--repeat-until $(REPEAT_UNTIL))

proof: ## the proof at length: 50 times the seeds, every byte, ten times the kills (hours)
	@$(full) -m tools.checks proof

trace: ## the way of a record: each function that it passes, with file and line
	@$(dev) -m tests.trace

mutants: ## plant defects that other clients have had, one at a time: each must be caught
	@$(dev) -m tests.mutants

soak: ## real sockets and a fault every 10 s, for MINUTES=60: does anything leak?
	@$(dev) -m tests.soak --minutes $(MINUTES)

bench: ## measure against other clients on a real Kafka, and write the figures down
	@$(full) -m benchmarks && "$$python" tools/readme_figures.py && "$$python" -m benchmarks.outbox

bench-spark: ## measure DataFrames into Kafka: this sink, Spark's own connector, other clients in the same writer
	@$(full) -m benchmarks.spark

bench-spark-long: ## one batch of ROWS=100000000 exactly once: is the last tenth as fast as the first, and the memory flat?
	@$(full) -m benchmarks.spark.long --rows $(ROWS)

floors: ## the core suite with the lowest versions of the dependencies
	@$(dev) -m tools.checks floors

clean: ## remove what was built, keep the environments and the downloaded Kafka
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find aioproducer \( -name '*.so' -o -path '*/_core/*.c' \) -delete
	@find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
