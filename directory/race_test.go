package directory_test

import (
	"bufio"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

var raceRounds = flag.Int("races", 8, "rounds of TestRaces")

// TestRaces is for the race detector (make race). Many connections work on a whole server at the
// same time: outside of branches, in branches that are made, merged, parked and
// discarded, and in searches of all kinds. No operation may end in an internal
// error.
func TestRaces(t *testing.T) {
	for name, store := range branchStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lockedBuffer
			_, d := newBranched(t, store(t), directory.Options{Access: slog.New(slog.DiscardHandler), Log: slog.New(slog.NewTextHandler(&log, nil))})
			s := server.New(sessions{d, make(chan bool, 100)}, server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			defer s.Shutdown(t.Context())
			r := &racers{t: t, server: s}
			first := r.dial()
			first.ask(&op.Add{Name: "dc=example,dc=com", Attributes: values("objectClass", "domain")})
			for i := range 4 {
				first.ask(&op.Add{Name: racer(i), Attributes: attributes(lines("objectClass: inetOrgPerson\ncn: r\nsn: r"))})
			}
			watching := r.dial()
			go watching.ask(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(sn=*)")}, psearchControl())
			for i := range 2 {
				r.run(func(c *racing, round int) { c.outside(i, round) })
				r.run(func(c *racing, round int) { c.inBranch(2+i, fmt.Sprintf("b%d-%d", i, round)) })
				r.run(func(c *racing, _ int) { c.read() })
			}
			r.all.Wait()
			for line := range strings.Lines(log.take()) {
				if strings.Contains(line, "panic") || strings.Contains(line, "operation failed") {
					t.Error(line)
				}
			}
		})
	}
}

func racer(i int) string { return fmt.Sprintf("uid=r%d,dc=example,dc=com", i) }

type racers struct {
	t      *testing.T
	server *server.Server
	all    sync.WaitGroup
}

// racing is a connection that is bound as the administrator.
type racing struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (r *racers) dial() *racing {
	near, far := net.Pipe()
	go r.server.ServeConn(far)
	c := &racing{t: r.t, conn: near, in: bufio.NewReader(near)}
	r.t.Cleanup(func() { near.Close() })
	c.ask(everyRequest[0].request)
	return c
}

// run runs the rounds of one connection.
func (r *racers) run(round func(c *racing, n int)) {
	c := r.dial()
	r.all.Go(func() {
		for n := range *raceRounds {
			round(c, n)
		}
	})
}

// ask sends a request and waits for its result.
func (c *racing) ask(r op.Request, controls ...op.Control) (code op.Code) {
	m := &op.Message{ID: 1, Request: r, Controls: controls}
	if _, err := c.conn.Write(wiretest.AppendRequest(nil, m)); err != nil {
		return op.Unavailable // the server has stopped
	}
	for {
		a, err := wiretest.Read(c.in)
		if err != nil {
			return op.Unavailable
		}
		if a.Tag != 0x64 && a.Tag != 0x73 && a.Tag != 0x79 {
			return a.Response.Code
		}
	}
}

func (c *racing) outside(i, round int) {
	for k := range 3 {
		c.ask(&op.Modify{Name: racer(i), Changes: changes(lines(fmt.Sprintf("replace sn: %d-%d", round, k)))})
	}
	name := fmt.Sprintf("cn=%d-%d,dc=example,dc=com", i, round)
	c.ask(&op.Add{Name: name, Attributes: attributes(lines("objectClass: groupOfNames\nmember: " + racer(i)))})
	c.ask(&op.ModifyDN{Name: racer(i), NewRDN: fmt.Sprintf("uid=r%d", i), DeleteOldRDN: true})
	c.ask(&op.Delete{Name: name})
}

func (c *racing) inBranch(i int, branch string) {
	name := "cn=" + branch + ",cn=branches"
	in := op.Control{OID: control.OIDBranch, Critical: true, Value: []byte(branch)}
	c.ask(&op.Add{Name: name, Attributes: values("objectClass", "branch")})
	for k := range 3 {
		c.ask(&op.Modify{Name: racer(i), Changes: changes(lines(fmt.Sprintf("replace sn: %d", k)))}, in)
		c.ask(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(sn=1)")}, in)
	}
	c.ask(&op.Search{Base: "cn=branches", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)"), Attributes: []string{"*", "+"}})
	switch branch[len(branch)-1] % 3 {
	case 0:
		c.ask(mergeOf(name))
	case 1:
		c.ask(&op.Modify{Name: name, Changes: changes(lines("replace branchState: parked"))})
	}
	c.ask(&op.Delete{Name: name})
}

func (c *racing) read() {
	for _, f := range []string{"(sn=1)", "(objectClass=groupOfNames)", "(memberOf=*)"} {
		c.ask(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse(f), Attributes: []string{"*", "+", "memberOf"}})
	}
	c.ask(&op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(sn=*)")}, namedControl("sort sn"))
	c.ask(&op.Search{Base: "cn=monitor", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)")})
}
