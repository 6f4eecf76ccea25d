package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// A Source is another server, over one connection. Only one goroutine may use it.
type Source struct {
	Bases   []string // the names of the entries whose subtrees are copied
	Remote  bulk.Remote
	conn    *ldap.Conn
	product product
	root    *ldap.Entry
	synced  bool // offers content synchronization
	paged   bool // offers paged results
	// references is shared by all connections to the server.
	references *references
}

// references are the URLs of other servers to which the server has referred for parts of
// the subtrees.
type references struct {
	mu   sync.Mutex
	seen map[string]bool
	note func(string)
}

// add writes a note about a reference, unless it has written the same note before.
func (r *references) add(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if url != "" && !r.seen[url] {
		r.seen[url] = true
		r.note("the server refers to " + url + ": the entries there are neither copied nor compared")
	}
}

// Look connects to a server. If bases is empty, the naming contexts of the server are
// copied, except those with the server's own data.
func Look(r bulk.Remote, bases []string) (*Source, error) {
	c, err := r.Dial()
	if err != nil {
		return nil, err
	}
	s := &Source{Remote: r, Bases: bases, conn: c, references: &references{seen: map[string]bool{}, note: func(string) {}}}
	if err := s.look(); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", r.URL, err)
	}
	return s, nil
}

// A failure is an error of the other server or of the connection to it.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &failure{err}
}

// errCut is the error of a search whose connection was closed before the search ended.
// The client library reports no error in that case.
var errCut = &failure{errors.New("the connection was closed")}

// Close closes the connection.
func (s *Source) Close() { s.conn.Close() }

// Again returns another connection to the same server.
func (s *Source) Again() (*Source, error) {
	c, err := s.Remote.Dial()
	if err != nil {
		return nil, failed(err)
	}
	again := *s
	again.conn = c
	return &again, nil
}

// following returns the setting for a directory that follows the server.
func (s *Source) following() *catalog.Following {
	r := s.Remote
	return &catalog.Following{URL: r.URL, BindDN: r.BindDN, StartTLS: r.StartTLS, Bases: s.Bases}
}

// Product returns the name of the server's product.
func (s *Source) Product() string { return s.product.name }

// Synchronized reports whether the server offers content synchronization.
func (s *Source) Synchronized() bool { return s.synced }

func (s *Source) look() error {
	root, err := s.entry(context.Background(), "", "(objectClass=*)", "*", "+", "namingContexts", "supportedControl", "vendorName", "configContext", "subschemaSubentry")
	if err != nil {
		return err
	}
	if root == nil {
		return errors.New("the server shows no root DSE: bind as somebody who may read it")
	}
	s.root, s.product = root, productOf(root)
	offers := func(oid string) bool {
		return slices.Contains(root.GetEqualFoldAttributeValues("supportedControl"), oid)
	}
	s.synced, s.paged = offers(control.OIDSyncRequest), offers(ldap.ControlTypePaging)
	if len(s.Bases) > 0 {
		return nil
	}
	for _, c := range root.GetEqualFoldAttributeValues("namingContexts") {
		if !s.product.own(c) {
			s.Bases = append(s.Bases, c)
		}
	}
	if len(s.Bases) == 0 {
		return errors.New("the server shows no naming contexts: name the entry to copy with --base")
	}
	return nil
}

// entry reads one entry. It returns nil if the entry does not exist or does not match the
// filter.
func (s *Source) entry(ctx context.Context, name, filter string, attributes ...string) (*ldap.Entry, error) {
	res, err := s.search(ctx, ldap.NewSearchRequest(name, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false,
		filter, attributes, s.controls()))
	if ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
		return nil, nil
	}
	if err != nil || len(res.Entries) == 0 {
		return nil, failed(err)
	}
	return res.Entries[0], nil
}

// mostAnswer is the longest time that the server may take for one entry. A server without
// an index of ids reads all its entries to find one by its id.
const mostAnswer = 5 * time.Minute

// search runs a search for one entry. The search ends when ctx ends.
func (s *Source) search(ctx context.Context, r *ldap.SearchRequest) (*ldap.SearchResult, error) {
	// This call of the client library takes no context.
	stop := context.AfterFunc(ctx, func() { s.conn.Close() })
	defer stop()
	s.conn.SetTimeout(mostAnswer)
	defer s.conn.SetTimeout(0)
	res, err := s.conn.Search(r)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return res, err
}

// controls returns the controls of all searches. With them, the server returns referrals as
// entries.
func (s *Source) controls() []ldap.Control {
	return []ldap.Control{ldap.NewControlManageDsaIT(false)}
}

// wanted are the attributes that are read of each entry. The operational attributes are
// listed by name too, for servers that do not know "+".
var wanted = []string{
	"*", "+", "entryUUID", "nsUniqueId", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp",
	"nsRoleDN", "nsAccountLock",
}

// find reads the entry with the given id. It returns nil if there is none.
func (s *Source) find(ctx context.Context, id string) (*ldap.Entry, error) {
	for _, base := range s.Bases {
		res, err := s.search(ctx, ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false,
			s.product.byID(id), wanted, s.controls()))
		if err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
			return nil, failed(err)
		}
		if err == nil && len(res.Entries) > 0 {
			return res.Entries[0], nil
		}
	}
	return nil, nil
}

// read reads the entry with the given name. It returns nil if there is none.
func (s *Source) read(ctx context.Context, name string) (*ldap.Entry, error) {
	return s.entry(ctx, name, s.product.all(), wanted...)
}

// pageSize is the number of entries of a page.
const pageSize = 500

// All calls each(e) for every entry e of a subtree, including subentries.
func (s *Source) All(ctx context.Context, base string, attributes []string, each func(*ldap.Entry) error) error {
	for i, extra := 0, s.subentries(); i <= len(extra); i++ {
		cs := s.controls()
		if i > 0 {
			cs = append(cs, extra[i-1])
		}
		if err := s.pages(ctx, base, s.product.all(), attributes, cs, each); err != nil {
			return s.limited(err)
		}
	}
	return nil
}

// subentries returns the control with which a search shows only subentries (RFC 3672).
// Searches without the control show no subentries. If the server does not support the
// control, subentries returns nil.
func (s *Source) subentries() []ldap.Control {
	if !slices.Contains(s.root.GetEqualFoldAttributeValues("supportedControl"), control.OIDSubentries) {
		return nil
	}
	return []ldap.Control{ldap.NewControlString(control.OIDSubentries, true, "\x01\x01\xff")}
}

func (s *Source) pages(ctx context.Context, base, filter string, attributes []string, cs []ldap.Control, each func(*ldap.Entry) error) error {
	page := ldap.NewControlPaging(pageSize)
	if s.paged {
		cs = append(cs, page)
	}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		more, err := s.page(ctx, ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false, filter, attributes, cs), page, each)
		if err != nil || !more {
			return err
		}
	}
}

// page runs a search and reports whether there is another page.
func (s *Source) page(ctx context.Context, r *ldap.SearchRequest, page *ldap.ControlPaging, each func(*ldap.Entry) error) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res := s.conn.SearchAsync(ctx, r, 64)
	for res.Next() {
		s.references.add(res.Referral())
		if e := res.Entry(); e != nil {
			if err := each(e); err != nil {
				return false, err
			}
		}
		if c, ok := ldap.FindControl(res.Controls(), ldap.ControlTypePaging).(*ldap.ControlPaging); ok {
			page.SetCookie(c.Cookie)
			more = len(c.Cookie) > 0
		}
	}
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	if err := res.Err(); err != nil {
		return false, failed(err)
	}
	if s.conn.IsClosing() {
		return false, errCut
	}
	return more, nil
}

// limited adds advice to an error if a limit of the server has ended the search.
func (s *Source) limited(err error) error {
	if ldap.IsErrorAnyOf(err, ldap.LDAPResultSizeLimitExceeded, ldap.LDAPResultTimeLimitExceeded, ldap.LDAPResultAdminLimitExceeded) {
		return fmt.Errorf("%w: the server has limits for whom you bind as: raise them there (%s)", err, s.product.limits)
	}
	return err
}

// The function "below" reports whether name is equal to base or below base. It ignores case,
// but no other differences in spelling.
func below(name, base string) bool {
	n, err := dn.Parse(name)
	b, err2 := dn.Parse(base)
	return err == nil && err2 == nil && len(n) >= len(b) && strings.EqualFold(n[len(n)-len(b):].String(), b.String())
}

// inner returns the bases below base. A server may keep these in databases of their own,
// and then a search of base does not show their entries.
func (s *Source) inner(base string) (all []string) {
	for _, b := range s.Bases {
		if below(b, base) && !below(base, b) {
			all = append(all, b)
		}
	}
	return all
}

// within reports whether a name is one of bases or below one of them.
func within(name string, bases []string) bool {
	return slices.ContainsFunc(bases, func(base string) bool { return below(name, base) })
}
