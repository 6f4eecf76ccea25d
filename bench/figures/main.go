// Command figures measures what docs/performance.md shows: ldapd beside slapd if slapd is
// installed, and on HBase with -hbase, and the benchmarks that matter. It replaces the part of
// the page between the lines "<!-- figures -->" and "<!-- end of figures -->".
//
// With -versus it compares this source tree with another revision of it instead, and prints a table.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var (
	people    = flag.Int("people", 10_000, "people in the directory")
	duration  = flag.Duration("for", 2*time.Second, "how long each workload runs at each server")
	conns     = flag.Int("connections", 16, "connections that work at once")
	hbase     = flag.Bool("hbase", false, "measure ldapd on HBase too")
	benchTime = flag.String("benchtime", "1s", "-benchtime of the benchmarks; 0: none are run")
	against   = flag.String("versus", "", "compare with this revision instead")
	rounds    = flag.Int("rounds", 5, "with -versus: how often each workload is measured")
	page      = flag.String("page", "docs/performance.md", "the page to write")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	do := run
	if *against != "" {
		do = versus
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var b strings.Builder
	before := load()
	peers := append(slapd(), of(".", "peer-ldapd"))
	if *hbase {
		peers = append(peers, of(".", "peer-ldapd-hbase"))
	}
	if err := sideBySide(&b, peers); err != nil {
		return err
	}
	if *hbase {
		if err := reads(&b); err != nil {
			return err
		}
	}
	if *benchTime != "0" {
		if err := benchmarks(&b); err != nil {
			return err
		}
	}
	head := fmt.Sprintf("%s, %s; load %s before and %s after. %d people, %d connections, %v a workload.\n\n",
		time.Now().Format("2 January 2006"), machine(), before, load(), *people, *conns, *duration)
	return replace(*page, head+b.String())
}

// slapd returns the peer slapd if it is installed.
func slapd() []peer {
	if _, err := exec.LookPath("slapd"); err != nil {
		return nil
	}
	return []peer{of(".", "peer-slapd")}
}

// machine describes the machine.
func machine() string {
	text := fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kb); err == nil {
			text += fmt.Sprintf(", %d GiB", kb>>20)
		}
	}
	if out, err := exec.Command("slapd", "-VV").CombinedOutput(); err == nil || len(out) > 0 {
		if f := strings.Fields(string(out)); len(f) > 3 {
			text += ", OpenLDAP " + f[2] + " " + f[3]
		}
	}
	return text
}

// load returns the average number of processes that ran in the last minute.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	average, _, _ := strings.Cut(string(b), " ")
	return average
}

// A suite is a package and the benchmarks of it that the page shows.
type suite struct{ pkg, pattern string }

var suites = []suite{
	{"./directory", "^(BenchmarkSearchBase|BenchmarkSearchEqual|BenchmarkSearchRules|BenchmarkBind|BenchmarkBindPolicy|BenchmarkCompare|BenchmarkModify|BenchmarkGroups)$"},
	{"./partition", "^(BenchmarkRead|BenchmarkWrite|BenchmarkIntersection|BenchmarkChangedSince)$"},
	{"./ldap/server", "^BenchmarkRoundTrip$"},
	{"./ldap/monitor", "^BenchmarkObserve$"},
}

// benchmarks runs the suites and writes a table of their results.
func benchmarks(b *strings.Builder) error {
	all := suites
	if *hbase {
		all = append(all, suite{"./integration", "^(BenchmarkHBase|BenchmarkHeads)$"})
	}
	b.WriteString("### Benchmarks\n\nOne CPU: `go test -run XXX -bench NAME -benchmem -cpu 1 PACKAGE`.\n\n" +
		"| package | benchmark | us | octets | allocations |\n|---|---|---|---|---|\n")
	for _, s := range all {
		out, err := exec.Command("go", "test", "-run", "^$", "-bench", s.pattern, "-benchmem", "-cpu", "1", "-benchtime", *benchTime, s.pkg).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", s.pkg, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if row, ok := benchmarkRow(line); ok {
				fmt.Fprintf(b, "| %s | %s\n", strings.TrimPrefix(s.pkg, "./"), row)
			}
		}
	}
	b.WriteString("\n")
	return nil
}

// benchmarkRow turns a line of go test into the rest of a row.
func benchmarkRow(line string) (string, bool) {
	f := strings.Fields(line)
	if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
		return "", false
	}
	units := map[string]string{}
	for i := 2; i+1 < len(f); i += 2 {
		units[f[i+1]] = f[i]
	}
	var ns float64
	if _, err := fmt.Sscan(units["ns/op"], &ns); err != nil {
		return "", false
	}
	return fmt.Sprintf("%s | %s | %s | %s |", strings.TrimPrefix(f[0], "Benchmark"), short(ns/1000), units["B/op"], units["allocs/op"]), true
}

// short prints a number with three digits, or as an integer.
func short(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// replace replaces the part of a page that this program writes.
func replace(file, text string) error {
	const begin, end = "<!-- figures -->\n", "<!-- end of figures -->\n"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q", filepath.Base(file), strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return os.WriteFile(file, []byte(before+begin+strings.TrimRight(text, "\n")+"\n"+end+after), 0o644)
}
