# Shoal. `make help` lists what there is.

GO       ?= go
BIN      := bin
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  := -s -w -funcalign=16 -X shoal/internal/version.stamp=$(VERSION)
LINT     := $(BIN)/golangci-lint
LINT_VERSION := v2.12.2
DEADCODE := $(BIN)/deadcode
DEADCODE_VERSION := v0.52.0
FUZZTIME ?= 10s

.PHONY: reads runs race-compiled unraced servers judging cluster cluster-brief cluster-home updates chaos chaos-brief chaos-seeds life trust dist dist-check live bench-before honest inside hostile power reproduction overlay-hour overlay-scale help build test race lint fuzz bench bench-scale bench-placing bench-postgres bench-managers check cross vet fmt generate size churn sites crash bench-crawl bench-page wire footprint soak

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## bin/shoal, bin/shoal-peer and bin/shoal-sim, stripped and stamped
	CGO_ENABLED=0 $(GO) build -trimpath -tags minimal -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

TESTED ?= ./...
# Many tests wait for something: with one package more at once than there are processors, none of these waits too.
LANES := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
test: ## all tests, or those of the packages TESTED (under 5 minutes on 2 cores)
	$(GO) test -p $(LANES) $(TESTED)

SOAK ?= 20
soak: ## all tests SOAK times (default 20), half of them beside four busy processes; lists what ever failed, with logs in bin/soak (SOAK_PACKAGES=./peer/...: some packages; ONLY=TestPage: some tests; SOAK_FLAGS=-race; SOAK_JOBS=4: so many packages at once; SOAK_GO_ON=1: goes on behind the rounds that an earlier call on this tree has finished)
	SOAK_PACKAGES='$(SOAK_PACKAGES)' SOAK_FLAGS='$(SOAK_FLAGS)' .ci/soak $(SOAK) '$(ONLY)'

# What runs on one goroutine: the race detector can find nothing there, and takes ten times as long.
ALONE := cmd/shoal-dist cmd/shoal-sim $(addprefix cmd/shoal-sim/,allocsim cyclesim ordersim overlaysim recrawlsim scalesim) coords internal/wire/homing overlay recrawl/cycle
# This starts goroutines in one place, and has one test of that.
SHARES := recrawl/allocate
SHARED := TestSameForAnyNumberOfCores
# These take longest under the race detector, and begin first, so that no processor waits for one of them at the end.
LONG := manager/archive internal/lab/e2e cmd/shoal manager cmd/shoal-peer peer/crawl
# The race detector is written in C.
RACED = $(LONG:%=./%) $$($(GO) list ./... | grep -vxF $(patsubst %,-e shoal/%,$(ALONE) $(SHARES) $(LONG)))
race: ## all tests under the race detector, but those that only drive the programs, and of what runs on one goroutine
	CGO_ENABLED=1 $(GO) test -race -run '^$(SHARED)$$' $(SHARES:%=./%)
	CGO_ENABLED=1 $(GO) test -race -p $(LANES) -timeout 20m $(RACED)

unraced: ## the packages with tests that make race leaves out
	@echo ./internal/lab/e2e $(SHARES:%=./%) $(ALONE:%=./%)

race-compiled: ## compiles what make race runs, and links nothing: the cache has it then
	CGO_ENABLED=1 $(GO) list -race -test -deps -export $(RACED) $(SHARES:%=./%) >/dev/null

# For what is compiled to see whether it can be: nothing is optimized.
QUICK := -gcflags='all=-N -l'

vet: ## go vet
	$(GO) vet ./...

fmt: ## fail where gofmt would change something
	@files=$$(git ls-files '*.go') && [ -n "$$files" ] || { echo "git lists no Go files here" >&2; exit 1; }; \
	  out=$$(gofmt -l $$files) || exit 1; if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi

$(LINT):
	GOBIN=$(abspath $(BIN)) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

lint: $(LINT) ## golangci-lint with .golangci.yml
	GOLANGCI_LINT_CACHE=$(abspath $(BIN))/lint-cache $(LINT) run ./...

$(DEADCODE):
	GOBIN=$(abspath $(BIN)) $(GO) install golang.org/x/tools/cmd/deadcode@$(DEADCODE_VERSION)

reached: $(DEADCODE) ## fail on functions that only tests call, and on types that do not fit on one of the systems that volunteers have
	@./.ci/reached $(DEADCODE)

fuzz: ## each fuzz target for FUZZTIME (default 10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "== $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; done; done

bench: ## benchmarks with allocations, each beside its baseline
	$(GO) test -run '^$$' -bench . -benchmem ./...

cross: ## go vet of what volunteers run on Windows and macOS, tests included (make reached reads the types of all programs there)
	@set -e; for t in windows/amd64 darwin/arm64; do echo "vet $$t"; CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet $(QUICK) ./peer/... ./cmd/shoal-peer; done

size: build ## fail where a stripped binary is over its limit
	@./.ci/size $(BIN)/shoal 60 $(BIN)/shoal-peer 38

DIST := bin/dist
# The time of the commit is the time of all files.
dist: ## packages of both programs in bin/dist, signed with KEY (a minisign secret key) if it is named (needs wixl and msitools; no network)
	$(GO) build -o $(BIN)/shoal-dist ./cmd/shoal-dist
	$(BIN)/shoal-dist --out $(DIST) --version '$(VERSION)' --date $$(git log -1 --format=%ct) $(if $(KEY),--key $(KEY))

dist-check: ## makes all packages twice, the second time from a copy of the sources elsewhere, and fails where a byte differs (20 minutes)
	$(MAKE) dist
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; git ls-files | cpio -pdm --quiet "$$dir"; \
	  (cd "$$dir" && $(abspath $(BIN))/shoal-dist --out "$$dir/dist" --version '$(VERSION)' --date $$(git -C $(CURDIR) log -1 --format=%ct)) && \
	  diff $(DIST)/SHA256SUMS "$$dir/dist/SHA256SUMS" && echo "both times the same $$(wc -l < $(DIST)/SHA256SUMS) packages"

generate: ## regenerate the protobuf code (needs protoc and protoc-gen-go)
	$(GO) generate ./...

reads: lint reached cross ## what only reads the code: CI has it done while tests wait
runs: fmt vet size test

check: fmt vet reads size test ## what CI runs on every change; there most tests run once, under the race detector

bench-scale: ## the manager with a million channels, or SHOAL_CHANNELS: memory, start, decisions, placed tasks; a plan of 100,000
	SHOAL_CHANNELS=$(or $(SHOAL_CHANNELS),1000000) $(GO) test -run '^$$' -bench 'Channels|Start|Placed' -benchtime 1x -timeout 60m ./manager
	SHOAL_CHANNELS=$(or $(SHOAL_CHANNELS),1000000) $(GO) test -run '^$$' -bench Decisions -benchtime 1000000x -timeout 60m ./manager
	SHOAL_BENCH_CHANNELS=$(or $(SHOAL_CHANNELS),1000000) $(GO) test -run '^$$' -bench 'Import|Start' -benchtime 1x -timeout 60m ./channel/badgerdb
	$(GO) test -run '^$$' -bench Plan -benchtime 1x ./cmd/shoal

bench-placing: ## tasks handed out by the real manager and runner among 4,096 members, which another process answers for; what a message costs; what the judge's answers cost
	$(GO) test -run '^$$' -bench 'Placing$$' -benchtime 1x ./manager
	$(GO) test -run '^$$' -bench Message -benchtime 10000x ./overlay/p2p
	$(GO) test -run '^$$' -bench 'Judge|Index' ./overlay

bench-postgres: ## channels and archive on servers of their own beside those in a folder: import, scan, hand out, take in, take over, pages stored, acknowledgements, claims (SHOAL_BENCH_CHANNELS=1000000, SHOAL_BENCH_PAGES=128000 for the large form)
	$(GO) test -run '^$$' -bench 'Import|TakeOver' -benchtime 1x -timeout 30m ./channel/postgres
	$(GO) test -run '^$$' -bench 'Scan|Issue|Apply|TrustState' -timeout 30m ./channel/postgres
	$(GO) test -run '^$$' -bench '^Benchmark(Store|Acknowledge|Claim)$$' -benchtime 1x -timeout 30m ./manager/archive/remote

bench-managers: ## what a placed task, a stored page and a claim cost one manager, two and three on one server and one bucket, all together (needs PostgreSQL)
	$(GO) test -run '^$$' -bench 'ManagersPlaced|BenchmarkPlaced/manager' -benchtime 1x -timeout 30m ./manager
	SHOAL_BENCH_PAGES=$(or $(SHOAL_BENCH_PAGES),40000) $(GO) test -run '^$$' -bench Managers -benchtime 1x -timeout 30m ./manager/archive/remote
	$(GO) test -run '^$$' -bench Presence -benchtime 1x -timeout 30m ./manager/archive/remote

BEFORE ?= cc3d7bc
ROUNDS ?= 5
bench-before: ## processor time of placing, storing and claiming beside that of an earlier commit, by turns: medians of ROUNDS (5); fails above 1.05 (BEFORE=commit; 4 minutes a round)
	nice ./.ci/bench-before $(BEFORE) $(ROUNDS)

bench-crawl: ## our crawl beside wget -r and colly, median of 7 (wget: Debian package; colly is fetched)
	SHOAL_BENCH_CRAWL=7 $(GO) test -count=1 -timeout 15m -v -run TestBenchRivals ./peer/crawl

bench-page: ## reading real pages (go-trafilatura's test files) beside x/net/html's tokenizer, processor time, median of 5; fails above 1.1 times what the lexer of before took
	SHOAL_PAGES="$$($(GO) list -m -f '{{.Dir}}' github.com/markusmobius/go-trafilatura)/test-files" SHOAL_BENCH_PAGE=5 $(GO) test -count=1 -v -run TestPageBesideTokenizer ./peer/crawl

sites: ## three sites 20, 80 and 200 ms apart and two homes behind address translation, 20 peers; a hole punched between homes (needs root, iproute2, nftables; some minutes)
	SHOAL_SITES=1 $(GO) test -count=1 -timeout 20m -v -run 'Test(Sites|Homes)$$' ./internal/lab/e2e

bench-archive: ## the archive takes 128,000 pages of 8 kB from 50 peers, durable; pages a second, CPU a page, memory, beside packing alone; its files read by three readers that are not ours (needs npm)
	$(GO) test -count=3 -run '^$$' -bench 'BenchmarkIngest|BenchmarkPackOnly' -benchtime 128000x ./manager/archive
	dir=$$(mktemp -d) && (cd $$dir && npm install --silent --no-fund --no-audit warcio@2.4.11 @webrecorder/wabac@2.27.1 fake-indexeddb@6.2.8 >/dev/null) && \
	  SHOAL_WARCIO=$$dir SHOAL_TEST_STRICT=1 $(GO) test -count=1 -v -run 'TestGowarc|TestWarcio|TestWabac' ./manager/archive; s=$$?; rm -r $$dir; exit $$s

measurements: ## draws docs/measurements.csv, the history of what was measured, into docs/measurements
	$(GO) run ./cmd/shoal-sim measurements --plot docs/measurements

overlay-hour: ## 10,000 nodes of the overlay for a simulated hour, on one core: seconds and memory (needs /usr/bin/time)
	$(GO) build -o $(BIN)/shoal-sim ./cmd/shoal-sim
	GOMAXPROCS=1 /usr/bin/time -v $(BIN)/shoal-sim overlay --overlay rings --peers 10000 --settle 60m --tasks 100

overlay-scale: ## the overlay at 100 to 30,000 peers: what grows, as a table and in bin/figures (an hour or so)
	$(GO) run ./cmd/shoal-sim overlay --scale --overlay rings --hosts 2000 --settle 20m --tasks 100 --plot $(BIN)/figures

reproduction: ## the CSV files of docs/reproduction, SEEDS each (5; one core, some hours; may be stopped and started); ONLY=recrawl, ordering, optimal, cycle, overlay or trust; LATENCY, RIPE, CHANGES, CNR and CALIFORNIA name the real data
	$(GO) build -o $(BIN)/shoal-sim ./cmd/shoal-sim
	sh cmd/shoal-sim/reproduction.sh $(BIN)/shoal-sim $(BIN)/reproduction docs/reproduction $(or $(SEEDS),5)

LIVE ?= --minutes 5
live: build ## the real network under five strategies at three loads, with peers that stay and that come and go, beside the simulator: 2.5 hours and bin/live (LIVE='--strategies price,icr --load 1 --minutes 3 --churn off': less)
	mkdir -p $(BIN)/live
	$(BIN)/shoal-sim live $(LIVE) --plot $(BIN)/live

churn: ## the real manager with 40 peers that come and go (the tests have six, briefly), against the simulator's prediction (31 minutes)
	SHOAL_CHURN=1 $(GO) test -count=1 -timeout 45m -v -run 'TestChurn$$' ./cmd/shoal

CRASHES ?= 200
crash: ## kills the manager, archive included, CRASHES times (default 200) under load from peers, and looks at what is left (5 to 20 minutes)
	SHOAL_CRASHES=$(CRASHES) $(GO) test -count=1 -timeout 60m -v -run 'TestCrash$$' ./internal/lab/e2e

updates: ## a peer under load through releases that crash, do nothing, and do well, with real processes (some minutes)
	SHOAL_UPDATES=1 $(GO) test -count=1 -timeout 15m -v -run 'TestUpdates$$' ./internal/lab/e2e

CHAOS_LONGEST ?= 96h # of a run and all tries of CHAOS_SHRINK
CHAOS_FORM = SHOAL_CHAOS_MINUTES=$(or $(CHAOS_MINUTES),5) SHOAL_CHAOS_PEERS=$(CHAOS_PEERS) SHOAL_CHAOS_HOSTS=$(CHAOS_HOSTS) SHOAL_CHAOS_OLD=$(CHAOS_OLD)
chaos: ## everything breaks by a seeded script for CHAOS_MINUTES (default 5), before an outside judge: processes, wires, disks, members; an operator works meanwhile (CHAOS_SEED=7: that script; CHAOS_SCRIPT=FILE: the one of a failure; CHAOS_SHRINK=30: 30 tries at a shorter one that fails, each as long as the run, and each that does is told at once; CHAOS_OLD=COMMIT: begins in that version, and upgrades; CHAOS_TABLE=FILE: adds a line to that table; CHAOS_MINUTES=60: 60 peers and 3,000 hosts, as many as CHAOS_PEERS and CHAOS_HOSTS say otherwise; Linux, root)
	$(CHAOS_FORM) SHOAL_CHAOS_PLANT=$(CHAOS_PLANT) SHOAL_CHAOS_SEED=$(CHAOS_SEED) SHOAL_CHAOS_SHRINK=$(CHAOS_SHRINK) SHOAL_CHAOS_SCRIPT=$(if $(CHAOS_SCRIPT),$(abspath $(CHAOS_SCRIPT))) SHOAL_CHAOS_TABLE=$(if $(CHAOS_TABLE),$(abspath $(CHAOS_TABLE))) $(GO) test -count=1 -timeout $(if $(CHAOS_SHRINK),$(CHAOS_LONGEST),150m) -v -run 'TestChaos$$' ./internal/lab/e2e

CHAOS_SEEDS ?= 7,11
chaos-brief: ## the short form of make chaos, as CI runs it: half a minute of faults for each of CHAOS_SEEDS (default 7,11), two minutes in all (CHAOS_SCRIPT, CHAOS_SHRINK as above; CHAOS_PLANT=compact has each run fail that compacts, to try CHAOS_SHRINK; Linux, root)
	SHOAL_CHAOS_BRIEF=$(CHAOS_SEEDS) SHOAL_CHAOS_SHRINK=$(CHAOS_SHRINK) SHOAL_CHAOS_PLANT=$(CHAOS_PLANT) SHOAL_CHAOS_SCRIPT=$(if $(CHAOS_SCRIPT),$(abspath $(CHAOS_SCRIPT))) $(GO) test -count=1 -parallel 1 -timeout $(if $(CHAOS_SHRINK),$(CHAOS_LONGEST),20m) -v -run 'TestChaosBrief$$' ./internal/lab/e2e

chaos-seeds: ## the short form for many seeds (CHAOS_SEEDS=200-299, or 7,11,200-299), CHAOS_JOBS (default 1) at a time; CHAOS_MINUTES=5: that form, as make chaos has it: bin/chaos/table.tsv gets a line for each, with its verdict and the faults of each kind, and says at the end what all lines come to; bin/chaos/seed-N.log has what a run said (Linux, root)
	mkdir -p $(BIN)/chaos
	SHOAL_CHAOS_TABLE=$(abspath $(BIN)/chaos/table.tsv) $(if $(CHAOS_MINUTES),$(CHAOS_FORM) SHOAL_CHAOS_SEED,SHOAL_CHAOS_BRIEF)=$(CHAOS_SEEDS) $(GO) test -count=1 -parallel $(or $(CHAOS_JOBS),1) -timeout $(CHAOS_LONGEST) -v -run 'TestChaos$(if $(CHAOS_MINUTES),,Brief)$$' ./internal/lab/e2e

life: ## eight weeks of a manager and its archive, a crawl of every channel in each, with LIFE_CHANNELS (default 100000), LIFE_RATE tasks a second (700); LIFE_DIR keeps it, to go on with: files, memory, CPU a task, the time of a start (Linux)
	SHOAL_LIFE_CHANNELS=$(or $(LIFE_CHANNELS),100000) SHOAL_LIFE_WEEKS=$(or $(LIFE_WEEKS),8) SHOAL_LIFE_RATE=$(or $(LIFE_RATE),700) SHOAL_LIFE_DIR=$(LIFE_DIR) $(GO) test -count=1 -timeout 10h -v -run 'TestLife$$' ./manager

servers: ## a network moves to PostgreSQL and an object store and back while it runs, killed in its pause; and the systemd units of manager and archive run in a Debian system (SHOAL_DEBIAN; Linux, root, with PostgreSQL installed; three minutes)
	SHOAL_TEST_SERVERS=1 $(GO) test -count=1 -timeout 20m -v -run 'TestMigrateWhileItRuns$$|TestManagerUnits$$' ./internal/lab/e2e

cluster: ## three managers that share a network on PostgreSQL with a standby and an object store: managers, their clocks, servers and the ways between them break by a seeded script, while an operator works, for CLUSTER_MINUTES (default 5), before an outside judge; before that, what a death, a pause and an end of a manager take, and when its peers go on (CLUSTER_PEERS=40: so many peers, default 6; CLUSTER_SEED=7: that script; CLUSTER_OLD=DIR: upgrades from the programs there; Linux, root, with PostgreSQL installed)
	SHOAL_CLUSTER=1 SHOAL_CLUSTER_MINUTES=$(or $(CLUSTER_MINUTES),5) SHOAL_CLUSTER_PEERS=$(CLUSTER_PEERS) SHOAL_CLUSTER_SEED=$(CLUSTER_SEED) SHOAL_CLUSTER_OLD=$(if $(CLUSTER_OLD),$(abspath $(CLUSTER_OLD))) $(GO) test -count=1 -timeout 150m -v -run 'TestCluster(Moves|Home)?$$' ./internal/lab/e2e

cluster-home: ## when peers go on whose home is killed or loses its cable, over TCP and over QUIC, in namespaces: at another server, with claims, with chunks, met there (four minutes; Linux, root, with PostgreSQL installed)
	SHOAL_CLUSTER=1 $(GO) test -count=1 -timeout 20m -v -run 'TestClusterHome$$' ./internal/lab/e2e

cluster-brief: ## the short form of make cluster, as CI runs it: half a minute of outages, of one seed, CLUSTER_SEED (default 5) (Linux, root)
	SHOAL_CLUSTER_BRIEF=$(or $(CLUSTER_SEED),5) $(GO) test -count=1 -timeout 10m -v -run 'TestClusterBrief$$' ./internal/lab/e2e

ATTACKS ?= all
ABREAST ?= 2
hostile: ## attacks on live networks, each by one of five peers, ABREAST (2) at a time, then ten together by ten of fifty; what each cost, in bin/hostile.json (an hour; ATTACKS=a,b: some; Linux)
	mkdir -p $(BIN)
	SHOAL_ATTACKS=$(or $(SHOAL_ATTACKS),$(ATTACKS)) SHOAL_HOSTILE=$(abspath $(BIN))/hostile.json $(GO) test -count=1 -parallel $(ABREAST) -timeout 150m -v -run 'TestAttacks$$' ./internal/lab/e2e

LIARS ?= all
trust: ## forty peers of which four lie, each kind in turn, on a Web that makes honest checks hard; what was found, after how long, and what is left, in bin/trust.json; then 200 identities of one address prefix (an hour at most; LIARS=lazy,colluding: some; MINUTES=20; DEFENCE=none: nothing is done against them, and the judge must see it; ARBITER=off: two more checkers decide; Linux)
	mkdir -p $(BIN)
	SHOAL_ONE_PREFIX=200 SHOAL_LIARS=$(LIARS) SHOAL_LIARS_DEFENCE=$(DEFENCE) SHOAL_LIARS_ARBITER=$(ARBITER) SHOAL_LIARS_MINUTES=$(or $(MINUTES),20) SHOAL_TRUST=$(abspath $(BIN))/trust.json $(GO) test -count=1 -timeout 150m -v -run 'TestLiars$$|TestOnePrefix$$' ./internal/lab/e2e

judging: ## what judging deliveries takes of the processor of a whole manager, live: four networks beside each other, unjudged, in shadow, enforced, and unjudged with tasks of one page beside, which tell what an audit costs at least (4 minutes of a quiet machine; LOAD=full: managers that have all to do that the machine can, 8 minutes; PAGES=60: of each host; PROFILES=DIR: a profile of each; Linux)
	SHOAL_JUDGING=$(or $(LOAD),quiet) SHOAL_JUDGING_PAGES=$(PAGES) SHOAL_JUDGING_PROFILES=$(and $(PROFILES),$(abspath $(PROFILES))) $(GO) test -count=1 -timeout 12m -v -run 'TestJudging$$' ./internal/lab/e2e

honest: ## honest peers alone, on good, slow, odd and large hosts, with every defence on: what the defences take from them, at most 2% (some minutes; Linux)
	$(GO) test -count=1 -timeout 20m -v -run 'TestHonest$$' ./internal/lab/e2e
	$(GO) test -count=1 -v -run 'TestLargeResumeGoesOn$$' ./manager/archive

inside: ## a real peer in a home of namespaces is pointed at its volunteer's network, a row for each way (root; iproute2, nftables; 3 minutes)
	$(GO) test -count=1 -timeout 20m -v -run 'TestInside$$' ./internal/lab/e2e

POWER ?= 100
power: ## cuts the power of a disk under each of both databases and the WARC files, at POWER moments (default 100), tables and manifests included (root; FUSE, loop devices)
	SHOAL_POWER=$(POWER) $(GO) test -count=1 -timeout 60m -v -run 'TestCut|TestPowerCut' ./internal/lab/disklab ./channel/badgerdb ./channel/badgerdb/tables ./manager/archive ./manager/archive/remote

wire: ## a rate limit at the kernel's packet counters for a minute: of downloads, and of a whole peer over TCP and QUIC (root; Linux namespaces; 4 minutes)
	SHOAL_WIRE_S=60 $(GO) test -count=1 -v -run TestRateOnTheWire ./peer/limit
	SHOAL_WIRE_S=60 $(GO) test -count=1 -timeout 15m -v -run TestLimitOnTheWire ./internal/lab/e2e

FOOTPRINT ?= 10
footprint: ## what a peer takes: memory, processor, messages and packets at rest, and memory of five channels, one of a million pages; FOOTPRINT minutes each (default 10)
	SHOAL_FOOTPRINT=$(FOOTPRINT) $(GO) test -count=1 -timeout 3h -v -run 'TestFootprint$$' ./internal/lab/e2e

PAGE_S ?= 30
page-costs: ## what the volunteer's page takes: first paint beside an empty page's, traffic while it is open, memory and processor of the peer with the page and without, by turns; six turns of PAGE_S seconds (default 30; Chromium)
	SHOAL_PAGE_S=$(PAGE_S) $(GO) test -count=1 -v -run 'TestVolunteersPageCosts$$' ./internal/lab/e2e

pictures: ## the pictures of docs/volunteer.md (Chromium; SHOAL_AXE as for the tests)
	set -e; mkdir -p docs/pictures; dir=$$(mktemp -d); trap "rm -rf $$dir" EXIT; SHOAL_PICTURES=$$dir $(GO) test -count=1 -run 'TestVolunteersPageForAll$$' ./internal/lab/e2e; for v in join now limits history; do cp $$dir/home-$$v-1280-light-top.png docs/pictures/home-$$v.png; done; cp $$dir/home-now-360-dark-top.png docs/pictures/home-now-phone.png

idle: ## what a peer at rest with eight connections costs: messages, and packets at the kernel's counters (root; Linux namespaces; 6 minutes)
	SHOAL_IDLE=300 $(GO) test -count=1 -timeout 20m -v -run TestIdle ./overlay/p2p

join: ## how long 200 members behind one address take to join a manager with its default limits and quotas (root; Linux namespaces)
	SHOAL_MANY=1 $(GO) test -count=1 -v -run TestManyBehindOneAddress ./internal/wire
