package search

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"sort"

	"github.com/seed-4dac0d86/ldapd/directory/internal/delivery"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// vlvContext returns a contextID: the revision of the list that the client sees, and a MAC
// of the revision. As long as the client returns the contextID, all views of a search show
// the same state.
func vlvContext(key []byte, r table.Revision) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(r))
	mac := hmac.New(sha256.New, key)
	mac.Write(b)
	return append(b, mac.Sum(nil)[:delivery.CookieMAC]...)
}

// vlvRevision returns the revision in the request's contextID, or 0 if there is none.
func vlvRevision(req *request.Request, r *op.Search) (table.Revision, error) {
	v := req.Controls.Vlv
	if v == nil || v.Context == nil {
		return 0, nil
	}
	if len(v.Context) > 8 {
		revision := table.Revision(binary.BigEndian.Uint64(v.Context))
		if hmac.Equal(v.Context, vlvContext(delivery.CookieKey(req, r), revision)) {
			return revision, nil
		}
	}
	return 0, delivery.VLVError(req, op.ProtocolError, "the contextID does not fit this search: begin again without one")
}

// runVLV sends the part of the sorted list that the control asks for.
func (st *Stream) runVLV(ctx context.Context) error {
	req := st.Req
	ids, err := st.list(ctx)
	if errors.Is(err, errSortMemory) {
		return delivery.VLVError(req, op.AdminLimitExceeded, "%s", req.Limits.SortBytesText())
	}
	if err != nil {
		return err
	}
	at, err := st.target(ctx, ids) // counted from 0
	if err != nil {
		return err
	}
	v := req.Controls.Vlv
	st.way = byList
	if err := st.lookUp(ctx, ids[max(at-v.Before, 0):min(at+v.After+1, len(ids))]); err != nil {
		return err
	}
	target := at + 1
	if len(ids) == 0 {
		target = 0
	}
	delivery.RespondVLV(req, control.VLVResponse{Target: target, Count: len(ids), Context: vlvContext(delivery.CookieKey(req, st.R), st.Req.Snapshot.Revision())})
	return nil
}

// target returns the index of the target entry of a view. If all entries are before the
// target value, the index is len(ids).
func (st *Stream) target(ctx context.Context, ids []entry.ID) (int, error) {
	v := st.Req.Controls.Vlv
	switch {
	case v.Value != nil:
		return st.targetOf(ctx, ids, v.Value)
	case v.Offset < 1 || v.Count > 0 && v.Offset > v.Count || v.Count == 0 && v.Offset > max(len(ids), 1):
		return 0, delivery.VLVError(st.Req, control.OffsetRangeError, "there is no entry %d of %d", v.Offset, max(v.Count, len(ids)))
	case len(ids) == 0 || v.Offset == 1 && v.Count != 1:
		return 0, nil
	case v.Offset == v.Count:
		return len(ids) - 1, nil
	case v.Count == 0:
		return v.Offset - 1, nil
	}
	// Scale the client's position to the real length of the list, and round
	// (draft-ietf-ldapext-ldapv3-vlv-09, 5).
	scaled := (2*len(ids)*v.Offset + v.Count) / (2 * v.Count)
	return max(scaled, 1) - 1, nil
}

// targetOf returns the index of the first entry whose first sort key is not before a value.
func (st *Stream) targetOf(ctx context.Context, ids []entry.ID, value []byte) (int, error) {
	k := &st.keys[0]
	bound, err := k.Bound(value)
	if err != nil {
		return 0, delivery.VLVError(st.Req, op.InappropriateMatching, "%s: %v", k.Type.Name(), err)
	}
	var failed error
	at := sort.Search(len(ids), func(i int) bool {
		before := false
		for found, err := range search.Results(ctx, st.Req.Snapshot, ids[i:i+1], st.Query) {
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
