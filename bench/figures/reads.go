package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

// A probe is a test that measures searches and logs a line for each of them.
type probe struct {
	pkg, test string
	line      *regexp.Regexp // its groups are the search and the figures
	head      string
}

var probes = []probe{
	{"./store/hbase", "^TestOctets$", regexp.MustCompile(`^\S+: (.+): (\d+) found, (\d+) calls, (\d+) octets received$`),
		"3,000 people on a real HBase, three servers, an open and a parked branch.\n\n| search | found | calls | octets received |\n|---|---|---|---|\n"},
	{"./partition", "^(TestListRoundTrips|TestWalkRoundTrips)$", regexp.MustCompile(`^\S+: (.+): (\d+) round trips$`),
		"Round trips in sequence, exact, the first time after a start.\n\n| search | round trips |\n|---|---|\n"},
}

// reads runs the probes and writes tables of what they logged.
func reads(b *strings.Builder) error {
	b.WriteString("### Reads on HBase\n\n`go test -v -run TestOctets ./store/hbase`, `go test -v -run 'ListRoundTrips|WalkRoundTrips' ./partition`.\n\n")
	for _, p := range probes {
		out, err := exec.Command("go", "test", "-count=1", "-v", "-run", p.test, p.pkg).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", p.pkg, err, out)
		}
		b.WriteString(p.head)
		for line := range strings.Lines(string(out)) {
			if m := p.line.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				fmt.Fprintf(b, "| %s |\n", strings.Join(append([]string{strings.ReplaceAll(m[1], "|", `\|`)}, m[2:]...), " | "))
			}
		}
		b.WriteString("\n")
	}
	return nil
}
