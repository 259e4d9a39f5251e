# Each target is a few steps of .ci/run, which is what CI runs as a whole.

FUZZTIME ?= 30s
BENCHFLAGS ?=

.PHONY: check cross fuzz bench

check: ## what CI does, in the small
	.ci/run format modules vet staticcheck test plain

cross: ## vet for the other systems and architectures
	.ci/run cross

fuzz: ## each fuzz target for $(FUZZTIME)
	FUZZTIME=$(FUZZTIME) .ci/run fuzz

bench: ## Go benchmarks, then the main job on embedded masters
	go test -run '^$$' -bench . -benchmem ./...
	go run ./bench $(BENCHFLAGS)
