package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
)

// TestTraffic checks that traffic is counted, and that the current load can be read.
func TestTraffic(t *testing.T) {
	m := monitor.New("test")
	reg := scrape.Registry(m)
	hold := make(chan bool)
	r := start(t, func(_ context.Context, m *op.Message, sink op.Sink) {
		switch m.ID {
		case 2:
			<-hold
		case 3:
			sink.(op.Persister).Persist()
			<-hold
		}
		sink.Done(&op.Response{})
	}, server.Options{MaxConnections: 2, MaxOutstanding: 1, Traffic: m.Traffic})
	busy := r.dial()
	busy.send(3, search)
	eventually(t, "a search that stays", func() bool { return len(r.Load().Listeners) == 1 && r.Load().Listeners[0].Persistent == 1 })
	busy.send(1, compare)
	busy.expect(1, op.Success)
	busy.send(2, compare)
	busy.send(4, modify)
	bad := r.dial()
	bad.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	url := "ldap://" + r.addr
	eventually(t, "one that runs and one that waits", func() bool {
		l := r.Load()
		return l.Running[monitor.Compare] == 1 && l.Waiting[monitor.Modify] == 1
	})
	bad.notice(op.ProtocolError)
	eventually(t, "one connection", func() bool { return r.Load().Connections() == 1 })
	second := r.dial()
	second.send(1, compare)
	second.expect(1, op.Success)
	r.dial().expect(0, op.Unavailable)
	if l := r.Load(); len(l.Listeners) != 1 || l.Listeners[0].URL != url || l.Listeners[0].Clear != 2 || l.MaxConnections != 2 {
		t.Errorf("%+v", l)
	}
	close(hold)
	want := `# HELP ldapd_connection_failures_total Connections that ended badly.
# TYPE ldapd_connection_failures_total counter
ldapd_connection_failures_total{reason="protocol"} 1
# HELP ldapd_connections_refused_total Connections that were not taken.
# TYPE ldapd_connections_refused_total counter
ldapd_connections_refused_total{reason="limit"} 1
# HELP ldapd_connections_total Connections taken.
# TYPE ldapd_connections_total counter
ldapd_connections_total{listener="` + url + `"} 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "ldapd_connection_failures_total", "ldapd_connections_refused_total", "ldapd_connections_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(reg, "ldapd_received_bytes_total", "ldapd_sent_bytes_total"); n != 2 || err != nil {
		t.Error(n, err)
	}
}
