package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"sort"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/table"
)

// Virtual list views (draft-ietf-ldapext-ldapv3-vlv-09).
const (
	viewRequest  = "2.16.840.1.113730.3.4.9"
	viewResponse = "2.16.840.1.113730.3.4.10"
)

// Results of the response control that LDAP does not have.
const (
	sortControlMissing op.Code = 60
	offsetRangeError   op.Code = 61
)

// view is what a request's virtual list view control asks for.
type view struct {
	before, after int
	offset, count int    // of a target by offset
	value         []byte // of a target by value; nil: by offset
	context       []byte // what the response before gave; nil: none
}

func takeView(o *operation, _ *op.Message, c *op.Control) error {
	v := &view{}
	r := ber.NewReader(c.Value)
	count := func() int { return int(r.IntIn(ber.Integer, 0, math.MaxInt32)) }
	outer := r.Enter(ber.Sequence)
	v.before, v.after = count(), count()
	if byOffset := ber.Context(0) | ber.Constructed; r.At(byOffset) {
		target := r.Enter(byOffset)
		v.offset, v.count = count(), count()
		r.Leave(target)
	} else {
		v.value = r.Bytes(ber.Context(1))
	}
	if r.At(ber.OctetString) {
		v.context = r.Bytes(ber.OctetString)
	}
	r.Leave(outer)
	r.End()
	if err := r.Err(); err != nil {
		return malformed("virtual list view", err)
	}
	o.controls.vlv = v
	return nil
}

// viewError ends a search whose view cannot be had (6.2.1).
func (o *operation) viewError(code op.Code, format string, args ...any) error {
	o.viewResponse(0, 0, code, nil)
	return op.Errorf(op.VirtualListViewError, "virtual list view control: "+format, args...)
}

func (o *operation) viewResponse(target, count int, code op.Code, context []byte) {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, int64(target))
	b = ber.AppendInt(b, ber.Integer, int64(count))
	b = ber.AppendInt(b, ber.Enumerated, int64(code))
	if context != nil {
		b = ber.AppendString(b, ber.OctetString, context)
	}
	o.respond(viewResponse, ber.Close(b, 0))
}

// checkView refuses what a view cannot go with. A sort control that was given
// up says by its own response why.
func (o *operation) checkView(sorted bool) error {
	v := o.controls.vlv
	switch {
	case v == nil:
		return nil
	case !sorted:
		return o.viewError(sortControlMissing, "it needs a sort control")
	case o.controls.sort == nil:
		return o.viewError(op.InappropriateMatching, "the entries cannot be sorted")
	case o.controls.paged != nil:
		return o.viewError(op.UnwillingToPerform, "paged results are another way through the list: ask for one of them")
	case o.limits.Page > 0 && v.before+v.after >= o.limits.Page:
		return o.viewError(op.AdminLimitExceeded, "a view of %d entries: the limit on page size is %d", v.before+v.after+1, o.limits.Page)
	}
	return nil
}

// A context is the revision whose list the client looks at, signed as cookies
// are: views go on showing one state as long as the client gives it back.
func viewContext(key []byte, r table.Revision) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(r))
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return append(b, mac.Sum(nil)[:cookieMAC]...)
}

// viewRevision reads a context; 0: there is none.
func (o *operation) viewRevision(r *op.Search) (table.Revision, error) {
	v := o.controls.vlv
	if v == nil || v.context == nil {
		return 0, nil
	}
	if len(v.context) > 8 {
		revision := table.Revision(binary.BigEndian.Uint64(v.context))
		if hmac.Equal(v.context, viewContext(o.cookieKey(r), revision)) {
			return revision, nil
		}
	}
	return 0, o.viewError(op.ProtocolError, "the contextID does not fit this search: begin again without one")
}

// runView sends the part of the sorted list that a view shows.
func (st *stream) runView(ctx context.Context) error {
	o := st.o
	ids, err := st.list(ctx)
	if errors.Is(err, errSortMemory) {
		return o.viewError(op.AdminLimitExceeded, "%s", o.limits.sortMemoryText())
	}
	if err != nil {
		return err
	}
	at, err := st.target(ctx, ids) // from 0
	if err != nil {
		return err
	}
	v := o.controls.vlv
	st.way = byList
	if err := st.lookUp(ctx, ids[max(at-v.before, 0):min(at+v.after+1, len(ids))]); err != nil {
		return err
	}
	target := at + 1
	if len(ids) == 0 {
		target = 0
	}
	o.viewResponse(target, len(ids), op.Success, viewContext(o.cookieKey(st.r), st.s.Revision()))
	return nil
}

// target finds the entry that a view is around; behind the last, if the target
// is a value that all are before.
func (st *stream) target(ctx context.Context, ids []entry.ID) (int, error) {
	v := st.o.controls.vlv
	switch {
	case v.value != nil:
		return st.targetOf(ctx, ids, v.value)
	case v.offset < 1 || v.count > 0 && v.offset > v.count || v.count == 0 && v.offset > max(len(ids), 1):
		return 0, st.o.viewError(offsetRangeError, "there is no entry %d of %d", v.offset, max(v.count, len(ids)))
	case len(ids) == 0 || v.offset == 1 && v.count != 1:
		return 0, nil
	case v.offset == v.count:
		return len(ids) - 1, nil
	case v.count == 0:
		return v.offset - 1, nil
	}
	// The client's idea of the list, scaled to ours and rounded (5).
	scaled := (2*len(ids)*v.offset + v.count) / (2 * v.count)
	return max(scaled, 1) - 1, nil
}

// targetOf finds the first entry whose first key is not before a value.
func (st *stream) targetOf(ctx context.Context, ids []entry.ID, value []byte) (int, error) {
	k := &st.o.controls.sort.keys[0]
	bound, err := k.Bound(value)
	if err != nil {
		return 0, st.o.viewError(op.InappropriateMatching, "%s: %v", k.Type.Name(), err)
	}
	var failed error
	at := sort.Search(len(ids), func(i int) bool {
		before := false
		for found, err := range st.s.Results(ctx, ids[i:i+1], st.query) {
			if err != nil {
				failed = err
				break
			}
			before = k.Before(found.Entry, bound)
		}
		return !before
	})
	return at, failed
}
