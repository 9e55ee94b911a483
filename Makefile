# `make` alone says what can be done.

GO ?= go
# How long each fuzz target runs in `make fuzz`.
FUZZTIME ?= 10s

.PHONY: help
help: ## say what can be done
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build ./bastide
	CGO_ENABLED=0 $(GO) build -trimpath -o bastide ./cmd/bastide

.PHONY: run
run: ## run a region on this machine
	$(GO) run ./cmd/bastide serve

.PHONY: test
test: ## run all tests
	$(GO) test ./...

.PHONY: race
race: ## run all tests with the race detector
	$(GO) test -race ./...

.PHONY: check
check: ## what the continuous checks run: format, vet, derived files, tests with the race detector, fuzz
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w .'; exit 1; }
	$(GO) vet ./...
	$(MAKE) --no-print-directory race fuzz

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
		done; \
	done

.PHONY: derived
derived: ## derive openapi.json from the Go types
	$(GO) run ./internal/openapi > openapi.json.new
	mv openapi.json.new openapi.json

.PHONY: bench
bench: ## measure, as ratios in one run; writes docs/performance.md
	$(GO) run ./internal/bench -write docs/performance.md

.PHONY: crash
crash: ## kill a region at random moments, CRASHES times
	BASTIDE_CRASHES=$(or $(CRASHES),200) $(GO) test -run Crash -v -timeout 30m ./internal/world
