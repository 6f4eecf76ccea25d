package control

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// These are the OIDs of content synchronization: three controls and an intermediate
// response.
const (
	OIDSyncRequest = "1.3.6.1.4.1.4203.1.9.1.1"
	OIDSyncState   = "1.3.6.1.4.1.4203.1.9.1.2"
	OIDSyncDone    = "1.3.6.1.4.1.4203.1.9.1.3"
	OIDSyncInfo    = "1.3.6.1.4.1.4203.1.9.1.4"
)

// These are the modes of a SyncRequest.
const (
	refreshOnly       = 1
	refreshAndPersist = 3
)

// SyncRequest is the value of the sync request control.
//
// See RFC 4533, section 2.2:
//
//	syncRequestValue ::= SEQUENCE {
//		mode ENUMERATED {
//			-- 0 unused
//			refreshOnly       (1),
//			-- 2 reserved
//			refreshAndPersist (3)
//		},
//		cookie     syncCookie OPTIONAL,
//		reloadHint BOOLEAN DEFAULT FALSE
//	}
type SyncRequest struct {
	Persist bool   // the mode is refreshAndPersist
	Cookie  string // "": absent
	Reload  bool
}

// ParseSyncRequest parses the value of a request.
func ParseSyncRequest(value []byte) (s SyncRequest, err error) {
	mode := int64(0)
	err = parse(value, func(r *ber.Reader) {
		tag := ber.Enumerated
		if r.At(ber.Integer) {
			tag = ber.Integer // ldaptive (2.5.0)
		}
		mode = r.IntIn(tag, refreshOnly, refreshAndPersist)
		if r.At(ber.OctetString) {
			s.Cookie = string(r.Bytes(ber.OctetString))
		}
		if r.At(ber.Boolean) {
			s.Reload = r.Bool(ber.Boolean)
		}
	})
	if err == nil && mode != refreshOnly && mode != refreshAndPersist {
		err = fmt.Errorf("mode %d is neither refreshOnly nor refreshAndPersist", mode)
	}
	s.Persist = mode == refreshAndPersist
	return s, err
}

// These are the states that the server sends in a SyncState.
const (
	SyncAdd    = 1
	SyncModify = 2
	SyncDelete = 3
)

// SyncState is the value of the sync state control of an entry. The server sends no
// cookie in a SyncState.
//
// See RFC 4533, section 2.3:
//
//	syncStateValue ::= SEQUENCE {
//		state ENUMERATED {
//			present (0),
//			add (1),
//			modify (2),
//			delete (3)
//		},
//		entryUUID syncUUID,
//		cookie    syncCookie OPTIONAL
//	}
type SyncState struct {
	State int64
	ID    entry.ID
}

// Encode returns the value.
func (s SyncState) Encode() []byte {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Enumerated, s.State)
	b = ber.AppendString(b, ber.OctetString, s.ID[:])
	return ber.Close(b, 0)
}

// SyncDone is the value of the sync done control, which the final response of the search
// has.
//
// See RFC 4533, section 2.4:
//
//	syncDoneValue ::= SEQUENCE {
//		cookie          syncCookie OPTIONAL,
//		refreshDeletes  BOOLEAN DEFAULT FALSE
//	}
type SyncDone struct {
	Cookie  string // "": absent
	Deletes bool
}

// Encode returns the value.
func (s SyncDone) Encode() []byte {
	b := appendCookie(ber.Open(nil, ber.Sequence), s.Cookie)
	if s.Deletes {
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	return ber.Close(b, 0)
}

// appendCookie appends a cookie, unless the cookie is "".
func appendCookie(b []byte, cookie string) []byte {
	if cookie == "" {
		return b
	}
	return ber.AppendString(b, ber.OctetString, cookie)
}

// The values of the sync info message are SyncCookie, SyncRefreshed and SyncIDSet.
//
// See RFC 4533, section 2.5:
//
//	syncInfoValue ::= CHOICE {
//		newcookie      [0] syncCookie,
//		refreshDelete  [1] SEQUENCE {
//			cookie         syncCookie OPTIONAL,
//			refreshDone    BOOLEAN DEFAULT TRUE
//		},
//		refreshPresent [2] SEQUENCE {
//			cookie         syncCookie OPTIONAL,
//			refreshDone    BOOLEAN DEFAULT TRUE
//		},
//		syncIdSet      [3] SEQUENCE {
//			cookie         syncCookie OPTIONAL,
//			refreshDeletes BOOLEAN DEFAULT FALSE,
//			syncUUIDs      SET OF syncUUID
//		}
//	}

// SyncCookie is a newcookie.
type SyncCookie struct{ Cookie string }

// Encode returns the value.
func (s SyncCookie) Encode() []byte { return ber.AppendString(nil, ber.Context(0), s.Cookie) }

// SyncRefreshed ends the refresh stage. It is a refreshDelete if Deletes is set, and
// otherwise a refreshPresent.
type SyncRefreshed struct {
	Cookie  string // "": absent
	Deletes bool
}

// Encode returns the value.
func (s SyncRefreshed) Encode() []byte {
	tag := ber.Context(2)
	if s.Deletes {
		tag = ber.Context(1)
	}
	return ber.Close(appendCookie(ber.Open(nil, tag|ber.Constructed), s.Cookie), 0)
}

// SyncIDSet is a syncIdSet without a cookie. It lists deleted entries if Deletes is set,
// and otherwise entries that are present and unchanged.
type SyncIDSet struct {
	Deletes bool
	IDs     []entry.ID
}

// Encode returns the value.
func (s SyncIDSet) Encode() []byte {
	b := ber.Open(nil, ber.Context(3)|ber.Constructed)
	if s.Deletes {
		b = ber.AppendBool(b, ber.Boolean, true)
	}
	start := len(b)
	b = ber.Open(b, ber.Set)
	for i := range s.IDs {
		b = ber.AppendString(b, ber.OctetString, s.IDs[i][:])
	}
	return ber.Close(ber.Close(b, start), 0)
}
