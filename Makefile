# `make run` is the directory in two minutes, `make test` everything we know how
# to check. Both install nothing outside this folder but Go's own caches and, for
# tests on a real HBase, its jars in the user's cache folder.

GO ?= go
DATA ?= data
LISTEN ?= ldap://127.0.0.1:3890
SUFFIX = dc=example,dc=com

.PHONY: build run test test-go lint bench fuzz suites hbase hbase-stop clean

VERSION = $(shell git describe --tags --always --dirty 2>/dev/null)

build:
	$(GO) build -trimpath -ldflags '-X main.built=$(VERSION)' -o bin/ldapd ./cmd/ldapd

run: build
	@scripts/run bin/ldapd $(DATA) $(LISTEN) $(SUFFIX)

test: lint test-go

# Tests of one package run at a time where they share a JVM or time themselves
# out; the whole takes some minutes.
test-go:
	@scripts/test-needs
	$(GO) test -timeout 40m ./...
	$(GO) test ./txn -run '^TestSimulation$$' -seeds 20000

lint:
	@scripts/lint

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# FUZZTIME=10m make fuzz
fuzz:
	@scripts/fuzz $${FUZZTIME:-20s}

# Other projects' tests, which are fetched: see docs/suites.md.
suites:
	@scripts/suites

hbase:
	$(GO) run ./internal/hbasetest/cmd/hbase-dev start -dir .hbase

hbase-stop:
	$(GO) run ./internal/hbasetest/cmd/hbase-dev stop -dir .hbase

clean:
	rm -rf bin
