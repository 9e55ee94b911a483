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
check: ## what the continuous checks run: format, vet, static checks, fuzz, race detector, tests with crashes
	.ci/run

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME
	@for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz'); do \
			$(MAKE) --no-print-directory fuzz-one PACKAGE=$$package TARGET=$$target || exit 1; \
		done; \
	done

# The go command now and then fails a fuzz run whose time is over ("context
# deadline exceeded") although no input failed: such a run is repeated once.
.PHONY: fuzz-one
fuzz-one:
	@echo "$(PACKAGE) $(TARGET)"; \
	run() { $(GO) test -run '^$$' -fuzz '^$(TARGET)$$' -fuzztime $(FUZZTIME) $(PACKAGE) >.fuzz.log 2>&1; }; \
	run || { grep -q 'context deadline exceeded' .fuzz.log && ! grep -q 'Failing input' .fuzz.log && run; } || { cat .fuzz.log; rm -f .fuzz.log; exit 1; }; \
	tail -n 1 .fuzz.log; rm -f .fuzz.log

.PHONY: derived
derived: ## derive openapi.json from the Go types
	$(GO) run ./internal/openapi > openapi.json.new
	mv openapi.json.new openapi.json

.PHONY: bench
bench: ## measure, as ratios in one run; writes docs/performance.md
	$(GO) run ./internal/bench -write docs/performance.md

.PHONY: crash
crash: ## kill a region at random moments, CRASHES times
	BASTIDE_CRASHES=$(or $(CRASHES),200) $(GO) test -run Crash -v -timeout 30m ./cmd/bastide

.PHONY: torture
torture: ## kill, pause and cut off nodes for TIME (30m), and check every answer
	BASTIDE_TORTURE=$(or $(TIME),30m) $(GO) test -run Torture -v -timeout 0 ./cmd/bastide ./internal/store/sqljournal
