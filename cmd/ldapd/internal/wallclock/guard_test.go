package wallclock

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A machine has a clock, which can be set, and counts the time since its boot
// separately.
type machine struct {
	now          time.Time
	boot         string
	up           time.Duration
	synchronized bool
}

func (m *machine) pass(d time.Duration) { m.now, m.up = m.now.Add(d), m.up+d }

func (m *machine) restart(off time.Duration) {
	m.now, m.up, m.boot = m.now.Add(off), time.Minute, m.boot+"'"
}

func (m *machine) options(folder string) Options {
	return Options{
		Folder: folder, Log: slog.New(slog.DiscardHandler),
		Now:          func() time.Time { return m.now },
		Uptime:       func() (string, time.Duration) { return m.boot, m.up },
		Synchronized: func() bool { return m.synchronized },
	}
}

// open simulates a process that uses the store while do runs. It returns the error of
// Doubt.
func (m *machine) open(t *testing.T, folder string, newest time.Time, do func(*Guard)) error {
	t.Helper()
	g, err := Read(m.options(folder))
	if err != nil {
		t.Fatal(err)
	}
	if do != nil {
		do(g)
	}
	g.Start(func() time.Time { return newest })
	defer g.Close()
	return g.Doubt(newest)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestDoubt(t *testing.T) {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		rest  func(*machine)
		doubt bool
	}{
		"a year at rest while the system runs":   {func(m *machine) { m.pass(year) }, false},
		"set ahead":                              {func(m *machine) { m.now = m.now.Add(2 * time.Hour) }, true},
		"set ahead after a year at rest":         {func(m *machine) { m.pass(year); m.now = m.now.Add(2 * time.Hour) }, true},
		"set right by minutes":                   {func(m *machine) { m.now = m.now.Add(50 * time.Minute) }, false},
		"set back":                               {func(m *machine) { m.now = m.now.Add(-year) }, false},
		"off for the night":                      {func(m *machine) { m.restart(16 * time.Hour) }, false},
		"off for days, without a time server":    {func(m *machine) { m.restart(3 * day) }, true},
		"off for a year, and synchronized":       {func(m *machine) { m.restart(year); m.synchronized = true }, false},
		"on a system that counts no time, a day": {func(m *machine) { m.pass(day); m.boot = "" }, false},
		"on a system that counts no time, days":  {func(m *machine) { m.pass(3 * day); m.boot = "" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, folder := &machine{now: noon, boot: "a", up: time.Hour}, t.TempDir()
			if err := m.open(t, folder, time.Time{}, nil); err != nil {
				t.Fatal("a new store: ", err)
			}
			c.rest(m)
			for range 2 { // the second start must come to the same result, because a time in doubt is not recorded
				if err := m.open(t, folder, noon, nil); (err != nil) != c.doubt {
					t.Fatalf("doubt: %v", err)
				}
			}
			if err := m.open(t, folder, noon, (*Guard).Accept); err != nil {
				t.Error("accepted: ", err)
			}
			m.pass(day)
			if err := m.open(t, folder, noon, nil); err != nil {
				t.Error("after it was accepted: ", err)
			}
		})
	}
}

// TestJump sets the clock while the store is in use. The clock must be doubted until it
// is set back or synchronized. A clock that is behind the newest commit must be trusted
// when it catches up.
func TestJump(t *testing.T) {
	m := &machine{now: noon, boot: "a"}
	g, err := Read(m.options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	newest := noon.Add(1000 * time.Hour)
	g.Start(func() time.Time { return newest })
	defer g.Close()
	m.now = newest
	if err := g.Doubt(newest); err != nil {
		t.Error("up to the newest commit: ", err)
	}
	if g.Doubt(noon) == nil {
		t.Error("no doubt of a clock that jumped")
	}
	m.now = noon
	if err := g.Doubt(noon); err != nil {
		t.Error("set back: ", err)
	}
	m.now, m.synchronized = newest, true
	if err := g.Doubt(noon); err != nil {
		t.Error("synchronized: ", err)
	}
}

// TestNoNote opens a store without a readable note. The store must count as last used
// when its newest file was written. A doubt must remain even if files are written
// meanwhile.
func TestNoNote(t *testing.T) {
	for _, torn := range []bool{false, true} {
		folder := t.TempDir()
		names := []string{"000001.sst", "ldapd.store"}
		if torn {
			names = append(names, File)
		}
		for i, name := range names {
			path, at := filepath.Join(folder, name), noon.Add(-time.Duration(i)*time.Hour)
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
		m := &machine{now: noon.Add(pause), boot: "a"}
		if err := m.open(t, t.TempDir(), noon, nil); err != nil {
			t.Error("an empty folder: ", err)
		}
		m.now = m.now.Add(time.Second)
		for range 2 {
			if m.open(t, folder, time.Time{}, nil) == nil {
				t.Error("no doubt more than a day after the newest file")
			}
			if err := os.WriteFile(filepath.Join(folder, "000002.log"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.now = m.now.Add(-time.Second)
		if err := m.open(t, folder, time.Time{}, nil); err != nil {
			t.Error("a day after the newest file: ", err)
		}
	}
}

// TestSystem checks the system's uptime and boot id, if the system reports them.
func TestSystem(t *testing.T) {
	boot, up := uptime()
	again, later := uptime()
	if boot != again || later < up || (boot == "") != (up == 0) {
		t.Errorf("uptime: %q %v, then %q %v", boot, up, again, later)
	}
	t.Log("synchronized: ", synchronized())
}
