package glance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// A report is what cn=monitor contains.
type report struct {
	entries map[string]*ldap.Entry // by DN in lower case
	figures []monitor.Figure       // of cn=Metrics; none if no server was asked
}

// entry returns an entry below cn=monitor, or an empty one.
func (m *report) entry(rdns string) *ldap.Entry {
	if e := m.entries[strings.TrimPrefix(rdns+",cn=monitor", ",")]; e != nil {
		return e
	}
	return &ldap.Entry{}
}

// figure returns a metric, and whether it is there.
func (m *report) figure(name, labels string) (monitor.Figure, bool) {
	for _, f := range m.figures {
		if f.Name == name && f.Labels == labels {
			return f, true
		}
	}
	return monitor.Figure{}, false
}

// text returns the value of a metric with its unit.
func (m *report) text(name, labels string) string {
	f, _ := m.figure(name, labels)
	_, text := f.InUnit()
	return text
}

// seconds returns the time that a metric without labels contains, and whether it is there.
func (m *report) seconds(name string) (time.Duration, bool) {
	f, ok := m.figure(name, "")
	return time.Duration(f.Value * float64(time.Second)), ok
}

// ago returns how long ago the moment was that a metric contains.
func (m *report) ago(name, labels string) string {
	if f, _ := m.figure(name, labels); f.Value != 0 {
		return span(time.Since(time.UnixMilli(int64(f.Value*1000)))) + " ago"
	}
	return "never"
}

// lines returns the lines of what the monitor knows.
func (m *report) lines() []Line {
	lines := []Line{m.server()}
	for _, f := range []func() (Line, bool){m.requests, m.disk, m.servers, m.views, m.archive, m.standby} {
		if l, ok := f(); ok {
			lines = append(lines, l)
		}
	}
	return append(lines, m.certificates()...)
}

func (m *report) server() Line {
	top := m.entry("")
	started, err := time.Parse("20060102150405.000Z", top.GetAttributeValue("startTime"))
	if err != nil {
		return Line{"server", true, "none was asked: nobody has the store open, or it is in HBase (ask a server by --url)"}
	}
	return Line{"server", true, fmt.Sprintf("%s, since %s (%s), %s connections, %s operations", top.GetAttributeValue("monitoredInfo"),
		started.Format(time.RFC3339), span(time.Since(started)), top.GetAttributeValue("currentConnections"), top.GetAttributeValue("opsCompleted"))}
}

func (m *report) requests() (Line, bool) {
	reads, asked := m.figure("ready", `for="reads"`)
	_, isStandby := m.figure("standby_lag_seconds", "")
	why := m.entry("").GetAttributeValue("writesRefused")
	switch {
	case reads.Value == 0:
		return Line{"requests", false, "the store cannot be read: see the newest warning"}, asked
	case why != "":
		return Line{"requests", isStandby, "reads only: " + why}, asked
	}
	return Line{"requests", true, "reads and changes"}, asked
}

// lowDisk is the part of the disk below which free space needs attention.
const lowDisk = 0.1

func (m *report) disk() (Line, bool) {
	const tables, log, free, total = `kind="tables"`, `kind="log"`, `kind="free"`, `kind="total"`
	_, ok := m.figure("store_bytes", tables)
	left, _ := m.figure("store_disk_bytes", free)
	disk, known := m.figure("store_disk_bytes", total)
	text := fmt.Sprintf("tables %s, log %s", m.text("store_bytes", tables), m.text("store_bytes", log))
	if known {
		text += fmt.Sprintf("; %s of %s free (%.0f %%)", m.text("store_disk_bytes", free), m.text("store_disk_bytes", total), 100*left.Value/disk.Value)
	}
	return Line{"store", !known || left.Value >= lowDisk*disk.Value, text}, ok
}

func (m *report) servers() (Line, bool) {
	states, notes := map[string]int{}, []string{}
	for name, e := range m.entries {
		if !strings.HasSuffix(name, ",cn=cluster,cn=monitor") {
			continue
		}
		state, note := e.GetAttributeValue("slotState"), e.GetAttributeValue("slotNote")
		states[state]++
		if state == "open" && note != "" { // other notes say what servers do by themselves
			notes = append(notes, e.GetAttributeValue("cn")+": "+note)
		}
	}
	slices.Sort(notes)
	text := fmt.Sprintf("%d open", states["open"])
	if n := states["recovering"]; n > 0 {
		text += fmt.Sprintf(", %d recovering", n)
	}
	if age, ok := m.seconds("head_age_seconds"); ok {
		text += fmt.Sprintf("; the state shown is %s old", span(age))
	}
	return Line{"servers", len(notes) == 0, strings.Join(append([]string{text}, notes...), "; ")}, len(states) > 0
}

func (m *report) views() (Line, bool) {
	n, bad := 0, []string{}
	for name, e := range m.entries {
		if !strings.HasSuffix(name, ",cn=views,cn=monitor") {
			continue
		}
		n++
		state, reason := "", ""
		for _, info := range e.GetAttributeValues("monitoredInfo") {
			if text, ok := strings.CutPrefix(info, "state "); ok {
				state = text
			} else if text, ok := strings.CutPrefix(info, "reason "); ok {
				reason = ": " + text
			}
		}
		if reason != "" {
			bad = append(bad, fmt.Sprintf("%s is %s%s", e.GetAttributeValue("cn"), state, reason))
		}
	}
	slices.Sort(bad)
	text := fmt.Sprint(n)
	if lag, ok := m.seconds("views_lag_seconds"); ok {
		text += fmt.Sprintf(", %s behind", span(lag))
	}
	return Line{"views", len(bad) == 0, strings.Join(append([]string{text}, bad...), "; ")}, n > 0
}

// lateArchive is the age of the oldest commit without a copy from which on the archive needs attention.
const lateArchive = 10 * time.Minute

func (m *report) archive() (Line, bool) {
	_, configured := m.figure("archive_failures_total", "")
	late, reached := m.seconds("archive_lag_seconds")
	if !reached {
		return Line{"archive", false, "nothing is archived yet"}, configured
	}
	text := fmt.Sprintf("everything up to %s ago; newest base %s", span(late), m.ago("archive_last_success_timestamp_seconds", `kind="base"`))
	if drilled := m.ago("drill_last_success_timestamp_seconds", ""); drilled != "never" {
		text += "; restored and compared " + drilled
	}
	return Line{"archive", late < lateArchive, text}, configured
}

func (m *report) standby() (Line, bool) {
	late, ok := m.seconds("standby_lag_seconds")
	return Line{"standby", late < lateArchive, span(late) + " behind its archive"}, ok
}

// soonExpired is the time that a certificate in force must be valid for.
const soonExpired = 14 * 24 * time.Hour

func (m *report) certificates() (lines []Line) {
	for _, f := range m.figures {
		label, ok := strings.CutPrefix(f.Labels, "file=")
		file, err := strconv.Unquote(label)
		if f.Name != "certificate_expiry_timestamp_seconds" || !ok || err != nil {
			continue
		}
		end := time.Unix(int64(f.Value), 0).UTC()
		left := time.Until(end)
		text := fmt.Sprintf("%s is valid until %s (%s)", file, end.Format(time.DateOnly), span(left))
		if left <= 0 {
			text = fmt.Sprintf("%s has expired on %s", file, end.Format(time.DateOnly))
		}
		lines = append(lines, Line{"certificate", left > soonExpired, text})
	}
	return lines
}

// warning returns the newest warning. It needs no attention by itself, because what it is about may be over.
func (m *report) warning() Line {
	lines := m.entry("cn=log").GetAttributeValues("monitoredInfo")
	if len(lines) == 0 {
		return Line{"warning", true, "none since the start"}
	}
	return Line{"warning", true, lines[0]}
}

// span returns a duration in one or two units.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
