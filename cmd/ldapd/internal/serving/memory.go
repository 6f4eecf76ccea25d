package serving

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/cli"
	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

// tuneMemory lets the heap grow by twice the live memory, because more frequent
// collections took a tenth of the time of an operation. While the heap is large, watchMemory sets less.
// tuneMemory limits the memory of the Go runtime to 768 MiB plus five quarters of the size of full
// caches, so that the garbage of large requests does not grow beyond that. Near the limit, collections
// would take all CPUs. If GOGC or GOMEMLIMIT is set, its value takes precedence.
func (s *serving) tuneMemory(c *config.Config) {
	set := func(name string) bool {
		return slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !set("GOGC") {
		s.collects = mostGarbage
		debug.SetGCPercent(s.collects)
	}
	if !set("GOMEMLIMIT") {
		entries, blocks := cli.Caches(c, cli.Serve)
		debug.SetMemoryLimit((entries+blocks)/4*5 + 768<<20)
	}
}

// Garbage is collected when it is so many percent of the live memory as gcPercent returns: when it
// takes the octets garbage, but at most mostGarbage and at least leastGarbage percent. A cache of a
// million people is live memory that a collection marks in less than a second, because most of it has no
// pointers.
const (
	mostGarbage  = 200
	leastGarbage = 25
	garbage      = 384 << 20
)

func gcPercent(live uint64) int {
	return int(min(mostGarbage, max(leastGarbage, 100*garbage/max(live, 1))))
}

// These constants define when watchMemory returns memory: after a quiet interval that follows
// much work.
const (
	while = 5 * time.Second // length of an interval
	calm  = 8 << 20         // an interval is quiet if fewer octets are allocated in it
	busy  = 64 << 20        // much work: more octets were allocated since memory was last returned
	// The allocated octets count as much work only if they are also more than the live memory
	// divided by busyPart. To return memory, the garbage collector marks the live memory. For 4
	// GiB this takes 10 s of processor time.
	busyPart = 4
)

// watchMemory sets how much garbage there may be, unless GOGC is set. It returns memory to the
// operating system after a time of much work, such as ten thousand handshakes. The garbage collector
// alone would keep the memory.
func (s *serving) watchMemory(ctx context.Context) {
	t := time.NewTicker(while)
	defer t.Stop()
	var before, given uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now, live := heap()
		if p := gcPercent(live); s.collects != 0 && p != s.collects {
			s.collects = p
			debug.SetGCPercent(p)
		}
		if returns(now-before, now-given, live) {
			debug.FreeOSMemory()
			given = now
		}
		before = now
	}
}

// returns reports whether memory is returned after an interval. The parameters are numbers of
// octets: allocated in the interval, allocated since memory was last returned, and live.
func returns(interval, since, live uint64) bool {
	return interval < calm && since > max(busy, live/busyPart)
}

// heap returns the number of octets that the process has ever allocated, and the number of
// those that the last garbage collection has kept.
func heap() (allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}
