# Everything a contributor runs. `make` alone lists the targets.

GO       ?= go
PKGS     ?= ./...
FUZZTIME ?= 10s
LINTER   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VULN     := golang.org/x/vuln/cmd/govulncheck@v1.1.4
# Real servers and real sites the integration tests start or serve.
SERVERS  := nginx-light python3-doc libboost-doc

.DEFAULT_GOAL := help
.PHONY: help build test race lint fmt fuzz bench cover vuln check servers clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binary as bin/crawl
	$(GO) build -trimpath -o bin/crawl ./cmd/crawl

test: servers ## run every test under the race detector, in random order, with real servers
	$(GO) test -race -shuffle=on -timeout 15m $(PKGS)

race: servers ## run every test twice, to shake out what depends on order or timing
	$(GO) test -race -shuffle=on -count=2 -timeout 30m $(PKGS)

lint: ## run the linters
	GOFLAGS= $(GO) run $(LINTER) run $(PKGS)

fmt: ## format the tree
	GOFLAGS= $(GO) run $(LINTER) fmt $(PKGS)

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

bench: ## run the benchmarks, six times each, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 6 $(PKGS)

cover: servers ## measure coverage over the whole tree into cover.out
	$(GO) test -coverpkg=./... -coverprofile=cover.out $(PKGS)
	$(GO) tool cover -func=cover.out | tail -n 1

vuln: ## look the dependencies up in the vulnerability database
	GOFLAGS= $(GO) run $(VULN) ./...

check: lint race ## lint, race, and a tidy, verified and committed module
	$(GO) mod tidy -diff
	$(GO) mod verify
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the tree is not clean: commit or remove the files above"; exit 1; }

servers: ## install the real servers and sites the tests use (Debian, Ubuntu)
	@missing=; \
	command -v nginx >/dev/null || test -x /usr/sbin/nginx || missing=1; \
	test -d /usr/share/doc/python3-doc/html || test -d /usr/share/doc/python3/html || missing=1; \
	test -d /usr/share/doc/libboost-doc || missing=1; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	if command -v apt-get >/dev/null && { [ -z "$$sudo" ] || sudo -n true 2>/dev/null; }; then \
		$$sudo apt-get update -qq && $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(SERVERS) >/dev/null; \
	else \
		echo "Real servers are missing; the tests that need them will be skipped. To run them too:"; \
		echo "    sudo apt-get install --no-install-recommends $(SERVERS)"; \
	fi

clean: ## remove what the other targets built
	rm -rf bin cover.out
