package directory_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/directory/auth/authtest"
	"github.com/seed-4dac0d86/ldapd/dn/short"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

var (
	hostileFor  = flag.Duration("hostile", 5*time.Second, "how long TestHostileClients runs")
	hostileSeed = flag.Uint64("hostile.seed", 1, "seed of TestHostileClients")
)

// hostileRSS is the largest resident memory that TestHostileClients allows the server, in MiB.
const hostileRSS = 1024

// hostileServer is the environment variable that makes TestHostileServer serve.
const hostileServer = "LDAPD_HOSTILE_SERVER"

// TestHostileServer is the process that TestHostileClients attacks. It prints its address and
// serves until its input ends.
func TestHostileServer(t *testing.T) {
	if os.Getenv(hostileServer) == "" {
		t.Skip("it is a part of TestHostileClients")
	}
	debug.SetGCPercent(200) // as cmd/ldapd does
	debug.SetMemoryLimit(768 << 20)
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	d := newDirectory(t, newPartition(t), directory.Options{Access: slog.New(slog.NewJSONHandler(io.Discard, nil)), Log: logger,
		Slow: time.Nanosecond, Passwords: auth.New(0, authtest.Cheap)})
	session := d.NewSession(nil)
	for _, e := range everyRequest[:4] {
		session.Serve(t.Context(), &op.Message{ID: 1, Request: e.request}, discard{})
	}
	s := server.New(unwatched{d}, server.Options{Logger: logger})
	l, err := server.Listen("ldap://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(l)
	fmt.Println("address", l.Addr())
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestHostileClients sends random valid and hostile requests from 64 connections, with and without
// a bind. The memory of the server stays below a GiB, nothing panics, and afterwards every
// connection is served.
func TestHostileClients(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostileServer$")
	cmd.Env = append(os.Environ(), hostileServer+"=1")
	var log lockedBuffer
	cmd.Stderr = &log
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	addr := ""
	lines := bufio.NewScanner(out)
	for found := false; !found && lines.Scan(); {
		addr, found = strings.CutPrefix(lines.Text(), "address ")
	}
	before := rss(cmd.Process.Pid)
	var peak, sent atomic.Int64
	end := time.Now().Add(*hostileFor)
	var clients sync.WaitGroup
	for i := range uint64(64) {
		clients.Go(func() {
			h := &hostile{t: t, addr: addr, rand: rand.New(rand.NewPCG(*hostileSeed, i)), admin: i%4 == 0, sent: &sent}
			for time.Now().Before(end) {
				h.connection(end)
			}
		})
	}
	done := make(chan bool)
	go func() { clients.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
			peak.Store(max(peak.Load(), rss(cmd.Process.Pid)))
		}
	}
	t.Logf("%d requests, resident memory %d MiB before, at most %d MiB (seed %d)", sent.Load(), before, peak.Load(), *hostileSeed)
	if peak.Load() > hostileRSS {
		t.Errorf("resident memory was %d MiB, more than %d", peak.Load(), hostileRSS)
	}
	for range 64 {
		h := &hostile{t: t, addr: addr, admin: true}
		h.serves()
	}
	for line := range strings.Lines(log.take()) {
		if strings.Contains(line, "the client takes no more answers") {
			continue
		}
		if strings.Contains(line, "panic") || strings.Contains(line, "operation failed") || strings.Contains(line, "goroutine ") {
			t.Error(short.Text(line))
		}
	}
}

// unwatched makes a Directory a server.Handler.
type unwatched struct{ *directory.Directory }

func (p unwatched) NewSession(c *server.ConnInfo) server.Session { return p.Directory.NewSession(c) }

// rss returns the resident memory of a process in MiB, or 0 if it is not known.
func rss(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := strings.Fields(string(b)); len(fields) > 1 {
		pages, _ := strconv.ParseInt(fields[1], 10, 64)
		return pages * int64(os.Getpagesize()) >> 20
	}
	return 0
}

// A hostile client sends random requests.
type hostile struct {
	t     *testing.T
	addr  string
	rand  *rand.Rand
	admin bool
	sent  *atomic.Int64
}

// connection opens a connection, sends some requests, and closes it, most times without having
// read all answers.
func (h *hostile) connection(end time.Time) {
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		return
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(min(5*time.Second, time.Until(end)+time.Second)))
	if h.rand.IntN(8) > 0 {
		go io.Copy(io.Discard, nc) // the others read nothing
	}
	if h.admin {
		nc.Write(wiretest.AppendRequest(nil, &op.Message{ID: 1, Request: everyRequest[0].request}))
	}
	for id := int32(2); id < 12+h.rand.Int32N(50); id++ {
		b := wiretest.AppendRequest(nil, h.message(id))
		if h.rand.IntN(20) == 0 {
			b = b[:h.rand.IntN(len(b))] // part of a message
			nc.Write(b)
			time.Sleep(time.Duration(h.rand.IntN(300)) * time.Millisecond)
			return
		}
		if _, err := nc.Write(b); err != nil {
			return
		}
		h.sent.Add(1)
	}
}

// serves checks that a new connection is served.
func (h *hostile) serves() {
	nc, err := net.Dial("tcp", h.addr)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(nc)
	for id, request := range []op.Request{everyRequest[0].request, &op.Search{Base: "dc=example,dc=com", Filter: &filter.Present{Attribute: "objectClass"}}} {
		nc.Write(wiretest.AppendRequest(nil, &op.Message{ID: int32(id + 1), Request: request}))
		for {
			a, err := wiretest.Read(r)
			if err != nil {
				h.t.Errorf("after the hostile requests: %v", err)
				return
			}
			if a.Tag != 0x64 {
				if a.Response.Code != op.Success {
					h.t.Errorf("after the hostile requests: %+v", a.Response.Result)
				}
				break
			}
		}
	}
}

// size returns a random length, mostly small.
func (h *hostile) size() int {
	most := []int{10, 10, 10, 1000, 20_000, 200_000}
	if h.admin {
		most = append(most, 4_000_000)
	}
	return h.rand.IntN(most[h.rand.IntN(len(most))])
}

// text returns one of the texts that are costly for some parser.
func (h *hostile) text() string {
	if h.rand.IntN(3) == 0 {
		return "a"
	}
	return texts[textNames[h.rand.IntN(len(textNames))]](h.size())
}

var textNames = func() (names []string) {
	for name := range texts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}()

func (h *hostile) name() string {
	names := []string{"", "dc=example,dc=com", "ou=people,dc=example,dc=com", "cn=subschema", "cn=monitor", "cn=changelog", "cn=config", "cn=branches"}
	if h.rand.IntN(10) == 0 {
		return h.text()
	}
	return names[h.rand.IntN(len(names))]
}

func (h *hostile) attribute() string {
	names := []string{"cn", "member", "memberOf", "userPassword", "userCertificate", "uidNumber", "objectClass", "name", "seeAlso", "description",
		"createTimestamp", "entryDN", "entryUUID", "jpegPhoto", "cn;lang-en", "*", "+", "1.1", "@person"}
	if h.rand.IntN(20) == 0 {
		return texts[textNames[h.rand.IntN(len(textNames))]](h.rand.IntN(2000)) // there may be many
	}
	return names[h.rand.IntN(len(names))]
}

func (h *hostile) filter(depth int) filter.Filter {
	a, v := h.attribute(), []byte(h.text())
	switch h.rand.IntN(12) {
	case 0, 1:
		if depth > 3 {
			break
		}
		parts := make([]filter.Filter, h.rand.IntN(5))
		for i := range parts {
			parts[i] = h.filter(depth + 1)
		}
		if h.rand.IntN(2) == 0 {
			return filter.And(parts)
		}
		return filter.Or(parts)
	case 2:
		return filter.Or(slices.Repeat([]filter.Filter{&filter.Extensible{Rule: "2.5.13.2", Value: []byte("w")}}, min(h.size(), filter.MaxParts-1000)))
	case 3:
		return filter.Or(slices.Repeat([]filter.Filter{&filter.Equal{Attribute: "name", Value: []byte("w")}}, min(h.size(), filter.MaxParts-1000)))
	case 4:
		return &filter.Not{Filter: h.filter(depth + 1)}
	case 5:
		return &filter.Substrings{Attribute: a, Any: slices.Repeat([][]byte{v}, 1+h.rand.IntN(3))}
	case 6:
		return &filter.GreaterOrEqual{Attribute: a, Value: v}
	case 7:
		return &filter.Extensible{Attribute: a, Rule: "1.2.840.113556.1.4.1941", Value: v}
	case 8:
		return &filter.Present{Attribute: a}
	}
	return &filter.Equal{Attribute: a, Value: v}
}

func (h *hostile) values() []op.PartialAttribute {
	as := []op.PartialAttribute{{Description: "objectClass", Values: [][]byte{[]byte("device")}}}
	for range h.rand.IntN(4) {
		as = append(as, op.PartialAttribute{Description: h.attribute(), Values: slices.Repeat([][]byte{[]byte(h.text())}, 1+h.rand.IntN(3))})
	}
	return as
}

func (h *hostile) message(id int32) *op.Message {
	m := &op.Message{ID: id}
	switch h.rand.IntN(12) {
	case 0:
		m.Request = &op.Compare{Name: h.name(), Description: h.attribute(), Value: []byte(h.text())}
	case 1:
		m.Request = &op.Add{Name: "cn=" + strconv.Itoa(h.rand.IntN(1000)) + "," + h.name(), Attributes: h.values()}
	case 2:
		var changes []op.Modification
		for _, a := range h.values() {
			changes = append(changes, op.Modification{Kind: op.ModKind(h.rand.IntN(4)), PartialAttribute: a})
		}
		m.Request = &op.Modify{Name: h.name(), Changes: changes}
	case 3:
		m.Request = &op.ModifyDN{Name: h.name(), NewRDN: h.text()}
	case 4:
		m.Request = &op.Abandon{MessageID: id - 1}
	case 5:
		oids := []string{control.OIDWhoAmI, control.OIDPasswordModify, control.OIDStartTransaction, control.OIDEndTransaction, control.OIDCancel, "1.2.3"}
		m.Request = &op.Extended{OID: oids[h.rand.IntN(len(oids))], Value: []byte(h.text())}
	case 6:
		if !h.admin {
			m.Request = &op.Bind{Version: 3, Name: h.name(), Password: []byte(h.text())}
			break
		}
		fallthrough
	default:
		attributes := make([]string, min(h.size(), 3000))
		for i := range attributes {
			attributes[i] = h.attribute()
		}
		m.Request = &op.Search{Base: h.name(), Scope: op.Scope(h.rand.IntN(4)), Deref: op.Deref(h.rand.IntN(4)), Filter: h.filter(0), Attributes: attributes, TimeLimit: 2}
	}
	for range h.rand.IntN(3) {
		m.Controls = append(m.Controls, op.Control{OID: controlOIDs[h.rand.IntN(len(controlOIDs))], Critical: h.rand.IntN(2) == 0, Value: h.controlValue()})
	}
	return m
}

var controlOIDs = func() (oids []string) {
	for oid := range directory.Controls(nil) {
		oids = append(oids, oid)
	}
	slices.Sort(oids)
	return oids
}()

func (h *hostile) controlValue() []byte {
	switch h.rand.IntN(6) {
	case 0:
		return nil
	case 1:
		list := ber.AppendString(nil, ber.OctetString, "member")
		names := slices.Repeat(ber.AppendString(nil, ber.OctetString, "cn"), h.size()/4)
		list = ber.AppendString(list, ber.Sequence, names)
		return ber.AppendString(nil, ber.Sequence, ber.AppendString(nil, ber.Sequence, list))
	case 2:
		return ber.AppendString(nil, ber.Sequence, wire.AppendFilter(nil, h.filter(2)))
	case 3:
		return wire.AppendFilter(nil, h.filter(0))
	case 4:
		return []byte("0\x06\x02\x01\x0a\x04\x01a")
	}
	return []byte(h.text())
}
