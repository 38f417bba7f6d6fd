# `make verify` checks everything and writes nothing into the tree; `make fix` is what writes.
# CI runs `.ci/run`, which does what `make verify` does.

CARGO ?= cargo
# Seeds of each scenario, and milliseconds of each fuzz target, in a soak.
SEEDS ?= 1..200
FUZZ_MS ?= 60000
# Worlds of RAFT in a soak.
RAFT_SEEDS ?= 10000
# Random clusters in a soak.
CLUSTER_SEEDS ?= 10000
# Random operations on the model and on a real nats-server, and on a cluster of three, in a soak.
RANDOM_OPERATIONS ?= 1000000
RANDOM_CLUSTER_OPERATIONS ?= 50000

# Repeats of each workload with faults against real servers.
REPEATS ?= 20
FAULT_FILES = $(sort $(wildcard workloads/*-gap-*.toml))

.PHONY: help verify fmt-check lint test doc fix bench soak soak-live tables live-tables deny audit

help: ## This list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/	/'

verify: fmt-check lint test doc ## Format, lints, tests (dependency rules included), documentation

fmt-check:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --all-targets -- -D warnings

test: ## All tests
	$(CARGO) test --locked

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps

fix: ## Formats; writes the JSON Schemas and the list of third-party crates anew
	$(CARGO) fmt --all
	TIDEGATE_WRITE_SCHEMAS=1 $(CARGO) test --locked --test schema schema_is_current
	TIDEGATE_WRITE_THIRD_PARTY=1 $(CARGO) test --locked --test third_party list_of_crates

bench: ## Benchmarks of the event lane, its substrate, RAFT and the live generator; speed is judged here and never in tests
	$(CARGO) bench --locked

soak: ## Every scenario and RAFT with many seeds, a million random operations, every fuzz target for a while
	$(CARGO) run --locked --release -- sim sims/nats/*.toml --seeds $(SEEDS)
	TIDEGATE_RAFT_SEEDS=$(RAFT_SEEDS) $(CARGO) test --locked --release --test raft
	TIDEGATE_CLUSTER_SEEDS=$(CLUSTER_SEEDS) $(CARGO) test --locked --release --test cluster_random
	TIDEGATE_RANDOM_OPERATIONS=$(RANDOM_OPERATIONS) \
	  TIDEGATE_RANDOM_CLUSTER_OPERATIONS=$(RANDOM_CLUSTER_OPERATIONS) $(CARGO) test --locked --release --test random
	BOLERO_RANDOM_TEST_TIME_MS=$(FUZZ_MS) BOLERO_RANDOM_ITERATIONS=1000000000 \
	  $(CARGO) test --locked --release --test 'fuzz*'

soak-live: ## Every workload with faults against three real servers, REPEATS times; a table, and results/soak-live
	$(CARGO) run --locked --release -- live \
	  $(foreach file,$(FAULT_FILES),$(foreach repeat,$(shell seq $(REPEATS)),$(file))) \
	  --local 3 --out results/soak-live

live-tables: ## Measures workloads/ on real servers, for an hour and a half, and writes docs/live-figures.md
	TIDEGATE_MEASURE_LIVE=1 TIDEGATE_WRITE_TABLES=1 $(CARGO) test --locked --release --test live_figures

tables: ## Writes the tables of the documents anew
	TIDEGATE_WRITE_TABLES=1 $(CARGO) test --locked --release --test leader_changes

deny: ## The dependency rules by cargo-deny (cargo install cargo-deny --locked)
	cargo-deny --locked check bans licenses sources

audit: ## Known security advisories; fetches their database
	cargo-deny --locked check advisories
