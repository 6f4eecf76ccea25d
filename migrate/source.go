package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/bulk"
	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
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
}

// Look connects to a server. If bases is empty, the naming contexts of the server are
// copied, except those with the server's own data.
func Look(r bulk.Remote, bases []string) (*Source, error) {
	c, err := r.Dial()
	if err != nil {
		return nil, err
	}
	s := &Source{Remote: r, Bases: bases, conn: c}
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

// errCut is the error of a search whose connection was closed before its end. The client
// library reports none in that case.
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

// Product returns the name of the server's product.
func (s *Source) Product() string { return s.product.name }

// Synchronized reports whether the server offers content synchronization.
func (s *Source) Synchronized() bool { return s.synced }

func (s *Source) look() error {
	root, err := s.entry("", "(objectClass=*)", "*", "+", "namingContexts", "supportedControl", "vendorName", "configContext", "subschemaSubentry")
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

// entry reads one entry. It returns nil if there is none or it does not match the filter.
func (s *Source) entry(name, filter string, attributes ...string) (*ldap.Entry, error) {
	res, err := s.conn.Search(ldap.NewSearchRequest(name, ldap.ScopeBaseObject, ldap.NeverDerefAliases, 0, 0, false,
		filter, attributes, s.controls()))
	if ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) {
		return nil, nil
	}
	if err != nil || len(res.Entries) == 0 {
		return nil, failed(err)
	}
	return res.Entries[0], nil
}

// controls returns the controls of all searches: referrals are entries.
func (s *Source) controls() []ldap.Control {
	return []ldap.Control{ldap.NewControlManageDsaIT(false)}
}

// wanted are the attributes that are read of each entry. Servers that do not know "+"
// show the others by name.
var wanted = []string{
	"*", "+", "entryUUID", "nsUniqueId", "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp",
	"nsRoleDN", "nsAccountLock",
}

// find reads the entry with an id, or returns nil.
func (s *Source) find(id string) (*ldap.Entry, error) {
	for _, base := range s.Bases {
		res, err := s.conn.Search(ldap.NewSearchRequest(base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0, 0, false,
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

// read reads the entry with a name, or returns nil.
func (s *Source) read(name string) (*ldap.Entry, error) {
	return s.entry(name, s.product.all(), wanted...)
}

// pageSize is the number of entries of a page.
const pageSize = 500

// All calls each for every entry of a subtree.
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

// subentries returns the control that shows subentries (RFC 3672), which other searches
// do not show, if the server has it.
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

// limited adds advice to the error of a search that a limit of the server ended.
func (s *Source) limited(err error) error {
	if ldap.IsErrorAnyOf(err, ldap.LDAPResultSizeLimitExceeded, ldap.LDAPResultTimeLimitExceeded, ldap.LDAPResultAdminLimitExceeded) {
		return fmt.Errorf("%w: the server has limits for whom you bind as: raise them there (%s)", err, s.product.limits)
	}
	return err
}

// below reports whether a name is base or a name below it. Both are names as a server
// spells them.
func below(name, base string) bool {
	n, err := dn.Parse(name)
	b, err2 := dn.Parse(base)
	return err == nil && err2 == nil && len(n) >= len(b) && strings.EqualFold(n[len(n)-len(b):].String(), b.String())
}
