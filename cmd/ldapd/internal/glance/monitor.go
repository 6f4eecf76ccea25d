package glance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// A monitor is what cn=monitor contains.
type monitor struct {
	entries map[string]*ldap.Entry // by DN in lower case
	figures []figure               // of cn=Metrics; none if no server was asked
}

// A figure is a metric, such as store_bytes{kind="log"} 4096.
type figure struct {
	name, label string // label is the value of the only label
	value       float64
}

func figureOf(line string) (f figure) {
	i := strings.LastIndexByte(line, ' ')
	f.value, _ = strconv.ParseFloat(line[i+1:], 64)
	name, labels, _ := strings.Cut(line[:max(i, 0)], "{")
	f.name = name
	if _, quoted, ok := strings.Cut(strings.TrimSuffix(labels, "}"), "="); ok {
		f.label, _ = strconv.Unquote(quoted)
	}
	return f
}

// entry returns an entry below cn=monitor, or an empty one.
func (m *monitor) entry(rdns string) *ldap.Entry {
	if e := m.entries[strings.TrimPrefix(rdns+",cn=monitor", ",")]; e != nil {
		return e
	}
	return &ldap.Entry{}
}

// figure returns the value of a metric. The label is "" for a metric without labels.
func (m *monitor) figure(name, label string) (float64, bool) {
	for _, f := range m.figures {
		if f.name == name && f.label == label {
			return f.value, true
		}
	}
	return 0, false
}

// moment returns the time that a metric contains, or the zero time.
func (m *monitor) moment(name, label string) time.Time {
	if v, ok := m.figure(name, label); ok && v != 0 {
		return time.UnixMilli(int64(v * 1000)).UTC()
	}
	return time.Time{}
}

// lines returns the lines of what the monitor knows.
func (m *monitor) lines() []Line {
	lines := []Line{m.server()}
	for _, f := range []func() (Line, bool){m.requests, m.disk, m.servers, m.views, m.archive, m.standby} {
		if l, ok := f(); ok {
			lines = append(lines, l)
		}
	}
	return append(lines, m.certificates()...)
}

func (m *monitor) server() Line {
	top := m.entry("")
	started, err := time.Parse("20060102150405.000Z", top.GetAttributeValue("startTime"))
	if err != nil {
		return Line{"server", true, "none was asked: nobody has the store open, or it is in HBase (ask a server by --url)"}
	}
	return Line{"server", true, fmt.Sprintf("%s, since %s (%s), %s connections, %s operations", top.GetAttributeValue("monitoredInfo"),
		started.Format(time.RFC3339), span(time.Since(started)), top.GetAttributeValue("currentConnections"), top.GetAttributeValue("opsCompleted"))}
}

func (m *monitor) requests() (Line, bool) {
	reads, asked := m.figure("ready", "reads")
	_, isStandby := m.figure("standby_lag_seconds", "")
	why := m.entry("").GetAttributeValue("writesRefused")
	switch {
	case reads == 0:
		return Line{"requests", false, "the store cannot be read: see the newest warning"}, asked
	case why != "":
		return Line{"requests", isStandby, "reads only: " + why}, asked
	}
	return Line{"requests", true, "reads and changes"}, asked
}

// lowDisk is the part of the disk below which free space needs attention.
const lowDisk = 0.1

func (m *monitor) disk() (Line, bool) {
	tables, ok := m.figure("store_bytes", "tables")
	log, _ := m.figure("store_bytes", "log")
	free, _ := m.figure("store_disk_bytes", "free")
	total, known := m.figure("store_disk_bytes", "total")
	text := fmt.Sprintf("tables %s, log %s", octets(tables), octets(log))
	if known {
		text += fmt.Sprintf("; %s of %s free (%.0f %%)", octets(free), octets(total), 100*free/total)
	}
	return Line{"store", !known || free >= lowDisk*total, text}, ok
}

func (m *monitor) servers() (Line, bool) {
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
	if v, ok := m.figure("head_age_seconds", ""); ok {
		text += fmt.Sprintf("; the state shown is %s old", span(time.Duration(v*float64(time.Second))))
	}
	return Line{"servers", len(notes) == 0, strings.Join(append([]string{text}, notes...), "; ")}, len(states) > 0
}

func (m *monitor) views() (Line, bool) {
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
	if lag, ok := m.figure("views_lag_seconds", ""); ok {
		text += fmt.Sprintf(", %s behind", span(time.Duration(lag*float64(time.Second))))
	}
	return Line{"views", len(bad) == 0, strings.Join(append([]string{text}, bad...), "; ")}, n > 0
}

// lateArchive is the age of the oldest commit without a copy from which on the archive needs attention.
const lateArchive = 10 * time.Minute

func (m *monitor) archive() (Line, bool) {
	_, configured := m.figure("archive_failures_total", "")
	lag, reached := m.figure("archive_lag_seconds", "")
	if !reached {
		return Line{"archive", false, "nothing is archived yet"}, configured
	}
	late := time.Duration(lag * float64(time.Second))
	text := fmt.Sprintf("everything up to %s ago; newest base %s", span(late), ago(m.moment("archive_last_success_timestamp_seconds", "base")))
	if drilled := m.moment("drill_last_success_timestamp_seconds", ""); !drilled.IsZero() {
		text += "; restored and compared " + ago(drilled)
	}
	return Line{"archive", late < lateArchive, text}, configured
}

func (m *monitor) standby() (Line, bool) {
	lag, ok := m.figure("standby_lag_seconds", "")
	late := time.Duration(lag * float64(time.Second))
	return Line{"standby", late < lateArchive, span(late) + " behind its archive"}, ok
}

// soonExpired is the time that a certificate in force must be valid for.
const soonExpired = 14 * 24 * time.Hour

func (m *monitor) certificates() (lines []Line) {
	for _, f := range m.figures {
		if f.name != "certificate_expiry_timestamp_seconds" {
			continue
		}
		end := time.Unix(int64(f.value), 0).UTC()
		left := time.Until(end)
		text := fmt.Sprintf("%s is valid until %s (%s)", f.label, end.Format(time.DateOnly), span(left))
		if left <= 0 {
			text = fmt.Sprintf("%s has expired on %s", f.label, end.Format(time.DateOnly))
		}
		lines = append(lines, Line{"certificate", left > soonExpired, text})
	}
	return lines
}

// warning returns the newest warning. It needs no attention by itself, because what it is about may be over.
func (m *monitor) warning() Line {
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

func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return span(time.Since(t)) + " ago"
}

// octets returns a number of octets in a unit.
func octets(n float64) string {
	units := []string{"octets", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && n >= 1024 {
		n, units = n/1024, units[1:]
	}
	return fmt.Sprintf("%.3g %s", n, units[0])
}
