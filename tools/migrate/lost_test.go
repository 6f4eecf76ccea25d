package migrate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// following copies o into a new directory that then follows o.
func (o *old) following() *moving {
	o.t.Helper()
	m := o.move(newPartition(o.t))
	_, _, err := m.Copy(context.Background(), true)
	must(o.t, err)
	return m
}

// event returns an event with the current form of an entry.
func (o *old) event(m *moving, name string) *event {
	o.t.Helper()
	e, err := m.link.src.read(context.Background(), name)
	must(o.t, err)
	c, err := m.translation().translate(e)
	must(o.t, err)
	return &event{entry: e, id: c.id}
}

// cookie returns the server's current cookie.
func (o *old) cookie() []byte {
	o.t.Helper()
	m := o.following()
	return m.place.cursor.Cookies[suffix]
}

// TestBatchLost loses a batch whose last event has a cookie. In one case the context ends
// before the commit. In the other case the directory refuses the batch, and then the connection
// link.ask is lost. The next refresh must copy the changes of the batch.
func TestBatchLost(t *testing.T) {
	for _, lost := range []string{"context", "connection"} {
		t.Run(lost, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			o := newOld(t)
			m := o.following()
			o.add("ou=new,"+suffix, "objectClass: organizationalUnit")
			o.add("cn=x,ou=new,"+suffix, "objectClass: device")
			batch := []*event{o.event(m, "cn=x,ou=new,"+suffix), {cookie: o.cookie()}} // the batch has no event for ou=new
			if lost == "context" {
				batch = slices.Insert(batch, 0, o.event(m, "ou=new,"+suffix))
				cancel()
			} else {
				m.link.ask.Close()
			}
			r := &refresh{m: m.Move, base: suffix, done: true}
			if err := r.take(ctx, batch); err == nil {
				t.Fatal("the batch was copied")
			}
			must(t, m.link.reconnect(context.Background(), 0))
			must(t, m.CatchUp(context.Background()))
			m.differences(o)
		})
	}
}

// TestDisplacedAndKilled ends a process after it has deleted a subtree to make room for
// an entry. The next process must copy the subtree again.
func TestDisplacedAndKilled(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	o.person("a")
	m := o.following()
	people := o.event(m, "ou=people,"+suffix)
	name, err := dn.Parse("ou=people," + suffix)
	must(t, err)
	must(t, m.writer.displace(ctx, &occupied{people.id, name}, entry.NewID(), map[entry.ID]bool{people.id: true}))
	next := o.move(m.p)
	must(t, next.Resume(ctx))
	must(t, next.CatchUp(ctx))
	next.differences(o)
}

// TestBelowItsOldName moves an entry below a new entry that has the old name of the first one.
// The first entry cannot be moved while the new one is missing, and the new one cannot be added
// while the first one has its name. The two are copied in both orders.
func TestBelowItsOldName(t *testing.T) {
	for _, first := range []string{"ou=a," + suffix, "ou=b,ou=a," + suffix} {
		ctx := context.Background()
		o := newOld(t)
		o.add("ou=a,"+suffix, "objectClass: organizationalUnit")
		o.add("ou=child,ou=a,"+suffix, "objectClass: organizationalUnit")
		m := o.following()
		must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("ou=a,"+suffix, "ou=b", true, "")))
		o.add("ou=a,"+suffix, "objectClass: organizationalUnit")
		must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("ou=b,"+suffix, "ou=b", true, "ou=a,"+suffix)))
		c, err := m.translation().translate(o.event(m, first).entry)
		must(t, err)
		must(t, m.writer.one(ctx, action{put: c}, map[entry.ID]bool{}))
		if len(m.left) > 0 {
			t.Errorf("%s: left out: %v", first, m.left)
		}
		must(t, m.CatchUp(ctx))
		m.differences(o)
	}
}

// TestFinishSeesLate makes a change while Finish waits for Quiet. After the change, the
// directory and the server differ. If the directory refuses the change, Finish must
// report the difference. If the change deletes an entry of the directory, Finish must
// copy the entry again.
func TestFinishSeesLate(t *testing.T) {
	for _, c := range []struct {
		name, want string
		wait       time.Duration // how long Quiet waits for the change to be copied
		do         func(o *old, m *moving)
	}{
		{"refused addition", "there only: ou=odd," + suffix, 0, func(o *old, _ *moving) {
			o.add("ou=odd,"+suffix, "objectClass: organizationalUnit", "objectClass: extensibleObject", "strange: x")
		}},
		{"refused change", "different: cn=a,ou=people," + suffix, time.Second, func(o *old, _ *moving) {
			r := ldap.NewModifyRequest("cn=a,ou=people,"+suffix, nil)
			r.Add("objectClass", []string{"extensibleObject"})
			r.Add("strange", []string{"x"})
			must(o.t, o.conn.Modify(r))
		}},
		{"deleted here", "", 0, func(o *old, m *moving) {
			name, err := dn.Parse("cn=a,ou=people," + suffix)
			must(o.t, err)
			_, err = write.Update(context.Background(), m.p, partition.By{}, func(tx *partition.Tx) error { return tx.Delete(context.Background(), name) })
			must(o.t, err)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOld(t)
			o.person("a")
			m := o.following()
			o.define("( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
			r, err := m.Finish(context.Background(), FinishOptions{Quiet: func(context.Context) error {
				c.do(o, m)
				time.Sleep(c.wait)
				return nil
			}})
			if c.want == "" {
				must(t, err)
				m.differences(o)
				return
			}
			must2(t, err, ErrDifferent)
			if r == nil || len(r.Differences) != 1 || !strings.HasPrefix(r.Differences[0].String(), c.want) {
				t.Errorf("%v, wanted %s", r, c.want)
			}
			if Followed(m.p) == nil {
				t.Error("it no longer follows")
			}
		})
	}
}

// TestMissed changes entries at the server while nobody follows. A comparison of all entries
// must find the changes and copy them, except an entry that the directory refuses.
func TestMissed(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	for _, name := range []string{"a", "b", "c", "e", "f"} {
		o.person(name)
	}
	o.add("ou=old,ou=people,"+suffix, "objectClass: organizationalUnit")
	o.add("cn=y,ou=old,ou=people,"+suffix, "objectClass: device")
	m := o.following()
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // modifyTimestamp counts seconds
	o.describe("e", "changed")
	must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=f,ou=people,"+suffix, "cn=g", true, "")))
	must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("ou=old,ou=people,"+suffix, "ou=new", true, suffix)))
	for _, name := range []string{"a", "b"} {
		must(t, o.conn.Del(ldap.NewDelRequest("cn="+name+",ou=people,"+suffix, nil)))
	}
	o.person("b") // another entry with the name of the deleted one
	o.person("d")
	o.add("ou=deep,ou=people,"+suffix, "objectClass: organizationalUnit")
	o.add("cn=x,ou=deep,ou=people,"+suffix, "objectClass: device")
	o.define("( 1.3.6.1.4.1.99999.1 NAME 'strange' SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )")
	o.add("ou=odd,"+suffix, "objectClass: organizationalUnit", "objectClass: extensibleObject", "strange: x")
	c := newComparison(m.Move)
	r := c.report
	must(t, c.missed(ctx))
	if len(r.Differences) != 1 || r.Differences[0].Name != "ou=odd,"+suffix {
		t.Errorf("still different: %v", r.Differences)
	}
	m.differences(o, "there only: ou=odd,"+suffix+`: attribute type "strange" is not in the schema`)
	must(t, c.missed(ctx))
	if len(r.Differences) != 1 {
		t.Errorf("found twice: %v", r.Differences)
	}
}

// TestOldNames compares with a server that shows two entries by wrong names. One of the
// two can also be found by its right name. Only the other entry may count as different.
// 389 shows an entry below the old name of its parent, after the parent was renamed.
func TestOldNames(t *testing.T) {
	o := newOld(t)
	for _, name := range []string{"a", "b", "c"} {
		o.person(name)
	}
	m := o.following()
	must(t, o.conn.ModifyDN(ldap.NewModifyDNRequest("cn=c,ou=people,"+suffix, "cn=d", true, "")))
	o.mu.Lock()
	o.rewrite = func(b []byte) []byte {
		for _, name := range []string{"cn=a", "cn=d"} {
			b = bytes.ReplaceAll(b, []byte(name+",ou=people"), []byte(name+",ou=planet"))
		}
		return b
	}
	o.mu.Unlock()
	must(t, m.link.reconnect(context.Background(), 0))
	c := newComparison(m.Move)
	r := c.report
	must(t, c.all(context.Background(), 1))
	if len(r.Differences) != 1 || !strings.HasPrefix(r.Differences[0].String(), "different: cn=d,ou=planet,"+suffix+": its name, cn") || r.Both != 5 {
		t.Errorf("%v: %v", r, r.Differences)
	}
	must(t, c.mend(context.Background()))
	if len(r.Differences) != 1 || !slices.Equal(m.left, []string{"cn=d,ou=planet," + suffix + ": the entry above it does not exist"}) {
		t.Errorf("%v, left out: %v", r.Differences, m.left)
	}
}

// TestFinishAfterIdle makes the server close all connections while Finish waits. Finish
// must succeed.
func TestFinishAfterIdle(t *testing.T) {
	o := newOld(t)
	m := o.following()
	r, err := m.Finish(context.Background(), FinishOptions{Quiet: func(context.Context) error {
		o.cutAll()
		o.person("late")
		time.Sleep(2500 * time.Millisecond) // in this time the changed entries are compared
		o.cutAll()
		o.person("last")
		return nil
	}})
	must(t, err)
	if len(r.Differences) > 0 || Followed(m.p) != nil {
		t.Errorf("%v, follows %v", r.Differences, Followed(m.p))
	}
	m.differences(o)
}

// TestNoIDs refreshes from a server that shows no entryUUID. Entries must be found by their
// names: the refresh must copy the changed entry, and must delete the entry that the server
// does not show.
func TestNoIDs(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	o.person("a")
	o.person("b")
	m := o.following()
	m.link.src.synced = false
	o.describe("a", "changed")
	var batch []*event
	for _, name := range []string{suffix, "ou=people," + suffix, "cn=a,ou=people," + suffix} {
		ev := o.event(m, name)
		ev.id = entry.Root
		ev.entry.Attributes = slices.DeleteFunc(ev.entry.Attributes, func(a *ldap.EntryAttribute) bool { return a.Name == "entryUUID" })
		batch = append(batch, ev)
	}
	r := &refresh{m: m.Move, base: suffix}
	must(t, r.take(ctx, append(batch, &event{refreshed: &refreshed{present: true, done: true}})))
	must(t, o.conn.Del(ldap.NewDelRequest("cn=b,ou=people,"+suffix, nil)))
	m.differences(o)
}

// TestNestedBases refreshes a base. Below this base is another base, which the server keeps in
// a separate database. The refresh must not delete the entries of the other base.
func TestNestedBases(t *testing.T) {
	ctx := context.Background()
	o := newOld(t)
	o.person("a")
	m := o.following()
	m.link.src.Bases = []string{suffix, "ou=people," + suffix}
	m.link.ask.Bases = m.link.src.Bases
	r := &refresh{m: m.Move, base: suffix}
	must(t, r.take(ctx, []*event{o.event(m, suffix), {refreshed: &refreshed{present: true, done: true}}}))
	m.differences(o)
	report, err := m.Compare(ctx, 0)
	must(t, err)
	if report.Both != 3 || len(report.Differences) > 0 {
		t.Errorf("%v: %v", report, report.Differences)
	}
}

// TestHanging searches at a server that never answers. The search must end when its
// context ends.
func TestHanging(t *testing.T) {
	here, there := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, there) }()
	c := ldap.NewConn(here, false)
	c.Start()
	s := &Source{conn: c, Bases: []string{suffix}}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.read(ctx, suffix); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// script returns a Source that is connected to a server which answers each search with the
// same messages.
func script(t *testing.T, answers ...func(id int64) *ber.Packet) *Source {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close() })
	go func() {
		for {
			p, err := ber.ReadPacket(there)
			if err != nil {
				return
			}
			for _, a := range answers {
				if _, err := there.Write(a(p.Children[0].Value.(int64)).Bytes()); err != nil {
					return
				}
			}
		}
	}()
	c := ldap.NewConn(here, false)
	c.Start()
	return &Source{conn: c, Bases: []string{suffix}, synced: true, root: &ldap.Entry{}, references: &references{seen: map[string]bool{}}}
}

func message(id int64, op *ber.Packet) *ber.Packet {
	m := ber.NewSequence("")
	m.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, id, ""))
	m.AppendChild(op)
	return m
}

func reference(id int64) *ber.Packet {
	op := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultReference, nil, "")
	op.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, "ldap://other/ou=there", ""))
	return message(id, op)
}

func success(id int64) *ber.Packet {
	op := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultDone, nil, "")
	op.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, 0, ""))
	op.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, "", ""))
	op.AppendChild(ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, "", ""))
	return message(id, op)
}

// TestReferences reads a subtree that has a reference to another server. The reference must
// be noted once. The server ends a synchronization without a Sync Done control, so it
// must count as a server without synchronization.
func TestReferences(t *testing.T) {
	ctx := context.Background()
	s := script(t, reference, reference, success)
	var notes []string
	s.references.note = func(text string) { notes = append(notes, text) }
	must2(t, s.events(ctx, suffix, nil, true, func(*event) error { return nil }), errNoSync)
	must(t, s.All(ctx, suffix, wanted, func(*ldap.Entry) error { return nil }))
	if len(notes) != 1 || !strings.Contains(notes[0], "ldap://other/ou=there: the entries there are neither copied nor compared") {
		t.Errorf("%q", notes)
	}
}

// TestBeginsAgain uses a server that answers every attempt with the demand to begin the
// synchronization anew. The second attempt must follow at once, and later attempts after
// pauses.
func TestBeginsAgain(t *testing.T) {
	m := newOld(t).following()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	n := 0
	must2(t, m.retry(ctx, isLost, func(context.Context) error { n++; return errReload }), context.DeadlineExceeded)
	if n < 3 || n > 10 {
		t.Errorf("%d attempts", n)
	}
}
