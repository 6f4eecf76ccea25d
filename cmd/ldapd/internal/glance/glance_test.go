package glance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// TestAttention checks which lines need attention.
func TestAttention(t *testing.T) {
	at := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	for _, c := range []struct {
		figures string // separated by |
		entry   string // DN | attribute | value
		line    string // begins a line
	}{
		{`ready{for="reads"} 0`, "", "! requests      the store cannot be read"},
		{`ready{for="reads"} 1`, "cn=monitor|writesRefused|the disk is full", "! requests      reads only: the disk is full"},
		{`ready{for="reads"} 1|standby_lag_seconds 2`, "cn=monitor|writesRefused|it is a standby", "  requests      reads only: it is a standby"},
		{`standby_lag_seconds 3000`, "", "! standby       50m behind its archive"},
		{`store_bytes{kind="tables"} 2048|store_bytes{kind="log"} 0|store_disk_bytes{kind="free"} 5|store_disk_bytes{kind="total"} 100`, "", "! store         tables 2 KiB, log 0 octets; 5 octets of 100 octets free (5 %)"},
		{`store_bytes{kind="tables"} 2048|store_bytes{kind="log"} 0`, "", "  store         tables 2 KiB, log 0 octets"},
		{`archive_failures_total 3`, "", "! archive       nothing is archived yet"},
		{`archive_failures_total 0|archive_lag_seconds 4|archive_last_success_timestamp_seconds{kind="base"} ` + at(-time.Hour), "", "  archive       everything up to 4s ago; newest base 1h0m ago"},
		{`archive_failures_total 0|archive_lag_seconds 4000`, "", "! archive       everything up to 1h7m ago; newest base never"},
		{`certificate_expiry_timestamp_seconds{file="a.pem"} ` + at(48*time.Hour), "", "! certificate   a.pem is valid until "},
		{`certificate_expiry_timestamp_seconds{file="a.pem"} ` + at(-time.Hour), "", "! certificate   a.pem has expired on "},
		{`certificate_expiry_timestamp_seconds{file="a.pem"} ` + at(30*24*time.Hour), "", "  certificate   a.pem is valid until "},
		{"", "cn=slot 1,cn=cluster,cn=monitor|slotState|recovering", "  servers       0 open, 1 recovering"},
		{"", "cn=x,cn=views,cn=monitor|monitoredInfo|reason no index", "! views         1; "},
	} {
		m := &report{entries: map[string]*ldap.Entry{}}
		for line := range strings.SplitSeq(c.figures, "|") {
			f, err := monitor.ParseFigure(line)
			if err != nil && line != "" {
				t.Fatal(err)
			}
			m.figures = append(m.figures, f)
		}
		if e := strings.Split(c.entry, "|"); len(e) == 3 {
			m.entries[e[0]] = ldap.NewEntry(e[0], map[string][]string{e[1]: {e[2]}})
		}
		var lines []string
		for _, l := range m.lines() {
			lines = append(lines, l.String())
		}
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, c.line) }) {
			t.Errorf("%s %s: no line %q in\n%s", c.figures, c.entry, c.line, strings.Join(lines, "\n"))
		}
	}
}
