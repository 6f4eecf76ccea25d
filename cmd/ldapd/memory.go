package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/internal/config"
)

// tuneMemory lets garbage grow to twice what lives, since collecting it
// more often was a tenth of what an operation cost, but to no more than a GiB
// beside a full cache of entries. GOGC and GOMEMLIMIT have the last word.
func (m *Main) tuneMemory(c *config.Config) {
	set := func(name string) bool {
		return slices.ContainsFunc(m.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}
	if !set("GOGC") {
		debug.SetGCPercent(200)
	}
	if !set("GOMEMLIMIT") {
		entries, _ := caches(c, serving)
		debug.SetMemoryLimit(entries + 1<<30)
	}
}

// When memory is given back: when less than calm octets were allocated in a while,
// and more than busy since it was given back last.
const (
	while = 5 * time.Second
	calm  = 8 << 20
	busy  = 64 << 20
)

// giveBack returns to the operating system what a time of much work has left behind
// once it is over, such as ten thousand handshakes: the collector would keep it for
// the next one.
func giveBack(ctx context.Context) {
	t := time.NewTicker(while)
	defer t.Stop()
	var before, given uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := allocated()
		if now-before < calm && now-given > busy {
			debug.FreeOSMemory()
			given = now
		}
		before = now
	}
}

// allocated counts all octets that were ever allocated.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
