package directory

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/history"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/revision"
	"github.com/seed-4dac0d86/ldapd/table"
)

// The changelog (draft-good-ldap-changelog-04): what was committed, as entries
// below cn=changelog, made of the journal as they are asked for. A change number
// is the revision of the commit, so all servers have the same, in the same order,
// without counting. A commit that changed several entries has an entry each, of
// one number: the second and later ones have a changeOrdinal in their name too.
const changelogName = "cn=changelog"

// isChangelog reports whether a name is the changelog's or of an entry in it.
func isChangelog(name dn.DN) bool {
	if len(name) == 0 || len(name) > 2 {
		return false
	}
	last := name[len(name)-1]
	return len(last) == 1 && strings.EqualFold(string(last[0].Value), "changelog") &&
		(strings.EqualFold(last[0].Type, "cn") || strings.EqualFold(last[0].Type, "commonName") || last[0].Type == "2.5.4.3")
}

// searchChangelog runs a search of the changelog. Only the administrator may.
func (o *operation) searchChangelog(ctx context.Context, name dn.DN, r *op.Search, sink op.Sink) error {
	switch {
	case !o.who.isAdmin():
		return errAccess
	case o.isPast() || o.controls.sync != nil || o.controls.persistent != nil || o.controls.vlv != nil:
		return op.Errorf(op.UnwillingToPerform, "the changelog takes paged searches, no other lists and no watching: ask for (changeNumber>=N)")
	}
	page, err := o.openPage(r)
	if err != nil {
		return err
	}
	if page != nil && page.abandoned {
		o.pagedResponse(nil)
		return nil
	}
	s, err := o.settled(ctx, page)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := o.resolveWanted(r); err != nil {
		return err
	}
	if o.controls.sort != nil {
		if err := o.unsorted(&sortError{code: op.UnwillingToPerform, text: "the changelog is in the order of its numbers"}); err != nil {
			return err
		}
	}
	ctx, cancel := o.limitTime(ctx, r)
	defer cancel()
	l := &changelog{o: o, s: s, sink: sink, r: r, page: page, filter: filter.Resolve(r.Filter, o.schema), limit: smaller(r.SizeLimit, o.limits.Size)}
	err = l.run(ctx, name)
	if page != nil {
		o.pagedResponse(l.closePage(err))
	}
	if errors.Is(err, errPageFull) {
		return nil
	}
	return err
}

// settled gives the state up to which the changelog tells: nothing can be
// committed any more at or below it.
func (o *operation) settled(ctx context.Context, p *page) (s *partition.Snapshot, err error) {
	if p != nil && p.revision != 0 {
		s, err = o.d.part.At(ctx, p.revision)
	} else {
		s, err = o.d.part.Settled(ctx)
	}
	if err == nil {
		o.adopt(s)
	}
	return s, err
}

// changelog is a search of it under way.
type changelog struct {
	o      *operation
	s      *partition.Snapshot
	sink   op.Sink
	r      *op.Search
	page   *page
	filter filter.Resolved
	limit  int
	sent   int
}

func (l *changelog) run(ctx context.Context, name dn.DN) error {
	if len(name) == 2 {
		return l.one(ctx, name)
	}
	goesOn := l.page != nil && l.page.revision != 0
	if (l.r.Scope == op.BaseObject || l.r.Scope == op.WholeSubtree) && !goesOn {
		if err := l.offer(l.top(), 0, 0); err != nil {
			return err
		}
	}
	if l.r.Scope == op.BaseObject {
		return nil
	}
	return l.list(ctx)
}

// list offers what the filter lets be in, which it tells by numbers.
func (l *changelog) list(ctx context.Context) error {
	first, last := numbers(l.r.Filter)
	first = max(first, l.o.d.part.DB().Floor()+1)
	had := -1 // the last change of the first commit that an earlier page had
	if p := l.page; p != nil && p.revision != 0 {
		if len(p.after) != 8 {
			return errCookie
		}
		if at := table.Revision(binary.BigEndian.Uint64(p.after)); at >= first {
			first, had = at, p.skip
		}
		l.sent = p.sent
	}
	for c, err := range history.Changes(ctx, l.o.d.part, l.s, first-1) {
		if err != nil {
			return err
		}
		if c.Revision > last {
			break
		}
		if c.Revision == first && c.Number <= had {
			continue
		}
		if err := l.offer(l.entry(c), c.Revision, c.Number); err != nil {
			return err
		}
	}
	return nil
}

// one offers one entry by its name.
func (l *changelog) one(ctx context.Context, name dn.DN) error {
	missing := &op.Result{Code: op.NoSuchObject, MatchedDN: changelogName, Diagnostic: "the changelog has no such entry"}
	var number table.Revision
	for _, a := range name[0] {
		if strings.EqualFold(a.Type, "changeNumber") {
			n, _ := strconv.ParseUint(string(a.Value), 10, 63) // 0 is nobody's
			number = table.Revision(n)
		}
	}
	if number <= l.o.d.part.DB().Floor() || number > l.s.Revision() {
		return missing
	}
	wanted := history.Key(name.String(), l.o.schema)
	for c, err := range history.Changes(ctx, l.o.d.part, l.s, number-1) {
		if err != nil {
			return err
		}
		if c.Revision > number {
			break
		}
		if v := l.entry(c); history.Key(v.name, l.o.schema) == wanted {
			if l.r.Scope == op.SingleLevel || l.r.Scope == op.Subordinates {
				return nil
			}
			return l.offer(v, c.Revision, c.Number)
		}
	}
	return missing
}

// offer sends an entry if the filter finds it.
func (l *changelog) offer(v *virtual, at table.Revision, number int) error {
	o := l.o
	if l.filter.Match(v.source(o.schema)) != filter.True {
		return nil
	}
	if l.limit > 0 && l.sent == l.limit {
		return op.Errorf(op.SizeLimitExceeded, "more than %d entries", l.limit)
	}
	if p := l.page; p != nil {
		if p.count == p.size {
			return errPageFull
		}
		p.count++
		p.next, p.skip = binary.BigEndian.AppendUint64(nil, uint64(at)), number
	}
	l.sent++
	o.found = op.SearchEntry{Name: v.name, Attributes: o.selector.apply(nil, v.entry.Attributes), TypesOnly: l.r.TypesOnly}
	o.controls.matched.apply(o.found.Attributes, l.r.TypesOnly)
	o.trace.entries++
	return l.sink.Entry(&o.found)
}

// closePage makes the cookie that the page ends with: empty if nothing follows.
func (l *changelog) closePage(err error) []byte {
	if !errors.Is(err, errPageFull) {
		return nil
	}
	return l.page.write(l.s.Revision(), l.sent, l.page.skip, l.page.next)
}

// numbers gives the first and the last change number that a filter can be true of.
func numbers(f filter.Filter) (first, last table.Revision) {
	first, last = 1, revision.Last
	switch f := f.(type) {
	case filter.And:
		for _, part := range f {
			a, b := numbers(part)
			first, last = max(first, a), min(last, b)
		}
	case *filter.Equal:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return n, n
		}
	case *filter.GreaterOrEqual:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return n, last
		}
	case *filter.LessOrEqual:
		if n, ok := changeNumber(f.Attribute, f.Value); ok {
			return first, n
		}
	}
	return first, last
}

// changeNumber reads the assertion of a test; false: it is about something else,
// or is not in the range that numbers are in, and the test itself will find out.
func changeNumber(attribute string, value []byte) (table.Revision, bool) {
	if !strings.EqualFold(attribute, "changeNumber") && attribute != "2.16.840.1.113730.3.1.5" {
		return 0, false
	}
	n, err := strconv.ParseUint(string(value), 10, 63)
	return table.Revision(n), err == nil && n > 0
}

// top is the entry that the others stand below.
func (l *changelog) top() *virtual {
	v := &virtual{name: changelogName}
	add := func(name string, values ...string) { v.add(l.o.schema, name, values...) }
	add("objectClass", "top", "applicationProcess")
	add("cn", "changelog")
	add("structuralObjectClass", "applicationProcess")
	add("entryDN", changelogName)
	add("subschemaSubentry", partition.SubschemaName)
	return v
}

// entry is a change as an entry.
func (l *changelog) entry(c *history.Change) *virtual {
	number := strconv.FormatUint(uint64(c.Revision), 10)
	rdn, ordinal := "changeNumber="+number, ""
	if c.Number > 0 {
		ordinal = strconv.Itoa(c.Number)
		rdn += "+changeOrdinal=" + ordinal
	}
	v := &virtual{name: rdn + "," + changelogName}
	add := func(name, value string) {
		if value != "" {
			v.add(l.o.schema, name, value)
		}
	}
	v.add(l.o.schema, "objectClass", "top", "changeLogEntry")
	add("changeNumber", number)
	add("changeOrdinal", ordinal)
	v.add(l.o.schema, "targetDN", c.Name)
	add("changeType", c.Kind)
	add("changeTime", c.Time().Format("20060102150405.000Z"))
	if r, ok := c.Request.(*op.ModifyDN); ok {
		add("newRDN", r.NewRDN)
		add("deleteOldRDN", strings.ToUpper(strconv.FormatBool(r.DeleteOldRDN)))
		if r.NewSuperior != nil {
			add("newSuperior", *r.NewSuperior)
		}
	}
	if text, err := c.Text(); err == nil {
		add("changes", string(text))
	}
	if c.Request != nil {
		add("targetEntryUUID", c.ID.String())
	}
	add("changeInitiatorsName", c.By.Name)
	add("changeAddress", c.By.From)
	add("changeRequest", c.By.Request)
	add("changeSession", c.By.Session)
	add("changeRevision", revision.String(c.Revision))
	add("structuralObjectClass", "changeLogEntry")
	add("entryDN", v.name)
	add("subschemaSubentry", partition.SubschemaName)
	return v
}
