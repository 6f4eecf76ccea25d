package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/server"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

const (
	suffix   = "dc=example,dc=com"
	admin    = "cn=admin"
	password = "secret"
	hash     = "{SSHA}y+dX0kZIbVwVNdDNg5T1bjbFH+F/+wKO"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPartition(t testing.TB) *partition.Partition {
	t.Helper()
	ctx := context.Background()
	s, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	must(t, err)
	p, err := partition.Open(ctx, s, partition.Options{Create: true, Cache: 8 << 20})
	must(t, err)
	t.Cleanup(func() {
		p.Close(ctx)
		s.Close()
	})
	return p
}

// The type old is a server from which a directory is moved, behind a proxy that can cut its
// connections.
type old struct {
	t    testing.TB
	addr string // address of the proxy
	real string
	conn *ldap.Conn // the administrator's connection, which bypasses the proxy

	mu      sync.Mutex
	cut     int64               // number of bytes after which a connection is cut; 0: never
	rewrite func([]byte) []byte // changes what the server sends, if it is not nil
	open    []net.Conn
}

type handler struct{ d *directory.Directory }

func (h handler) NewSession(c *server.ConnInfo) server.Session { return h.d.NewSession(c) }

func newOld(t testing.TB) *old {
	t.Helper()
	p := newPartition(t)
	must(t, onlineschema.SetSuffixes(context.Background(), p, []string{suffix}))
	d, err := directory.New(p, directory.Options{Admin: admin, AdminPassword: hash})
	must(t, err)
	s := server.New(handler{d}, server.Options{Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go s.Serve(l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		d.Close()
	})
	o := &old{t: t, real: l.Addr().String()}
	o.proxy()
	o.conn, err = ldap.DialURL("ldap://" + o.real)
	must(t, err)
	t.Cleanup(func() { o.conn.Close() })
	must(t, o.conn.Bind(admin, password))
	o.add(suffix, "objectClass: domain", "dc: example")
	o.add("ou=people,"+suffix, "objectClass: organizationalUnit")
	return o
}

// proxy listens, and passes connections on.
func (o *old) proxy() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(o.t, err)
	o.t.Cleanup(func() { l.Close() })
	o.addr = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.pass(c)
		}
	}()
}

func (o *old) pass(c net.Conn) {
	s, err := net.Dial("tcp", o.real)
	if err != nil {
		c.Close()
		return
	}
	o.mu.Lock()
	cut, rewrite := o.cut, o.rewrite
	o.open = append(o.open, c, s)
	o.mu.Unlock()
	end := func() {
		c.Close()
		s.Close()
	}
	go func() {
		defer end()
		_, _ = io.Copy(s, c)
	}()
	go func() {
		defer end()
		var from io.Reader = s
		if cut > 0 {
			from = io.LimitReader(s, cut)
		}
		if rewrite != nil {
			from = &rewriter{from, rewrite}
		}
		_, _ = io.Copy(c, from)
	}()
}

// A rewriter passes what it reads through a function that keeps the length.
type rewriter struct {
	io.Reader
	rewrite func([]byte) []byte
}

func (r *rewriter) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	copy(b, r.rewrite(b[:n]))
	return n, err
}

// cutAll cuts all connections.
func (o *old) cutAll() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.open {
		c.Close()
	}
	o.open = nil
}

func (o *old) cutAfter(n int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cut = n
}

func (o *old) add(name string, lines ...string) {
	o.t.Helper()
	r := ldap.NewAddRequest(name, nil)
	for _, l := range lines {
		a, v, _ := strings.Cut(l, ": ")
		r.Attribute(a, []string{v})
	}
	must(o.t, o.conn.Add(r))
}

func (o *old) person(name string) {
	o.t.Helper()
	o.add("cn="+name+",ou=people,"+suffix, "objectClass: person", "sn: x", "userPassword: "+hash)
}

func (o *old) describe(name, text string) {
	o.t.Helper()
	r := ldap.NewModifyRequest("cn="+name+",ou=people,"+suffix, nil)
	r.Replace("description", []string{text})
	must(o.t, o.conn.Modify(r))
}

// move returns a Move from the server into p.
func (o *old) move(p *partition.Partition) *moving {
	o.t.Helper()
	src, err := Look(bulk.Remote{URL: "ldap://" + o.addr, BindDN: admin, Password: password}, nil)
	must(o.t, err)
	m := &moving{t: o.t}
	m.Move, err = New(p, src, Options{
		By: partition.By{Name: "cn=mover"}, Every: 80 * time.Millisecond,
		Note:    func(string) {},
		LeftOut: func(name, why string) { m.left = append(m.left, name+": "+why) },
	})
	must(o.t, err)
	o.t.Cleanup(m.Close)
	return m
}

type moving struct {
	*Move
	t    testing.TB
	left []string
}

// follow follows in the background until stop is called. It returns when the directory has
// caught up.
func (m *moving) follow() (stop func() error) {
	m.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	caught, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- m.Follow(ctx, func() {
			select {
			case caught <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-caught:
	case err := <-ended:
		m.t.Fatal("following ended: ", err)
	case <-time.After(time.Minute):
		m.t.Fatal("it does not catch up")
	}
	return func() error {
		cancel(errStopped)
		return <-ended
	}
}

// equal waits until the directory is equal to the server.
func (m *moving) equal(o *old) {
	m.t.Helper()
	other := o.move(m.p)
	defer other.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		r, err := other.Compare(context.Background(), 0)
		must(m.t, err)
		if len(r.Differences) == 0 {
			return
		}
		if time.Now().After(end) {
			m.t.Fatalf("%v", r.Differences)
		}
	}
}

func (m *moving) differences(o *old, want ...string) {
	m.t.Helper()
	other := o.move(m.p)
	defer other.Close()
	r, err := other.Compare(context.Background(), 0)
	must(m.t, err)
	var got []string
	for _, d := range r.Differences {
		// Times have a resolution of a second, so changes within one second may have equal
		// times.
		got = append(got, strings.NewReplacer(", createTimestamp", "", ", modifyTimestamp", "").Replace(d.String()))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		m.t.Errorf("differences:\n%s\nwanted:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCopy copies a directory. The copies must have the ids, times, creators and
// passwords of the originals.
func TestCopy(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	for i := range 300 {
		o.person(fmt.Sprint("p", i))
	}
	p := newPartition(t)
	m := o.move(p)
	n, _, err := m.Copy(ctx, false)
	must(t, err)
	if n != 302 {
		t.Errorf("%d entries", n)
	}
	m.differences(o)
	if Followed(p) != nil {
		t.Error("the directory follows")
	}
	if _, _, err := o.move(p).Copy(ctx, false); err == nil || !strings.Contains(err.Error(), "has an entry "+suffix+" already") {
		t.Errorf("a second copy: %v", err)
	}
}

// TestCompareReports checks that each kind of difference is reported, and that a report
// contains no values.
func TestCompareReports(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	for _, n := range []string{"a", "b", "c", "d"} {
		o.person(n)
	}
	p := newPartition(t)
	m := o.move(p)
	_, _, err := m.Copy(ctx, false)
	must(t, err)
	o.person("new")
	o.describe("a", "private")
	must(t, o.conn.Del(ldap.NewDelRequest("cn=b,ou=people,"+suffix, nil)))
	must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=c,ou=people,"+suffix, "cn=other", false, "")))
	must(t, o.conn.Del(ldap.NewDelRequest("cn=d,ou=people,"+suffix, nil)))
	o.person("d")
	m.differences(o,
		"different: cn=a,ou=people,"+suffix+": description",
		"different: cn=d,ou=people,"+suffix+": entryUUID",
		"different: cn=other,ou=people,"+suffix+": its name, cn",
		"here only: cn=b,ou=people,"+suffix,
		"there only: cn=new,ou=people,"+suffix)
}

// TestFollow follows a server through changes of each kind, with and without content
// synchronization and paged results.
func TestFollow(t *testing.T) {
	for _, offers := range []string{"all", "no synchronization", "no synchronization and no pages"} {
		t.Run(offers, func(t *testing.T) {
			ctx := context.Background()
			o := newOld(t)
			for i := range 20 {
				o.person(fmt.Sprint("p", i))
			}
			m := o.move(newPartition(t))
			m.link.src.synced, m.link.src.paged = offers == "all", offers != "no synchronization and no pages"
			_, _, err := m.Copy(ctx, true)
			must(t, err)
			stop := m.follow()
			o.change()
			m.equal(o)
			if err := stop(); !errors.Is(err, errStopped) {
				t.Error(err)
			}
			must(t, o.conn.Del(ldap.NewDelRequest("cn=p9,ou=people,"+suffix, nil)))
			o.describe("p10", "while nobody follows")
			again := o.move(m.p)
			must(t, again.Resume(ctx))
			must(t, again.CatchUp(ctx))
			again.differences(o)
		})
	}
}

// change makes changes of all kinds. For example, an entry gets the name that another
// entry had before, and trees are moved and deleted.
func (o *old) change() {
	o.t.Helper()
	o.describe("p1", "one")
	o.person("new")
	must(o.t, o.conn.Del(ldap.NewDelRequest("cn=p2,ou=people,"+suffix, nil)))
	o.person("p2")
	must(o.t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=p3,ou=people,"+suffix, "cn=was p3", true, "")))
	must(o.t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=p4,ou=people,"+suffix, "cn=p3", true, "")))
	o.add("ou=tree,"+suffix, "objectClass: organizationalUnit")
	o.add("ou=branch,ou=tree,"+suffix, "objectClass: organizationalUnit")
	must(o.t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=p5,ou=people,"+suffix, "cn=p5", true, "ou=branch,ou=tree,"+suffix)))
	must(o.t, o.conn.ModifyDN(ldap.NewModifyDNRequest("ou=branch,ou=tree,"+suffix, "ou=bough", true, "ou=people,"+suffix)))
	must(o.t, o.conn.Del(ldap.NewDelRequest("ou=tree,"+suffix, nil)))
	r := ldap.NewModifyRequest("cn=p6,ou=people,"+suffix, nil)
	r.Add("objectClass", []string{"uidObject"})
	r.Add("uid", []string{"six"})
	r.Replace("userPassword", []string{"{SSHA}AAAA"})
	must(o.t, o.conn.Modify(r))
	o.describe("p7", "for a moment")
	r = ldap.NewModifyRequest("cn=p7,ou=people,"+suffix, nil)
	r.Delete("description", nil)
	r.Delete("userPassword", nil)
	must(o.t, o.conn.Modify(r))
}

// TestNamesExchanged exchanges the names of two entries while nobody follows. So neither
// entry can be renamed before the other.
func TestNamesExchanged(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	o.person("a")
	o.person("b")
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	for _, r := range [][2]string{{"a", "c"}, {"b", "a"}, {"c", "b"}} {
		must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn="+r[0]+",ou=people,"+suffix, "cn="+r[1], true, "")))
	}
	must(t, m.CatchUp(ctx))
	m.differences(o)
}

// TestRefused copies and follows entries that the schema of the directory refuses. They
// must be left out, together with the entries below them, and reported. When the
// directory accepts such an entry later, it must appear.
func TestRefused(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	o.define("( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	o.add("ou=odd,"+suffix, "objectClass: organizationalUnit", "objectClass: extensibleObject", "strange: x")
	o.add("cn=below,ou=odd,"+suffix, "objectClass: device")
	m := o.move(newPartition(t))
	must(t, m.place.begin(ctx, m.link.src.following())) // the schema is not copied
	_, err := m.load(ctx)
	must(t, err)
	if len(m.left) != 2 {
		t.Errorf("left out: %q", m.left)
	}
	unknown := `there only: ou=odd,` + suffix + `: attribute type "strange" is not in the schema`
	m.differences(o, "there only: cn=below,ou=odd,"+suffix+": the entry above it is left out", unknown)
	stop := m.follow()
	r := ldap.NewModifyRequest("ou=odd,"+suffix, nil)
	r.Delete("strange", nil)
	must(t, o.conn.Modify(r))
	r = ldap.NewModifyRequest("cn=below,ou=odd,"+suffix, nil)
	r.Replace("description", []string{"again"})
	must(t, o.conn.Modify(r))
	m.equal(o)
	must2(t, stop(), errStopped)
}

func must2(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, wanted %v", err, want)
	}
}

// define adds an attribute type to the schema of the server.
func (o *old) define(text string) {
	o.t.Helper()
	r := ldap.NewModifyRequest("cn=Subschema", nil)
	r.Add("attributeTypes", []string{text})
	must(o.t, o.conn.Modify(r))
}

// TestSchema copies entries with definitions that the directory lacks.
func TestSchema(t *testing.T) {
	o := newOld(t)
	o.define("( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	o.add("ou=odd,"+suffix, "objectClass: organizationalUnit", "objectClass: extensibleObject", "strange: x")
	m := o.move(newPartition(t))
	_, _, err := m.Copy(context.Background(), false)
	must(t, err)
	m.differences(o)
}

// TestCutWhileCopying cuts the connection in the middle of a copy. The copy must return an
// error, and the next attempt must copy everything.
func TestCutWhileCopying(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	for i := range 400 {
		o.person(fmt.Sprint("p", i))
	}
	for _, synced := range []bool{true, false} {
		p := newPartition(t)
		m := o.move(p)
		m.link.src.synced = synced
		o.cutAfter(100_000)
		src, err := m.link.src.Again()
		must(t, err)
		o.cutAfter(0)
		m.link.src.Close()
		m.link.src = src
		must(t, m.place.begin(ctx, m.link.src.following()))
		if n, err := m.load(ctx); err == nil {
			t.Errorf("synchronized %v: %d entries were copied over a connection that was cut", synced, n)
		}
		m = o.move(p)
		must(t, m.Resume(ctx))
		must(t, m.CatchUp(ctx))
		m.differences(o)
	}
}

// TestClosedConnection searches over a closed connection. The client library reports no
// error for such a search, so the empty answer must not be believed.
func TestClosedConnection(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	m := o.move(newPartition(t))
	m.link.src.Close()
	nothing := func(*event) error { return nil }
	for _, synced := range []bool{true, false} {
		m.link.src.synced = synced
		if err := m.link.src.events(ctx, suffix, nil, false, nothing); !isLost(err) {
			t.Errorf("synchronized %v: %v", synced, err)
		}
	}
}

// TestCutWhileFollowing cuts the connections again and again while a client writes. In the end
// the directory must be equal to the server.
func TestCutWhileFollowing(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	stop := m.follow()
	for i := range 60 {
		o.person(fmt.Sprint("p", i))
		if i%3 == 0 {
			must(t, o.conn.Del(ldap.NewDelRequest(fmt.Sprintf("cn=p%d,ou=people,%s", i, suffix), nil)))
		}
		if i%10 == 0 {
			o.cutAll()
		}
	}
	m.equal(o)
	must2(t, stop(), errStopped)
}

// TestEmptyAnswer refreshes from a server that shows no entries. Nothing must be deleted.
func TestEmptyAnswer(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	r := &refresh{m: m.Move, base: suffix}
	err = r.take(ctx, []*event{{refreshed: &refreshed{present: true, done: true}}})
	if err == nil || !strings.Contains(err.Error(), "nothing is deleted") {
		t.Error(err)
	}
	m.differences(o)
}

// TestOneFollows makes two processes follow with the same store. The first must give way
// to the second.
func TestOneFollows(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	p := newPartition(t)
	first := o.move(p)
	_, _, err := first.Copy(ctx, true)
	must(t, err)
	second := o.move(p)
	must(t, second.Resume(ctx))
	o.person("x")
	must2(t, first.CatchUp(ctx), ErrTaken)
	must(t, second.CatchUp(ctx))
	second.differences(o)
	must(t, Cancel(ctx, p, partition.By{}))
	o.person("y")
	must2(t, second.CatchUp(ctx), ErrEnded)
	must2(t, o.move(p).Resume(ctx), ErrEnded)
}

// TestFinish calls Finish while a client writes to the old server, until Quiet returns.
// Afterwards the directory must equal the server and follow it no longer.
func TestFinish(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	for i := range 50 {
		o.person(fmt.Sprint("p", i))
	}
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				o.describe(fmt.Sprint("p", i%50), fmt.Sprint(i))
			}
		}
	})
	r, err := m.Finish(ctx, FinishOptions{Quiet: func(context.Context) error {
		time.Sleep(50 * time.Millisecond)
		close(done)
		wg.Wait()
		return nil
	}})
	must(t, err)
	if r.Both != 52 || len(r.Differences) > 0 {
		t.Errorf("%v: %v", r, r.Differences)
	}
	if Followed(m.p) != nil {
		t.Error("it follows")
	}
	m.differences(o)
}

// TestFinishDifferent checks that Finish fails while an entry is left out, unless
// Different is set.
func TestFinishDifferent(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	o.define("( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	o.add("ou=odd,"+suffix, "objectClass: organizationalUnit", "objectClass: extensibleObject", "strange: x")
	quiet := func(context.Context) error { return nil }
	_, err = m.Finish(ctx, FinishOptions{Quiet: quiet})
	must2(t, err, ErrDifferent)
	if Followed(m.p) == nil {
		t.Fatal("it no longer follows")
	}
	r, err := m.Finish(ctx, FinishOptions{Quiet: quiet, Different: true})
	must(t, err)
	if len(r.Differences) != 1 || Followed(m.p) != nil {
		t.Errorf("%v, follows %v", r.Differences, Followed(m.p))
	}
}

// TestUpdatesAreReferred checks that, while the directory follows, a server refers updates of
// entries but accepts updates of the schema. After Cancel, the server must accept updates of
// entries too.
func TestUpdatesAreReferred(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	m := o.move(newPartition(t))
	_, _, err := m.Copy(ctx, true)
	must(t, err)
	d, err := directory.New(m.p, directory.Options{Admin: admin, AdminPassword: hash})
	must(t, err)
	defer d.Close()
	s := server.New(handler{d}, server.Options{Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	go s.Serve(l)
	defer s.Shutdown(ctx)
	c, err := ldap.DialURL("ldap://" + l.Addr().String())
	must(t, err)
	defer c.Close()
	must(t, c.Bind(admin, password))
	r := ldap.NewModifyRequest(suffix, nil)
	r.Replace("description", []string{"x"})
	var e *ldap.Error
	if err := c.Modify(r); !errors.As(err, &e) || e.ResultCode != uint16(op.Referral) {
		t.Errorf("a modify: %v", err)
	}
	if err := c.Del(ldap.NewDelRequest("ou=people,"+suffix, nil)); !errors.As(err, &e) || e.ResultCode != uint16(op.Referral) {
		t.Errorf("a delete: %v", err)
	}
	schema := ldap.NewModifyRequest("cn=Subschema", nil)
	schema.Add("attributeTypes", []string{"( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"})
	must(t, c.Modify(schema))
	must(t, Cancel(ctx, m.p, partition.By{}))
	must(t, c.Modify(r))
}
