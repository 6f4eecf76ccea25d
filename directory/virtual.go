package directory

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// virtual is an entry that no store has: the root DSE (RFC 4512, 5.1) or the
// subschema (RFC 4512, 4.4).
type virtual struct {
	name  string
	entry entry.Entry
	// empty says that the scope has nothing: such entries have no subordinates.
	empty bool
}

// isVirtual reports whether a search of this scope is about a virtual entry. The
// root DSE is seen by base searches only.
func isVirtual(name dn.DN, scope op.Scope) bool {
	return len(name) == 0 && scope == op.BaseObject || partition.IsSubschema(name)
}

// virtual returns the virtual entry that a search of this scope is about, nil if
// it is about entries in the store.
func (o *operation) virtual(ctx context.Context, s *partition.Snapshot, name dn.DN, scope op.Scope) (*virtual, error) {
	switch {
	case !isVirtual(name, scope):
		return nil, nil
	case len(name) == 0:
		return o.rootDSE(), nil
	}
	v, err := o.subschema(ctx, s)
	if err == nil {
		v.empty = scope == op.SingleLevel || scope == op.Subordinates
	}
	return v, err
}

// endsIn reports whether a name is cn=VALUE or of an entry below it.
func endsIn(name dn.DN, value string) bool {
	if len(name) == 0 || len(name[len(name)-1]) != 1 {
		return false
	}
	a := name[len(name)-1][0]
	return strings.EqualFold(string(a.Value), value) &&
		(strings.EqualFold(a.Type, "cn") || strings.EqualFold(a.Type, "commonName") || a.Type == "2.5.4.3")
}

func isChangelog(name dn.DN) bool { return endsIn(name, "changelog") }

func isMonitor(name dn.DN) bool { return endsIn(name, "monitor") }

// refuseVirtual keeps writes off names that are not the store's.
func refuseVirtual(name dn.DN) error {
	if len(name) == 0 {
		return op.Errorf(op.UnwillingToPerform, "the root DSE shows what the server can do and cannot be changed")
	}
	if isChangelog(name) {
		return op.Errorf(op.UnwillingToPerform, "%s shows what was committed and cannot be changed", changelogName)
	}
	if isMonitor(name) {
		return op.Errorf(op.UnwillingToPerform, "%s shows what servers publish about themselves and cannot be changed", monitorName)
	}
	if partition.IsSubschema(name[len(name)-1:]) {
		return op.Errorf(op.UnwillingToPerform, "of %s only the definitions can be changed, by a modify", partition.SubschemaName)
	}
	return nil
}

func (o *operation) searchVirtual(ctx context.Context, name dn.DN, r *op.Search, sink op.Sink) error {
	s, err := o.state(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := o.resolveWanted(r); err != nil {
		return err
	}
	v, err := o.virtual(ctx, s, name, r.Scope)
	if err != nil {
		return err
	}
	if err := o.assertVirtual(v); err != nil {
		return err
	}
	if o.controls.paged != nil {
		o.pagedResponse(nil)
	}
	if o.controls.vlv != nil {
		return o.viewError(op.UnwillingToPerform, "this entry is alone and no list")
	}
	f := filter.Resolve(r.Filter, o.schema)
	if v.empty || o.controls.visible.hides(o, &v.entry) || f.Match(v.source(o.schema)) != filter.True {
		return nil
	}
	o.found = op.SearchEntry{
		Name:       v.name,
		Attributes: o.selector.apply(nil, v.entry.Attributes),
		TypesOnly:  r.TypesOnly,
	}
	o.controls.matched.apply(o.found.Attributes, r.TypesOnly)
	o.trace.entries++
	if o.controls.sort != nil {
		o.sortResponse(op.Success, "")
	}
	return sink.Entry(&o.found)
}

// add returns the entry values of an attribute. One that the schema does not have
// is left out.
func (v *virtual) add(s *schema.Schema, name string, values ...string) {
	t := s.Attribute(name)
	if t == nil || len(values) == 0 {
		return
	}
	a := entry.Attribute{Type: t}
	for _, x := range values {
		a.Values = append(a.Values, []byte(x))
	}
	v.entry.Attributes = append(v.entry.Attributes, a)
}

// Features that work (supportedFeatures).
var supportedFeatures = []string{
	"1.3.6.1.1.14",           // modify-increment, RFC 4525
	"1.3.6.1.4.1.4203.1.5.1", // all operational attributes, RFC 3673
	"1.3.6.1.4.1.4203.1.5.2", // attributes of a class, RFC 4529
	"1.3.6.1.4.1.4203.1.5.3", // true and false filters, RFC 4526
	"1.3.6.1.4.1.4203.1.5.4", // language tags, RFC 3866
	"1.3.6.1.4.1.4203.1.5.5", // language ranges, RFC 3866
}

func (o *operation) rootDSE() *virtual {
	v := &virtual{}
	add := func(name string, values ...string) { v.add(o.schema, name, values...) }
	add("objectClass", "top", "extensibleObject")
	add("namingContexts", o.d.part.Config().Suffixes...)
	add("ref", o.d.settings().Referral...)
	add("subschemaSubentry", partition.SubschemaName)
	add("supportedLDAPVersion", "3")
	add("supportedControl", supportedControls()...)
	add("supportedExtension", slices.Concat(supportedExtensions, o.d.settings().Extensions)...)
	add("supportedFeatures", supportedFeatures...)
	add("supportedSASLMechanisms", o.usableMechanisms()...)
	add("vendorName", "ldapd")
	if o.d.settings().Version != "" {
		add("vendorVersion", o.d.settings().Version)
	}
	add("changelog", changelogName)
	add("monitorContext", monitorName)
	if o.who.isAdmin() {
		first, last := o.d.part.Bounds()
		add("firstChangeNumber", strconv.FormatUint(uint64(first), 10))
		add("lastChangeNumber", strconv.FormatUint(uint64(last), 10))
	}
	add("entryDN", "")
	return v
}

// source is the entry as filters see it.
func (v *virtual) source(s *schema.Schema) *filter.EntrySource {
	name, _ := dn.Parse(v.name) // a constant
	return &filter.EntrySource{Schema: s, Entry: &v.entry, Name: name}
}
