package directory

import (
	"strings"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/revision"
)

// Content synchronization (RFC 4533): what its messages look like. What they
// say is in synchronize.go.
const (
	syncRequest = "1.3.6.1.4.1.4203.1.9.1.1"
	syncState   = "1.3.6.1.4.1.4203.1.9.1.2"
	syncDone    = "1.3.6.1.4.1.4203.1.9.1.3"
	syncInfo    = "1.3.6.1.4.1.4203.1.9.1.4"
)

// Modes of a sync request.
const (
	refreshOnly       = 1
	refreshAndPersist = 3
)

// synced is the value of a sync request control.
type synced struct {
	persist bool
	cookie  cookie
	reload  bool // rather than syncRefreshRequired
}

func takeSync(o *operation, _ *op.Message, c *op.Control) error {
	r := ber.NewReader(c.Value)
	outer := r.Enter(ber.Sequence)
	mode := r.IntIn(ber.Enumerated, refreshOnly, refreshAndPersist)
	s := &synced{persist: mode == refreshAndPersist}
	if r.At(ber.OctetString) {
		s.cookie = parseCookie(string(r.Bytes(ber.OctetString)))
	}
	if r.At(ber.Boolean) {
		s.reload = r.Bool(ber.Boolean)
	}
	r.Leave(outer)
	r.End()
	if r.Err() != nil {
		return malformed("sync request", r.Err())
	}
	if mode != refreshOnly && mode != refreshAndPersist {
		return op.Errorf(op.ProtocolError, "sync request control: mode %d is neither refreshOnly nor refreshAndPersist", mode)
	}
	o.controls.sync = s
	return nil
}

// A cookie says what content a client has, in the syntax of OpenLDAP:
// rid=001,sid=001,csn=CSN;CSN. The consumer's number, rid, is given back. The
// CSNs are a front.
type cookie struct {
	rid     string
	front   revision.Front
	foreign bool // it has CSNs that no store of ours made, or is none of this syntax
}

// maxCookieCSNs bounds what a client may have looked up.
const maxCookieCSNs = 256

func parseCookie(s string) (c cookie) {
	if s == "" {
		return c
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			c.foreign = true
		case name == "rid" && len(value) <= 3:
			c.rid = value
		case name == "csn" && value != "":
			c.addCSNs(value)
		}
	}
	return c
}

func (c *cookie) addCSNs(list string) {
	for csn := range strings.SplitSeq(list, ";") {
		r, err := revision.ParseCSN(csn)
		if err != nil || len(c.front) == maxCookieCSNs {
			c.foreign = true
			return
		}
		c.front = c.front.With(r)
	}
}

// text prints a cookie of the consumer for another front; "" if there is nothing
// to tell yet.
func (c *cookie) text(f revision.Front) string {
	if len(f) == 0 {
		return ""
	}
	var b strings.Builder
	if c.rid != "" {
		b.WriteString("rid=" + c.rid + ",")
	}
	b.WriteString("csn=")
	for i, csn := range csns(f) {
		if i > 0 {
			b.WriteByte(';')
		}
		b.Write(csn)
	}
	return b.String()
}

// csns are the change sequence numbers of a front, as contextCSN has them.
func csns(f revision.Front) (values [][]byte) {
	for _, r := range f {
		values = append(values, revision.AppendCSN(nil, r))
	}
	return values
}

// States of an entry (RFC 4533, 2.3).
const (
	stateAdd    = 1
	stateModify = 2
	stateDelete = 3
)

// stateControl is the control that goes with an entry.
func stateControl(state int64, id entry.ID) op.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, state)
	b = ber.AppendString(b, ber.OctetString, id[:])
	return op.Control{OID: syncState, Value: ber.Close(b, 0)}
}

// doneValue is the value of the control that ends an operation.
func doneValue(cookie string, deletes bool) []byte {
	b := ber.Open(nil, ber.Sequence)
	if cookie != "" {
		b = ber.AppendString(b, ber.OctetString, cookie)
	}
	if deletes {
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	return ber.Close(b, 0)
}

// newCookie is the value of a message that tells only a cookie.
func newCookie(cookie string) []byte { return ber.AppendString(nil, ber.Context(0), cookie) }

// refreshed is the value of the message that ends the refresh stage.
func refreshed(cookie string, deletes bool) []byte {
	tag := ber.Context(2) // refreshPresent
	if deletes {
		tag = ber.Context(1)
	}
	b := ber.Open(nil, tag|ber.Constructed)
	if cookie != "" {
		b = ber.AppendString(b, ber.OctetString, cookie)
	}
	return ber.Close(b, 0)
}

// idSet is the value of a message that tells of many entries that they are gone,
// or that they are there unchanged.
func idSet(ids []entry.ID, deleted bool) []byte {
	b := ber.Open(nil, ber.Context(3)|ber.Constructed)
	if deleted {
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	start := len(b)
	b = ber.Open(b, ber.Set)
	for i := range ids {
		b = ber.AppendString(b, ber.OctetString, ids[i][:])
	}
	return ber.Close(ber.Close(b, start), 0)
}
