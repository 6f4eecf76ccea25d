# `make run` is the directory in two minutes, `make test` everything we know how
# to check. Both install nothing outside this folder but Go's own caches and, for
# tests on a real HBase, its jars in the user's cache folder.

GO ?= go
DATA ?= data
LISTEN ?= ldap://127.0.0.1:3890
CONSOLE ?= http://127.0.0.1:3891
SUFFIX = dc=example,dc=com

# Without the paths of this machine in what is built, clones share Go's build cache.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath

# As releases are built: what is tested is what is released, and no C is compiled.
export CGO_ENABLED = 0

.PHONY: build run test test-go test-second cases test-long simulation race race-short lint bench versus figures fuzz suites findings hbase hbase-stop hbase-versions clean

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null)

build:
	$(GO) build -ldflags '-X github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli.built=$(VERSION)' -o bin/ldapd ./cmd/ldapd

run: build
	@scripts/run bin/ldapd $(DATA) $(LISTEN) $(SUFFIX) $(CONSOLE)

# Tests of servers and of HBase wait much of their time, which the rest uses. With GOGC=100,
# garbage collection takes up to a third of the CPU time of a package's tests.
test: export GOGC = 400
test:
	@$(MAKE) --no-print-directory -j2 test-go lint simulation race-short test-second

# What takes longest comes first, and what waits runs beside integration, which takes as long as all others together. Three packages
# at once are hardly faster: with the JVMs of HBase, two keep two CPUs busy, and leases of seconds
# are lost. lint vets, and simulation runs TestSimulation.
test-go:
	@scripts/test-needs
	$(GO) test -vet=off -timeout 40m -skip '^TestSimulation$$' ./integration ./partition/... ./store/hbase ./store/lsm ./ldap/server ./cmd/ldapd ./directory ./web/console ./store/txn/... ./store/archive ./tools/bulk ./...

# A second release of HBase, if Maven serves its jars: most of the contract of tables, through the connection registry, and
# pages of scans. make hbase-versions runs more, on all releases.
SECOND = 3.0.0-alpha-4
test-second: export HBASE = $(SECOND)
test-second:
	@if $(GO) run ./cmd/hbase-dev fetch; then $(GO) test -vet=off -timeout 40m ./store/hbase \
	-run '^(TestConformance|TestScanPages)$$' -skip '/(.*Model|.*Race|Staged.*|.*Wide.*|LargeValues)'; \
	else echo "SKIPPED: HBase $(SECOND)"; fi

# The files of other servers and tools, as transcripts; a part of test-go.
cases:
	$(GO) test ./cmd/ldapd -run '^TestCases$$' -v

simulation:
	nice $(GO) test ./store/txn -run '^TestSimulation$$'

# Data races. The race detector needs a C compiler. make test runs race-short, whose test is a
# whole server with branches and many connections. Simulations are left out: their rig is not made for it.
# So are tests that count allocations, because the detector allocates. pebblegozstd: with cgo, Pebble would compile a library in C.
race-short: RACE = ./directory -run '^TestRaces$$'
race: RACE = ./store/txn ./store/lsm ./partition/... ./directory/... ./ldap/server -skip '^(TestSimulation|TestReplay|TestIncrementBuffers|TestAllocations|TestUnobserved)$$' -timeout 2h
race race-short:
	@if command -v gcc >/dev/null; then CGO_ENABLED=1 nice $(GO) test -race -tags pebblegozstd -vet=off $(RACE); \
	else echo "SKIPPED: data races (Debian's gcc and libc6-dev missing)"; fi

lint:
	@nice scripts/lint

# What make test runs with a budget, for as long as it takes to believe it: hours.
test-long:
	$(GO) test ./store/txn -run '^TestSimulation$$' -seeds 100000 -timeout 4h
	$(GO) test ./store/txn -run '^TestLines$$' -histories 20000 -timeout 2h
	$(GO) test ./store/txn -run '^TestRules$$' -rules . -timeout 2h
	$(GO) test ./store/txn -run '^TestBranchCrash' -branch-crashes 200 -hbase-crashes 200 -parallel 6 -timeout 2h
	$(GO) test ./store/hbase -run 'TestConformance|TestRandom' -rapid.checks 300 -queries 10000 -timeout 2h
	$(GO) test ./store/hbase -run TestSecured -secured -timeout 1h
	$(GO) test ./web/console -run '^TestOddRequests$$' -odd 2000 -timeout 1h
	$(GO) test ./store/txn/model -long -timeout 4h
	$(GO) test ./directory/account -run GuessesAreBounded -histories 1000000 -timeout 1h
	$(GO) test ./directory -run CodesAreUsedOnce -codes 100000 -timeout 2h
	$(GO) test ./integration -run TestLockoutOnHBase -lockout 10m -timeout 1h
	$(GO) test ./directory/acl -run 'TestOracle|TestDiffDecides' -oracle 1000000 -timeout 4h
	$(GO) test ./directory -run TestHostileClients -hostile 10m -timeout 1h
	$(GO) test ./directory -run TestNoLeak -noleak 100000 -timeout 4h
	$(GO) test ./store/archive -run 'TestCrashes|TestNeverTwoOwners' -crashes 1000 -promotions 100 -timeout 2h
	$(GO) test ./cmd/ldapd -run 'TestUntil|TestStandbyFigures' -moments 100 -people 1000000 -rate 2000 -load 30s -timeout 2h
	$(GO) test ./partition -run '^TestReformatBesideServers$$' -copies 1000 -timeout 2h
	$(GO) test ./partition -run 'SpaceComesBack|MembersCostNothing' -people 10000 -rounds 100 -members 1000000 -timeout 2h
	$(GO) test ./partition -run TestStampsModel -stamp-steps 5000 -timeout 2h
	$(GO) test ./partition -run TestViewFigures -v -viewpeople 1000000 -viewload 30s -viewrounds 4 -timeout 2h
	$(GO) test ./partition/materialized -run TestViews -histories 20000 -timeout 4h
	$(GO) test ./integration -run 'TestFleet$$|TestViewsOnHBase' -fleet 10m -hbaseviews 10m -timeout 2h
	$(GO) test ./integration -run TestViewsKilled -viewedpeople 1000000 -viewkills 20 -timeout 2h
	$(GO) test ./integration -run 'TestHistories|SpaceComesBack|TestSnapshots|TestDifferential|TestKill' -histories 10m -people 500 -rounds 20 -snapshots 20 \
		-directories 1000 -hbasedirectories 100 -hbaseserverfilters 100 -kills 200 -hbasekills 50 -timeout 4h

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# This tree beside another revision and slapd, by turns: what a change of a hot path costs.
versus:
	$(GO) run ./bench/figures -versus $(REV) $(FIGURES)

# docs/performance.md: beside slapd, and with HBASE=1 (or a version) on HBase. FIGURES has flags: make figures FIGURES='-people 1000 -for 1s'
figures:
	$(if $(filter 1,$(HBASE)),HBASE= )$(GO) run ./bench/figures $(if $(HBASE),-hbase) $(FIGURES)

# FUZZTIME=10m make fuzz
fuzz:
	@scripts/fuzz $${FUZZTIME:-20s}

# Other projects' tests, which are fetched: see docs/reliability.md.
suites:
	@scripts/suites

# What other projects' packages do: see findings/README.md.
findings:
	@for f in findings/*.sh; do echo "$$f"; "$$f" || exit 1; done

hbase:
	$(GO) run ./cmd/hbase-dev start -dir .hbase

hbase-stop:
	$(GO) run ./cmd/hbase-dev stop -dir .hbase

# One version by HBASE: HBASE=2.4.18 make test. The table of docs/hbase.md has what was run.
HBASES = 2.4.18 2.5.13-hadoop3 2.6.4-hadoop3 $(SECOND)
hbase-versions:
	@for v in $(HBASES); do echo "HBase $$v"; \
	HBASE=$$v $(GO) test ./store/hbase -run 'Conformance|Split|Snapshot|Random|Compact|Scan' -timeout 40m || exit 1; done

clean:
	rm -rf bin
