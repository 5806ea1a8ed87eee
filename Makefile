# The doors of the project. CI calls the same ones (.ci/run).

GO ?= go
# Checks that cost something are on in every test target.
TAGS ?= invariants
# Packages to work on.
PKG ?= ./...
# How long one fuzz target runs, and the simulator.
FUZZTIME ?= 1m
SIMTIME ?= 10m
# How many processes make kill kills, and where: on the file system to try; empty:
# a temporary directory.
KILLS ?= 300
KILLDIR ?=
# Which benchmarks, how often, how long each.
BENCH ?= .
COUNT ?= 1
BENCHTIME ?= 1s
# The suite that holds the engine against its promises: how long, where, and in
# which format (text, json, go).
PROFILE ?= quick
DIR ?= .
FORMAT ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2

.DEFAULT_GOAL := help
.PHONY: help run test test-arm64 race fuzz sim kill interop-kafka lint vet staticcheck bench bench-suite cover clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## build, and show the engine at work on a directory that Apache Kafka wrote
	@./scripts/run.sh

test: ## all tests, with invariants on and the fuzz corpora replayed
	$(GO) test -tags $(TAGS) $(PKG)
	$(GO) test -tags $(TAGS) ./internal/catalog -direct
	$(GO) test -tags $(TAGS) ./log -backed
	$(GO) test -count=1 -tags '$(TAGS) plant' -run Planted ./internal/sim

test-arm64: ## what depends on the machine's architecture, for arm64, in emulation
	@GO="$(GO)" ./scripts/arm64.sh "$(TAGS)"

race: ## all tests under the race detector
	$(GO) test -race -tags $(TAGS) -timeout 30m $(PKG)

fuzz: ## run each fuzz target for FUZZTIME (1m)
	@GO="$(GO)" ./scripts/fuzz.sh "$(TAGS)" "$(FUZZTIME)" $(PKG)

sim: ## the crash model with random seeds for SIMTIME (10m)
	$(GO) test -count=1 -tags '$(TAGS) plant' -run Planted ./internal/sim
	$(GO) test -tags $(TAGS) -count=1 -timeout 0 ./internal/sim -sim.duration=$(SIMTIME)

kill: ## a process at work on a real disk, killed with -9 KILLS (300) times at random
	$(GO) test -count=1 -tags '$(TAGS) plant' -timeout 20m -run Planted ./internal/kill
	$(GO) test -count=1 -tags $(TAGS) -timeout 0 -v -run '^TestKill$$' ./internal/kill -kill.rounds=$(KILLS) -kill.dir=$(KILLDIR)

interop-kafka: ## exchange directories with a real Apache Kafka, both ways
	@./internal/interop/run.sh

lint: vet ## gofmt, vet, and the order of the house
	$(GO) test -count=1 ./internal/lint

vet: ## go vet for amd64 and arm64, with and without invariants
	GOOS=linux GOARCH=amd64 $(GO) vet $(PKG)
	GOOS=linux GOARCH=arm64 $(GO) vet $(PKG)
	GOOS=linux GOARCH=amd64 $(GO) vet -tags $(TAGS) $(PKG)
	GOOS=linux GOARCH=amd64 $(GO) vet -tags '$(TAGS) plant' $(PKG)

staticcheck: ## a second opinion; fetches its tool
	$(GO) run $(STATICCHECK) -tags $(TAGS) $(PKG)

bench: ## benchmarks, for benchstat: BENCH=regexp COUNT=n BENCHTIME=t PKG=packages
	$(GO) test -run '^$$' -timeout 2h -bench '$(BENCH)' -benchtime $(BENCHTIME) -count $(COUNT) $(PKG)

bench-suite: ## goals against what is reached: PROFILE=quick|standard|nvme DIR=dir FORMAT=go|text|json
	@$(GO) run ./cmd/oncelog bench suite $(PROFILE) --dir $(DIR) -o $(FORMAT)

cover: ## coverage by function, and bin/cover.html
	@mkdir -p bin
	$(GO) test -tags $(TAGS) -coverpkg=./... -coverprofile=bin/cover.out $(PKG)
	$(GO) tool cover -html=bin/cover.out -o bin/cover.html
	$(GO) tool cover -func=bin/cover.out | tail -n 1

clean: ## remove what was built
	rm -rf bin
	$(GO) clean -testcache
