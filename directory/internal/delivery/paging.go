package delivery

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/store/table"
)

// PagedResponse adds the control that ends a page. The size in the control is 0, because
// the server does not estimate the total size (RFC 2696, 3).
func PagedResponse(req *request.Request, cookie []byte) {
	req.Respond(control.OIDPagedResults, control.PagedResults{Cookie: cookie}.Encode())
}

// Paged results (RFC 2696) need no memory between the pages. The cookie contains everything
// that the next page needs, so any server with the same secret can send the next page. A
// position contains values of an entry, perhaps of an entry that the client may not see. The
// cookie is therefore sealed: AES-256-GCM with a key derived from the secret, the search and
// the requester. The numbers in a cookie are big-endian. Everything between the nonce and the
// tag is encrypted:
//
//	nonce    12
//	revision  8  the state of the directory that all pages show
//	sent      4  entries on the pages so far, for the size limit
//	skip      4  results to leave out, if there is no position
//	position     of the partition's stream, behind the last result
//	tag      16
//
// A search that follows aliases consists of several streams. The next page of such a
// search leaves out the results of earlier pages. The position of a sorted search begins
// with byList, byIndex or bySearch: see sorted.go.
const (
	cookieHead = 8 + 4 + 4
	CookieMAC  = 16 // length of the MAC in the context of a view
)

// errPageFull ends a page that is not the last.
var errPageFull = errors.New("page full")

var ErrCookie = op.Errorf(op.UnwillingToPerform,
	"the paged results cookie does not belong to this search: begin again without a cookie")

// Page is one page of a search under way.
type Page struct {
	size int
	key  []byte // the key that seals the cookies of this search for this user

	Revision table.Revision // the state that all pages show; 0: this is the first page
	sent     int
	Skip     int
	After    []byte

	Count    int // results on this page
	skipped  int
	next     []byte // where the next page continues; nextSkip is how many results the next page skips
	nextSkip int
}

// GoesOn reports whether there were earlier pages.
func (p *Page) GoesOn() bool { return p != nil && p.Revision != 0 }

// OpenPage returns the page that the paged results control requests. It returns nil if the
// request has no such control, or if the control has neither a page size nor a cookie. It also
// returns nil if the size limit is not larger than the page size, because the client then has
// to receive the whole result (RFC 2696, 3). The result done reports that the client wants no
// further page, and that OpenPage has added the response control.
func OpenPage(req *request.Request, r *op.Search) (p *Page, done bool, err error) {
	c := req.Controls.Paged
	if c == nil || r.SizeLimit > 0 && c.Size >= r.SizeLimit {
		return nil, false, nil
	}
	if c.Size == 0 && len(c.Cookie) == 0 {
		return nil, false, nil // an empty page would never end
	}
	if most := req.Limits.Page; most > 0 && c.Size > most {
		return nil, false, op.Errorf(op.AdminLimitExceeded, "a page of %d entries was requested: the limit on page size is %d", c.Size, most)
	}
	p = &Page{size: c.Size, key: CookieKey(req, r)}
	if len(c.Cookie) == 0 {
		return p, false, nil
	}
	if !p.read(c.Cookie) {
		return nil, false, ErrCookie
	}
	if c.Size == 0 {
		PagedResponse(req, nil)
		return nil, true, nil
	}
	return p, false, nil
}

// CookieKey returns a key that is derived from everything that must stay the same between
// pages. A cookie is thus useless for another search or another user.
func CookieKey(req *request.Request, r *op.Search) []byte {
	mac := hmac.New(sha256.New, req.Server.Settings().Secret)
	flags := []byte{byte(r.Scope), byte(r.Deref), byte(req.Controls.Visible) << 1}
	if req.Controls.ManageDsaIT {
		flags[2] |= 1
	}
	mac.Write(flags)
	var sort []byte
	if req.Controls.Sort != nil {
		sort = req.Controls.Sort.Value
	}
	at := ""
	if req.IsPast() {
		at = req.Controls.At.String()
	}
	branch := ""
	if req.Branch != nil {
		branch = req.Branch.Name()
	}
	// The tests that Narrow adds to the filter influence the plan. A position is useless
	// under another plan.
	for _, s := range []string{req.Who.DN(), r.Base, r.Filter.String(), string(sort), at, branch, req.Judge.NarrowingText()} {
		var size [4]byte
		binary.BigEndian.PutUint32(size[:], uint32(len(s)))
		mac.Write(size[:])
		mac.Write([]byte(s))
	}
	return mac.Sum(nil)
}

// seal returns the cipher that seals and opens cookies.
func (p *Page) seal() cipher.AEAD {
	block, err := aes.NewCipher(p.key)
	if err != nil {
		panic(err) // the key has the length of a hash
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the block size that GCM needs
	}
	return aead
}

func (p *Page) read(cookie []byte) bool {
	body, err := p.seal().Open(nil, nil, cookie, nil)
	if err != nil || len(body) < cookieHead {
		return false
	}
	p.Revision = table.Revision(binary.BigEndian.Uint64(body))
	p.sent = int(binary.BigEndian.Uint32(body[8:]))
	p.Skip = int(binary.BigEndian.Uint32(body[12:]))
	p.After = body[cookieHead:]
	return true
}

func (p *Page) write(revision table.Revision, sent, skip int, position []byte) []byte {
	b := make([]byte, 0, cookieHead+len(position))
	b = binary.BigEndian.AppendUint64(b, uint64(revision))
	b = binary.BigEndian.AppendUint32(b, uint32(sent))
	b = binary.BigEndian.AppendUint32(b, uint32(skip))
	return p.seal().Seal(nil, nil, append(b, position...), nil)
}

// countResult counts a result. It sets skip if an earlier page contained the result, and
// returns errPageFull if the result belongs to the next page.
func (p *Page) countResult() (skip bool, err error) {
	switch {
	case p.skipped < p.Skip:
		p.skipped++
		return true, nil
	case p.Count == p.size:
		return false, errPageFull
	}
	p.Count++
	return false, nil
}

// AtPlace records that the search has started at the first result of the page, so
// countResult skips no results.
func (p *Page) AtPlace() {
	if p != nil {
		p.skipped = p.Skip
	}
}

// IsFull reports whether the page has no room left.
func (p *Page) IsFull() bool { return p != nil && p.Count == p.size }

// GoOn sets the position at which the next page continues, and the number of results that
// the next page skips.
func (p *Page) GoOn(position []byte, skip int) { p.next, p.nextSkip = position, skip }

// close returns the cookie that ends the page. The cookie is empty if no page follows.
func (p *Page) close(r table.Revision, sent int, more bool) []byte {
	if !more {
		return nil
	}
	return p.write(r, sent, p.nextSkip, p.next)
}
