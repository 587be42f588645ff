# Everything a contributor runs. `make` alone lists the targets.

GO       ?= go
PKGS     ?= ./...
FUZZTIME ?= 10s
CELL     ?= 120s
RTT      ?= 100ms
LIMITS   ?= nginx-20,nginx-20-503,haproxy,mod_qos,mod_evasive,varnish,flask-limiter
CLIENTS  ?=
ROUNDS   ?= 3
PEERS    ?=
PATIENCE ?= 3m
LINTER   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONS  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
WARCIO   := warcio@2.4.11
VULN     := golang.org/x/vuln/cmd/govulncheck@v1.1.4
# Tells each package as it ends, and at the end what failed, with all that it said.
RUNNER   := gotest.tools/gotestsum@v1.13.0
SUM      := $(CURDIR)/bin/gotestsum --format pkgname --format-hide-empty-pkg
# SQLite is C translated into Go, whose memory the race detector has no part in: to watch
# each of its steps makes it many times as slow, and so is left out. That must not be done to
# a package that uses generic functions of others, such as the C library beside it: the
# linker may take its instances of them for everybody's, and races are told that are none.
# The linters run vet, and nobody debugs these binaries. Tests of polite crawls wait for seconds, so one package more than
# there are processors runs at a time.
RACE     := -race -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) -shuffle=on -vet=off -ldflags=-s -gcflags=modernc.org/sqlite/lib=-race=false
# Real servers and real sites the integration tests start or serve, a tracer that lets disks
# fail, a terminal, the tool that checks rules and metrics of Prometheus (19 MB to fetch, 96 MB installed),
# and what is there once they are installed.
SERVERS  := nginx-light systemd haproxy apache2-bin libapache2-mod-qos libapache2-mod-evasive varnish varnish-modules \
            python3-flask-limiter python3-waitress redis-server valkey-server strace tmux python3-doc libboost-doc chromium prometheus
PROGRAMS := nginx systemd-analyze haproxy apache2 varnishd redis-server valkey-server strace tmux node npm chromium promtool
FILES    := /usr/lib/apache2/modules/mod_qos.so /usr/lib/apache2/modules/mod_evasive20.so \
            /usr/lib/*/varnish/vmods/libvmod_vsthrottle.so /usr/lib/python3/dist-packages/flask_limiter \
            /usr/lib/python3/dist-packages/waitress /usr/share/doc/libboost-doc
# Tests that take a sample under the race detector, and where they are; see internal/lab/racetest.
WHOLE    := TestRealisticLimiters TestThresholds TestRandomHosts TestSameSeedSameResult TestOracleReachesCapacity TestCommonLimitIsFoundAndPacedAsOne TestLimitsOfTheirOwnAreNotMerged TestBounds TestBoundOnConnectionsIsFoundInARace TestFreshness TestRandomWorlds TestSlowHostsBesideHealthyOnes TestRetestsAreNoWayRoundALimit TestURLsThatAlwaysFail TestHostilePages TestEvilPages TestPatternsThatWouldTakeLong
WHOLE_IN := ./internal/integration ./internal/ratelimit ./internal/lab/simulate ./internal/web/sitemap ./internal/web/readable ./internal/web/fields ./internal/pipeline ./cmd/crawl/internal/watch/plan
space    := $(subst ,, )

.DEFAULT_GOAL := help
.PHONY: help build quick test test-all docs picture plots size cross conformance race lint fmt fuzz bench peers bench-speed bench-peers node_peers growth admission compare cover vuln check servers readers pages release clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binary as bin/crawl
	$(GO) build -trimpath -o bin/crawl ./cmd/crawl

pages: ## write manual pages and completions into dist/
	@mkdir -p dist/completions
	CGO_ENABLED=0 $(GO) run ./cmd/crawl man dist/man >/dev/null
	@for shell in bash zsh fish powershell; do $(GO) run ./cmd/crawl completion $$shell >dist/completions/crawl.$$shell; done

release: ## archives and packages for every platform into dist/, the same for the same commit
	GO="$(GO)" sh deploy/release.sh dist

cross: ## vet the tree, and build its tests, as other systems would
	for os in darwin windows freebsd; do \
		GOOS=$$os $(GO) vet $(PKGS) && GOOS=$$os $(GO) test -vet=off -exec true $(PKGS) >/dev/null || exit 1; done

test: servers readers bin/gotestsum ## run every test under the race detector, in random order, with real servers
	$(SUM) -- $(RACE) -timeout 20m $(PKGS)
	$(SUM) -- -shuffle=on -vet=off -ldflags=-s -timeout 15m -run '^($(subst $(space),|,$(WHOLE)))$$' $(WHOLE_IN)
	cd bench && $(SUM) -- $(RACE) -timeout 5m ./...
	cd examples && $(SUM) -- $(RACE) -timeout 5m ./...

# What needs no server, no network and no browser: with a warm build cache under a minute on two
# cores. Integration, command line and stores of others are left to `make test`.
QUICK    := ./docs ./internal/clock/... ./internal/config/... ./internal/document/... ./internal/store/... ./internal/web/... \
            ./internal/records/... ./record ./internal/ratelimit/... ./internal/frontier ./internal/frontier/seen ./internal/pipeline \
            ./internal/observe/... ./internal/fetch/... ./cmd/crawl/internal/... ./limit ./resilience/... ./transport/...
SLOW     := TestRetestsAreNoWayRoundALimit|TestSlowHostsBesideHealthyOnes|TestURLsThatAlwaysFail
quick: ## vet, and the tests that need no server, in less than a minute
	$(GO) vet $(PKGS)
	$(GO) test -short -vet=off -ldflags=-s -skip '^($(SLOW))$$' $(QUICK)

# The long forms of tests that `make test` runs in a short one. Not part of .ci/run.
HOSTS    ?= 200
KILLS    ?= 200
CONTROL  ?= 240s
SOAK     ?= 2h
test-all: test ## make test, and what is slow: long fleets, kills, real servers, soaks, fuzzing; hours
	$(GO) test -vet=off -timeout 3h -run '^TestFleet' ./cmd/crawl -fleet.hosts $(HOSTS) -fleet.pages 600 -fleet.lease 15s
	$(GO) test -vet=off -timeout 3h -run '^TestKill' ./cmd/crawl -kills $(KILLS)
	$(GO) test -vet=off -timeout 3h -v -run '^TestSoak$$' ./cmd/crawl -soak $(SOAK)
	$(GO) test -vet=off -timeout 3h -v -race -run '^TestSoak$$' ./cmd/crawl -soak 30m
	$(GO) test -vet=off -timeout 1h -v -run '^TestControl$$' ./internal/integration -control.time $(CONTROL)
	$(GO) test -vet=off -timeout 1h -count 5 -run 'Soak|Law|World|Stall|Trouble' ./internal/pipeline ./internal/frontier ./internal/ratelimit/...
	$(GO) test -vet=off -timeout 10m ./cmd/crawl/internal/audit -audit.half 3
	$(GO) test -vet=off -timeout 1h -v -run '^TestFreshness$$' ./cmd/crawl/internal/watch/plan -plan.pages 100000 -plan.heldout
	$(GO) test -vet=off -timeout 1h -v -run '^TestHostilePagesAreRendered$$' ./internal/integration -render.hostile
	d=$$(mktemp -d) && cp testdata/render/package.json $$d && npm install --silent --prefix $$d && \
		$(GO) test -vet=off -timeout 1h -v -run '^(TestSitesOfFrameworks|TestScriptsOfSecurityCrawlMaze)$$' ./internal/integration -render.sites $$d; status=$$?; rm -rf $$d; exit $$status
	$(GO) test -vet=off -timeout 1h ./deploy -release
	$(MAKE) fuzz FUZZTIME=1m

size: ## lines of Go per room: production, tests
	@git ls-files '*.go' | grep -vE '^(bench|examples|contrib)/' | while read -r f; do echo "$$f $$(wc -l <"$$f")"; done | awk '{ \
		n = split($$1, p, "/"); room = n == 1 ? "crawl" : p[1] == "internal" || p[1] == "cmd" ? p[1] "/" p[2] : p[1]; \
		rooms[room] = 1; if ($$1 ~ /_test\.go$$/) { t[room] += $$2; tests += $$2 } else { c[room] += $$2; code += $$2 } } \
		END { for (r in rooms) printf "%-20s %8d %8d\n", r, c[r], t[r] | "sort"; close("sort"); printf "%-20s %8d %8d\n", "together", code, tests }'

# The packages whose tests report to the page, one after another: they all write one file.
SUITES   := Conform|WHATWG|Hosts|Normalization|PublicSuffixes|HTML5Lib|Labels|Encodings|Google|ContentCodings|Answers|Surt|Maze|PythonReadsIt
conformance: ## run the suites of the standards, and write docs/reference/conformance.md anew
	UPDATE=1 $(GO) test -p 1 -count 1 -run '$(SUITES)' $$(grep -rl --include='*_test.go' conformance.Report . | xargs -n1 dirname | sort -u)
	$(GO) test -count 1 ./internal/lab/conformance

docs: ## write the generated parts of the documentation anew
	UPDATE=1 $(GO) test -p 1 -count 1 -run '^TestDocs' ./docs ./cmd/crawl ./internal/config ./internal/observe/console ./internal/records/sink ./record .

plots: build ## draw the plots of the documentation anew
	cd docs/images && grep -h '^crawl simulate .*--plot' ../explanation/*.md | sed 's|^|../../bin/|' | sh

# 22 hosts with limits of every kind, crawled for 80 seconds.
picture: build ## take the picture of the dashboard anew; needs Chromium
	@bin/crawl testsite --scenario testdata/scenarios/realistic.yaml --port 18201 --for 100s >bin/hosts.txt 2>/dev/null & \
	sleep 2; bin/crawl --max-rate 100 --rate 2 --max-time 95s --listen 18200 --overwrite -o bin/picture.jsonl $$(grep ^http: bin/hosts.txt) >/dev/null 2>&1 & \
	sleep 82; chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --force-prefers-reduced-motion --window-size=1100,800 \
		--user-data-dir=bin/chromium --timeout=3000 --screenshot=docs/images/dashboard.png http://127.0.0.1:18200/ 2>/dev/null; wait

race: servers readers bin/gotestsum ## run every test twice, to shake out what depends on order or timing
	$(SUM) -- $(RACE) -count=2 -timeout 30m $(PKGS)

lint: ## run the linters, also of the workflows
	GOFLAGS= $(GO) run $(LINTER) run $(PKGS)
	cd bench && GOFLAGS= $(GO) run $(LINTER) run ./...
	GOFLAGS= $(GO) run $(ACTIONS)

fmt: ## format the tree
	GOFLAGS= $(GO) run $(LINTER) fmt $(PKGS)

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list $(PKGS)); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$pkg; \
		done; \
	done

bench: ## run the benchmarks, six times each, for benchstat
	$(GO) test -run '^$$' -bench . -benchmem -count 6 $(PKGS)

peers: ## our limiters and policies beside other libraries': a table of ratios, two minutes
	cd bench && $(GO) run ./libraries

admission: servers ## what admission costs a request, beside other libraries: tables, two minutes
	cd bench && $(GO) run ./admission

# The peers are not needed for the tests, so they are installed for these targets alone. A
# round of all of them takes about two minutes, most of it Scrapy's.
bench-speed bench-peers compare: SERVERS += wget2 httrack python3-scrapy
bench-speed bench-peers compare: PROGRAMS += wget2 httrack scrapy
SPEED    = cd bench && $(GO) test -v -count 1 -timeout 6h -run '^TestPeers$$' ./peers -peers.site boost \
		-peers.rounds $(ROUNDS) -peers.names '$(PEERS)' -peers.timeout $(PATIENCE)
bench-speed: servers node_peers ## pages per CPU-second beside other crawlers: ROUNDS, PEERS by comma, PATIENCE for each
	@mkdir -p bin
	$(SPEED) -peers.out ../../bin/peers.md

bench-peers: PEERS = crawl steer,crawl off,wget2,colly,scrapy,crawlee
bench-peers: servers node_peers ## measure all of docs/benchmarks.md anew, two hours: CELL, ROUNDS, PEERS, PATIENCE
	rm -f $(addprefix bench/results/,politeness.csv speed.csv resume.csv)
	for rtt in 20ms 100ms; do (cd bench && $(GO) test -v -count 1 -timeout 4h -run '^TestLimiters$$' ./crawlers -limiters.half peers \
		-compare.clients '$(CLIENTS)' -compare.time $(CELL) -compare.rtt $$rtt -limiters.csv ../results/politeness.csv); done
	$(SPEED) -peers.csv ../results/speed.csv
	$(SPEED) -peers.csv ../results/speed.csv -peers.tls
	cd bench && $(GO) test -v -count 1 -timeout 1h -run '^TestResume$$' ./peers -resume.kills 3 -resume.csv ../results/resume.csv
	cd bench && $(GO) run ./results

node_peers:
	npm ci --prefix bench/peers/crawlee --ignore-scripts --no-audit --no-fund --loglevel error
	npm ci --prefix bench/crawlers/limiters --ignore-scripts --no-audit --no-fund --loglevel error

# Most of the time goes into the million pages and the two times ten million URLs, which
# take 3 GB in the directory for temporary files.
growth: ## larger and larger crawls, up to a million pages and ten million URLs: half an hour, ROUNDS
	@mkdir -p bin
	@rm -f bin/growth.md
	cd bench && $(GO) test -v -count 1 -timeout 6h ./growth -growth.pages 10000,100000,1000000 -growth.rounds $(ROUNDS) \
		-growth.visits 10000 -growth.hosts 1,20000 -growth.waiting 10000 -growth.wait 30s -growth.timeout 30m -growth.out ../../bin/growth.md

# A cell is one client on one server, one after another: all of them take two and a half hours.
compare: servers node_peers ## crawl servers beside other crawlers: CELL each, RTT away, LIMITS, CLIENTS
	cd bench && $(GO) test -v -count 1 -timeout 6h -run '^TestLimiters$$' ./crawlers -limiters.half kinds -limiters.parallel 1 \
		-compare.time $(CELL) -compare.rtt $(RTT) -limiters.only $(LIMITS) -compare.clients '$(CLIENTS)'

cover: servers readers ## measure coverage over the whole tree into cover.out
	$(GO) test -coverpkg=./... -coverprofile=cover.out $(PKGS)
	$(GO) tool cover -func=cover.out | tail -n 1

# It ends with 3 for a finding; whatever else goes wrong, the database offline, is no finding.
VULNCHECK = { GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install $(VULN) && bin/govulncheck $(addprefix -db ,$(VULNDB)) ./...; }

vuln: ## look the dependencies up in the vulnerability database, or in VULNDB=URL (file:// too); fails on a finding
	@code=0; $(VULNCHECK) || code=$$?; case $$code in \
		0) echo "No vulnerability is known." ;; \
		3) echo "Vulnerabilities were found: see above."; exit 1 ;; \
		*) echo "NOT CHECKED: the vulnerability database could not be asked (see above; offline?). Nothing was found, and nothing is ruled out." ;; \
	esac

check: lint race ## lint, race, and a tidy, verified and committed module
	$(GO) mod tidy -diff
	$(GO) mod verify
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the tree is not clean: commit or remove the files above"; exit 1; }

# Debian starts a server once it is installed, unless policy-rc.d says no (101): the tests
# start their own. And mod_evasive wants a mailer, for which apt would bring a mail server
# along: msmtp-mta is none, and is left out where something sends mail already. Node.js and
# its package manager often come from elsewhere than Debian, whose own would not go along
# with them: they are left as they are. Debian 12 has Valkey only among its backports, from
# where nothing else is taken.
servers: ## install the real servers and sites the tests use (Debian, Ubuntu)
	@missing=; PATH=$$PATH:/usr/sbin; \
	for program in $(PROGRAMS); do command -v $$program >/dev/null || missing=1; done; \
	ls -d $(FILES) >/dev/null 2>&1 || missing=1; \
	test -d /usr/share/doc/python3-doc/html || test -d /usr/share/doc/python3/html || missing=1; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	sudo=; [ "$$(id -u)" = 0 ] || sudo="sudo -n"; \
	if command -v apt-get >/dev/null && { [ -z "$$sudo" ] || sudo -n true 2>/dev/null; }; then \
		policy=; sources=$$(mktemp); \
		trap '$$sudo rm -f $$sources $$policy' EXIT; trap 'exit 130' INT TERM; \
		if [ ! -e /usr/sbin/policy-rc.d ]; then \
			policy=/usr/sbin/policy-rc.d; \
			printf '#!/bin/sh\nexit 101\n' | $$sudo install -m 755 /dev/stdin $$policy; \
		fi; \
		mirror=$$(apt-get indextargets --format '$$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1); \
		cat /etc/apt/sources.list >$$sources 2>/dev/null; \
		[ -z "$$mirror" ] || echo "deb $$mirror bookworm-backports main" >>$$sources; \
		apt="$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dir::Etc::SourceList=$$sources"; \
		extra=; [ -e /usr/sbin/sendmail ] || extra=msmtp-mta; \
		command -v npm >/dev/null || extra="$$extra nodejs npm"; \
		{ $$apt update || { sleep 10; $$apt update; }; } && servers="$(SERVERS)" && { \
			apt-cache -o Dir::Etc::SourceList=$$sources show valkey-server >/dev/null 2>&1 || { \
				servers="$(filter-out valkey-server,$(SERVERS))"; \
				echo "No repository of this system has Valkey; the tests that need it will be skipped."; \
			}; \
		} && install="$$apt install -y --no-remove --no-install-recommends $$servers $$extra" && { \
			$$install >/dev/null || { echo "Once more, as the package mirror may have been busy."; sleep 10; $$install >/dev/null; }; \
		}; \
	else \
		echo "Real servers are missing; the tests that need them will be skipped. To run them too:"; \
		echo "    sudo apt-get install --no-install-recommends $(SERVERS) nodejs npm"; \
		echo "Debian 12 has valkey-server in bookworm-backports."; \
	fi

# Its index is compared with ours line by line, so that the version is fixed.
readers: servers ## install the reader of archives the tests use, with npm
	@test -e bin/readers/node_modules/warcio/package.json || { \
		command -v npm >/dev/null && mkdir -p bin/readers && \
		npm install --prefix bin/readers --no-save --ignore-scripts --no-audit --no-fund --loglevel error $(WARCIO); \
	} || echo "No reader of archives could be installed; the tests that need it will be skipped."

bin/gotestsum: Makefile
	GOFLAGS= GOBIN=$(CURDIR)/bin $(GO) install $(RUNNER)
	@touch $@

clean: ## remove what the other targets built
	rm -rf bin dist cover.out
