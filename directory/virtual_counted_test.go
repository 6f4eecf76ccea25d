package directory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// counting returns the administrator's session in a directory with metrics, and the
// metrics.
func counting(t *testing.T, o directory.Options) (*directory.Session, *monitor.Metrics) {
	m := monitor.New("test")
	m.SetLoad(func() *monitor.Load {
		return &monitor.Load{MaxConnections: 9, Busy: 1, Listeners: []monitor.ListenerLoad{{URL: "ldap://x", Clear: 2, TLS: 1}}}
	})
	o.Metrics = m
	s := newDirectory(t, newPartition(t), o).NewSession(nil)
	serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	return s, m
}

// TestMonitorAsExportersOfOpenLDAPAsk makes the search that the collectors of Telegraf and
// netdata make. It must return the entries that they read from slapd.
func TestMonitorAsExportersOfOpenLDAPAsk(t *testing.T) {
	s, _ := counting(t, directory.Options{})
	all, done := changesOf(t, s, "cn=Monitor", op.WholeSubtree,
		"(|(objectClass=monitorCounterObject)(objectClass=monitorOperation)(objectClass=monitoredObject))",
		"monitorCounter monitorOpInitiated monitorOpCompleted monitoredInfo")
	if done.Code != op.Success {
		t.Fatal(&done.Result)
	}
	text := strings.ReplaceAll(strings.Join(all, "\n"), "\n  ", "\n")
	for _, name := range strings.Fields("Bind Unbind Search Compare Add Modify Delete Modrdn Abandon Extended") {
		if !strings.Contains(text, "dn: cn="+name+",cn=Operations,cn=monitor\nmonitorOpInitiated: ") {
			t.Errorf("no cn=%s", name)
		}
	}
	for _, want := range []string{
		"dn: cn=Current,cn=Connections,cn=monitor\nmonitorCounter: 3", "dn: cn=Total,cn=Connections,cn=monitor\nmonitorCounter: ",
		"dn: cn=Max File Descriptors,cn=Connections,cn=monitor\nmonitorCounter: ",
		"dn: cn=Bytes,cn=Statistics,cn=monitor\nmonitorCounter: ", "dn: cn=PDU,cn=Statistics,cn=monitor\nmonitorCounter: 1",
		"dn: cn=Entries,cn=Statistics,cn=monitor\nmonitorCounter: 0", "dn: cn=Referrals,cn=Statistics,cn=monitor\nmonitorCounter: ",
		"dn: cn=Active,cn=Threads,cn=monitor\nmonitoredInfo: 0", "dn: cn=Uptime,cn=Time,cn=monitor\nmonitoredInfo: ",
		"dn: cn=Read,cn=Waiters,cn=monitor\nmonitorCounter: 2", "dn: cn=Write,cn=Waiters,cn=monitor\nmonitorCounter: 0",
		"dn: cn=Bind,cn=Operations,cn=monitor\nmonitorOpInitiated: 1\nmonitorOpCompleted: 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestMonitorShowsJobs checks that cn=Jobs shows how many jobs of each name run, and how far
// they are.
func TestMonitorShowsJobs(t *testing.T) {
	s, m := counting(t, directory.Options{})
	_, j := m.Jobs.Begin(t.Context(), "import", "", nil)
	j.Measure(func() (float64, bool) { return 0.456, true })
	_, ended := m.Jobs.Begin(t.Context(), "check", "", nil)
	ended.End(nil)
	all, _ := changesOf(t, s, "cn=Jobs,cn=monitor", op.SingleLevel, "(objectClass=monitorCounterObject)", "monitorCounter monitoredInfo")
	text := strings.ReplaceAll(strings.Join(all, "\n"), "\n  ", "\n")
	for _, want := range []string{"dn: cn=import,cn=Jobs,cn=monitor\nmonitorCounter: 1\nmonitoredInfo: 46%", "dn: cn=check,cn=Jobs,cn=monitor\nmonitorCounter: 0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	j.End(nil)
}

// TestJobsOverLDAP starts and cancels jobs, and reads what cn=Jobs shows of them.
func TestJobsOverLDAP(t *testing.T) {
	var m *monitor.Metrics
	ctxs := map[int]context.Context{}
	jobs := map[int]*monitor.Job{}
	s, m := counting(t, directory.Options{Jobs: []string{"check", "gc [--all]"}, StartJob: func(who, name string, arguments []string) (int, error) {
		if name != "gc" {
			return 0, errors.New("no such job here")
		}
		ctx, j := m.Jobs.Begin(t.Context(), name, who, arguments)
		ctxs[j.Number()], jobs[j.Number()] = ctx, j
		return j.Number(), nil
	}})
	run := func(oid string, value []byte) *op.Response {
		var out answers
		s.Serve(t.Context(), &op.Message{ID: 1, Request: &op.Extended{OID: oid, Value: value}}, &out)
		return out.done
	}
	start := func(name string, arguments ...string) *op.Response {
		return run(control.OIDStartJob, control.StartJob{Name: name, Arguments: arguments}.Encode())
	}
	cancel := func(n int) op.Code { return run(control.OIDCancelJob, control.JobNumber{Number: n}.Encode()).Code }
	for n := 1; n <= 2; n++ {
		r := start("gc", "--all", "x")
		if got, err := control.ParseJobNumber(r.Value); r.Code != op.Success || err != nil || got.Number != n {
			t.Fatalf("%v, %v, %v", &r.Result, got, err)
		}
	}
	fmt.Fprint(jobs[1], strings.Repeat("a", 20000), "the end")
	jobs[1].Measure(func() (float64, bool) { return 0.5, true })
	if code := cancel(1); code != op.Success || ctxs[1].Err() == nil || ctxs[2].Err() != nil {
		t.Errorf("cancel: %d, %v, %v", code, ctxs[1].Err(), ctxs[2].Err())
	}
	jobs[2].End(errors.New("broken"))
	if r := start("format"); r.Code != op.UnwillingToPerform || r.Diagnostic != "start job: no such job here" {
		t.Errorf("an unknown job: %v", &r.Result)
	}
	if a, b := cancel(2), cancel(7); a != op.TooLate || b != op.NoSuchOperation {
		t.Errorf("cancel of a job that has ended: %d, of none: %d", a, b)
	}
	for _, oid := range []string{control.OIDStartJob, control.OIDCancelJob} {
		if r := run(oid, nil); r.Code != op.ProtocolError {
			t.Errorf("no value: %v", &r.Result)
		}
	}
	all, _ := changesOf(t, s, "cn=Jobs,cn=monitor", op.SingleLevel, "(objectClass=monitorJob)", "jobOffered jobName jobArgument jobWho jobState jobProgress jobError jobOutput jobEnded")
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"jobOffered: check\n  jobOffered: gc [--all]\n", "dn: cn=1,cn=Jobs,cn=monitor\n", "jobName: gc", "jobWho: " + admin,
		"jobArgument: --all\n  jobArgument: x", "jobState: canceled", "jobProgress: 50", "aaathe end\n", "jobState: failed", "jobError: broken",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(text) > 17000 {
		t.Errorf("the output has %d octets", len(text))
	}
	for range 30 { // only the last jobs are kept
		start("gc")
	}
	for n := range 30 {
		jobs[3+n].End(nil)
	}
	if all, _ := changesOf(t, s, "cn=Jobs,cn=monitor", op.SingleLevel, "(jobName=*)", ""); len(all) != 21 {
		t.Errorf("%d jobs are shown, want one that runs and 20 that have ended", len(all))
	}
	serve(t, s, &op.Bind{Version: 3})
	for _, r := range []*op.Response{start("gc"), run(control.OIDCancelJob, control.JobNumber{Number: 1}.Encode())} {
		if r.Code != op.InsufficientAccessRights {
			t.Errorf("anonymous: %v", &r.Result)
		}
	}
}

// TestMonitorAsExportersOf389Ask checks that exporters find the attributes that they
// request from 389-ds.
func TestMonitorAsExportersOf389Ask(t *testing.T) {
	s, _ := counting(t, directory.Options{})
	for range 2 {
		changesOf(t, s, "dc=nothing", op.SingleLevel, "(objectClass=*)", "")
	}
	top, _ := changesOf(t, s, "cn=monitor", op.BaseObject, "(objectClass=*)", "")
	snmp, _ := changesOf(t, s, "cn=snmp,cn=monitor", op.BaseObject, "(objectClass=*)", "")
	for _, want := range strings.Fields("threads: currentConnections:3 totalConnections: dTableSize:9 readWaiters:2 opsInitiated: opsCompleted: entriesSent: bytesSent: currentTime: startTime:") {
		if name, value, _ := strings.Cut(want, ":"); !strings.Contains(top[0], name+": "+value) {
			t.Errorf("no %s in %s", want, top[0])
		}
	}
	for _, want := range strings.Fields("anonymousBinds:0 simpleAuthBinds:1 strongAuthBinds:0 bindSecurityErrors:0 inOps: compareOps:0 addEntryOps:0 removeEntryOps: modifyEntryOps: modifyRDNOps: " +
		"searchOps: oneLevelSearchOps:2 wholeSubtreeSearchOps:0 referrals:0 securityErrors:0 errors:2 connections:3 connectionSeq: bytesRecv: bytesSent: entriesReturned: referralsReturned:") {
		if name, value, _ := strings.Cut(want, ":"); !strings.Contains(snmp[0], name+": "+value) {
			t.Errorf("no %s in %s", want, snmp[0])
		}
	}
}

type health struct{ live, ready bool }

func (h health) IsLive() bool      { return h.live }
func (h health) IsReady(bool) bool { return h.ready }

// TestHealthInRootDSE checks that the root DSE contains the server's health if a client
// requests its attributes by name, and only then.
func TestHealthInRootDSE(t *testing.T) {
	for _, c := range []struct {
		h    health
		want []string
	}{
		{health{true, true}, []string{"alive: TRUE", "healthy: TRUE"}},
		{health{true, false}, []string{"alive: TRUE", "healthy: FALSE"}},
		{health{false, false}, []string{"alive: FALSE", "healthy: FALSE"}},
	} {
		s := newDirectory(t, newPartition(t), directory.Options{Health: c.h}).NewSession(nil)
		for _, attributes := range []string{"Alive healthy", "*", "+", ""} {
			all, done := changesOf(t, s, "", op.BaseObject, "(objectClass=*)", attributes)
			lines := strings.Split(strings.ReplaceAll(strings.Join(all, "\n"), "\n  ", "\n"), "\n")
			for _, w := range c.want {
				if has := slices.Contains(lines, w); done.Code != op.Success || has != (attributes == "Alive healthy") {
					t.Errorf("%+v, %q: %q is there: %v", c.h, attributes, w, has)
				}
			}
		}
	}
}
