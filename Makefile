# `make help` lists the targets. Each makes or refreshes the environment first (tools/setup.py).

PYTHON ?= python3
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SHELL_SCRIPTS = $(shell git ls-files '*.sh' .ci/run)
# Tools that write a page or a schema from the code; with --check they only compare.
WRITERS = $(wildcard tools/write_*.py)
# The pure ones first, so that a wrong rule fails within seconds. Then what takes longest on one core; files of short
# tests come last, so that cores end together. pytest collects a folder once, whatever files of it are named before.
TESTS = $(wildcard $(addprefix tests/,unit deploy matrix policy synth packaging typing snapshots))

# A process for each core: a test waits for Node half of its time. A file stays in one process, which keeps its fixtures;
# tests/conftest.py names the folder that does this. In the order given, or long tests of small files would come last.
PARALLEL = --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Ignore the caller's virtual environment and Node.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Bytecode is compiled when it is first needed, and kept.
unexport PYTHONDONTWRITEBYTECODE
CALLER_PATH := $(PATH)
export PATH := $(CURDIR)/.venv/bin:$(CURDIR)/.tools/bin:$(PATH)
export JSII_NODE := $(CURDIR)/.tools/bin/node
export JSII_RUNTIME_PACKAGE_CACHE_ROOT ?= $(CURDIR)/.tools/jsii-cache
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 1
export CDK_DISABLE_CLI_TELEMETRY := true
export AWS_EC2_METADATA_DISABLED := true
export PYTHONUTF8 := 1

.PHONY: env help docs demo test test-python39 test-node test-slurm test-observe test-vm test-browser test-aws tutorial fuzz lint lint-style lint-layers lint-shell lint-workflows lint-pages lint-words lint-types format snapshots pages wheel bench bench-boot bench-install bench-node bench-rules lock clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: ## make or refresh .venv and .tools from the lock files
	@PATH='$(CALLER_PATH)' $(PYTHON) tools/setup.py

docs: env ## build the documentation site in build/docs/site
	@$(BIN)/python tools/docs_site.py

demo: env ## synthesize every example; deploy, edit and destroy three clusters in an AWS emulator on loopback
	@$(BIN)/python tools/demo.py

test: env ## run every test that needs no root (TESTS=folders or files, ARGS=options of pytest)
	@$(if $(filter file,$(origin TESTS)),$(MAKE) test-python39 ARGS=)
	@CDK_VALIDATION=false $(BIN)/python -m pytest $(PARALLEL) $(TESTS) $(ARGS)

# The oldest Python of a node. The library does not run on it: tests/support/python39_plugin.py chooses the tests.
test-python39: ## test the node software on Python 3.9 (ARGS=options of pytest)
	@PATH='$(CALLER_PATH)' $(PYTHON) tools/setup.py --python39
	@PYTHONPATH=.tools/python39/site:tests/support .tools/python39/bin/python3.9 -m pytest -p python39_plugin \
		-p no:cacheprovider --confcutdir=tests/unit/node $(PARALLEL) tests/unit/node $(ARGS)

# If ARGS select tests, one of the two runs may have none: exit status 5 of pytest.
OR_NONE = { (($$? == 5)) && $(if $(ARGS),true,false); }
test-node: env ## as root: test the node software against real programs on loopback (ARGS=options of pytest)
	@$(BIN)/python -m pytest -m alone tests/node $(ARGS) || $(OR_NONE)
	@$(BIN)/python -m pytest -m 'not alone' --numprocesses 4 --dist worksteal tests/node $(ARGS) || $(OR_NONE)

# A cluster for each file. Its waits are most of the time.
test-slurm: env ## as root: test nodes against a real Slurm with accounting (TIER=newest: that of Debian testing)
	@SLURM_TIER=$(or $(TIER),pinned) $(BIN)/python -m pytest --numprocesses 3 --dist loadfile tests/slurm $(ARGS)

test-observe: env ## as root: test metrics and rules with a real Prometheus on loopback (ARGS=options of pytest)
	@$(BIN)/python -m pytest tests/observe $(ARGS)

# It prints the times of the first boot and of the reboot.
test-vm: env ## as root: boot a node with its own kernel and disks twice in QEMU (ARGS=options of pytest)
	@$(BIN)/python -m pytest --durations=0 --durations-min=5 tests/vm $(ARGS)

# It prints the time of each section.
tutorial: env ## as root: run docs/tutorial.md, and compare what its commands print (ARGS=--update rewrites it; options of pytest)
	@$(BIN)/python -m pytest tests/tutorial $(ARGS)

test-browser: env ## as root: test the report and the documentation in a real browser (ARGS=options of pytest)
	@$(BIN)/python -m pytest tests/browser $(ARGS)

test-aws: env ## state what the checks of a real account do and cost; run them with ARGS="--account ID --budget USD"
	@PYTHONPATH=tests/aws $(BIN)/python -m real_account $(ARGS)

fuzz: env ## change inputs of strangers at random for 30 minutes (ARGS="--minutes 5", ARGS="--target template --seed 7")
	@PYTHONPATH=tests/support $(BIN)/python -m fuzzing $(ARGS)

lint: env ## check style, types, layers, shell scripts, workflows, generated pages and wording
	@$(MAKE) --keep-going lint-style lint-layers lint-shell lint-workflows lint-pages lint-words lint-types

lint-style:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/vermin --quiet --no-tips --target=3.9- --violations constructs/cdk_gpu_clusters/node/gpunode

lint-layers:
	@$(BIN)/lint-imports --no-cache --no-logo

lint-shell:
	@$(if $(SHELL_SCRIPTS),$(BIN)/shellcheck --external-sources --source-path=SCRIPTDIR $(SHELL_SCRIPTS))
	@$(if $(SHELL_SCRIPTS),$(BIN)/shfmt -d $(SHELL_SCRIPTS))

# Offline: the versions behind pinned hashes are not looked up.
lint-workflows:
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml
	@$(BIN)/zizmor --offline --quiet .github

lint-pages:
	@$(foreach writer,$(WRITERS),$(BIN)/python $(writer) --check;)

lint-words:
	@$(BIN)/python tools/check_words.py

lint-types:
	@$(BIN)/mypy

format: env ## rewrite the code in the house style
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .
	@$(if $(SHELL_SCRIPTS),$(BIN)/shfmt -w $(SHELL_SCRIPTS))

snapshots: env ## rewrite the recorded templates and public API; review the diff
	@CDK_VALIDATION=false $(BIN)/python -m pytest $(wildcard tests/synth tests/snapshots) --snapshot-update $(ARGS)

pages: env ## rewrite the generated pages and schemas
	@$(foreach writer,$(WRITERS),$(BIN)/python $(writer);)

wheel: env ## build and check the two distributions in dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build
	@cd distributions/cdk-gpu-clusters && $(CURDIR)/$(BIN)/python -m hatchling build -t wheel -d $(CURDIR)/dist
	@$(BIN)/twine check --strict dist/*

bench: env ## measure synthesis, imports and memory against baselines; write docs/performance.md (ARGS="--rounds 3")
	@$(BIN)/python benchmarks/run.py --write $(ARGS)

bench-boot: env ## as root: measure the time that our stages add to a boot; write docs/performance.md (ARGS="--rounds 3")
	@PYTHONPATH=tests/support $(BIN)/python benchmarks/boot.py --write $(ARGS)

bench-install: env ## measure seconds and MB of an installation; write docs/performance.md
	@$(BIN)/python benchmarks/install.py --write $(ARGS)

bench-rules: env ## compare the template rules with cfn-lint; write docs/performance.md (ARGS="--rounds 3")
	@PYTHONPATH=tests/support $(BIN)/python benchmarks/template_rules.py --write $(ARGS)

bench-node: env ## measure what the node software costs a quiet node; write docs/performance.md (ARGS="--minutes 5")
	@PYTHONPATH=tests/support $(BIN)/python benchmarks/node.py --write $(ARGS)

UV_COMPILE = $(BIN)/uv pip compile --generate-hashes --no-emit-index-url --no-header --no-annotate --quiet $(UPGRADE)
EVERYWHERE = --universal --python-version 3.11
lock: env ## resolve the lock files again (UPGRADE=--upgrade for newer versions)
	@$(UV_COMPILE) $(EVERYWHERE) pyproject.toml --extra cdk --extra eks --extra lint --extra live --extra nag --extra testing --group dev -o requirements/dev.txt
	@$(UV_COMPILE) $(EVERYWHERE) pyproject.toml --extra cdk -c requirements/dev.txt -o requirements/runtime.txt
	@$(UV_COMPILE) $(EVERYWHERE) requirements/bootstrap.in -o requirements/bootstrap.txt
	@$(UV_COMPILE) --python-version 3.9 requirements/python39.in -o requirements/python39.txt
	@$(UV_COMPILE) --python-version 3.11 --no-emit-package numpy requirements/tutorial.in -o requirements/tutorial.txt
	@$(UV_COMPILE) --python-version 3.11 requirements/ray.in -o requirements/ray.txt
	@$(UV_COMPILE) $(EVERYWHERE) requirements/pcluster.in -o requirements/pcluster.txt
	@cd tools/cli && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund

clean: ## remove what builds and tests leave behind
	@rm -rf build dist cdk.out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
	@find benchmarks constructs emulator stacks tests tools -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## also remove the environment
	@rm -rf .venv .tools
