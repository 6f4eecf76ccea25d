package directory

import (
	"slices"
	"strings"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/op"
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

// virtual gives the virtual entry that a search of this scope is about, nil if
// it is about entries in the store. The root DSE is seen by base searches only.
func (o *operation) virtual(name dn.DN, scope op.Scope) *virtual {
	switch {
	case len(name) == 0 && scope == op.BaseObject:
		return o.rootDSE()
	case isSubschema(name):
		v := o.subschema()
		v.empty = scope == op.SingleLevel || scope == op.Subordinates
		return v
	}
	return nil
}

// isSubschema compares without normalising: every search passes here.
func isSubschema(name dn.DN) bool {
	if len(name) != 1 || len(name[0]) != 1 || !strings.EqualFold(string(name[0][0].Value), "subschema") {
		return false
	}
	t := name[0][0].Type
	return strings.EqualFold(t, "cn") || strings.EqualFold(t, "commonName") || t == "2.5.4.3"
}

// refuseVirtual keeps writes off names that are not the store's.
func refuseVirtual(name dn.DN) error {
	if len(name) == 0 {
		return op.Errorf(op.UnwillingToPerform, "the root DSE shows what the server can do and cannot be changed")
	}
	if isSubschema(name[len(name)-1:]) {
		return op.Errorf(op.UnwillingToPerform, "%s cannot be changed", subschemaName)
	}
	return nil
}

func (o *operation) searchVirtual(v *virtual, r *op.Search, sink op.Sink) error {
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

// add gives the entry values of an attribute. One that the schema does not have
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
	add("subschemaSubentry", subschemaName)
	add("supportedLDAPVersion", "3")
	add("supportedControl", supportedControls()...)
	add("supportedExtension", slices.Concat(supportedExtensions, o.d.o.Extensions)...)
	add("supportedFeatures", supportedFeatures...)
	add("supportedSASLMechanisms", o.usableMechanisms()...)
	add("vendorName", "ldapd")
	if o.d.o.Version != "" {
		add("vendorVersion", o.d.o.Version)
	}
	add("entryDN", "")
	return v
}

func (o *operation) subschema() *virtual {
	v := &virtual{name: subschemaName}
	add := func(name string, values ...string) { v.add(o.schema, name, values...) }
	add("objectClass", "top", "subentry", "subschema", "extensibleObject")
	add("cn", "Subschema")
	add("structuralObjectClass", "subentry")
	add("subtreeSpecification", "{ }")
	for _, a := range []string{"ldapSyntaxes", "matchingRules", "attributeTypes", "objectClasses", "matchingRuleUse"} {
		add(a, o.schema.Definitions(a)...)
	}
	add("entryDN", subschemaName)
	add("subschemaSubentry", subschemaName)
	add("hasSubordinates", "FALSE")
	return v
}

// source is the entry as filters see it.
func (v *virtual) source(s *schema.Schema) *filter.EntrySource {
	name, _ := dn.Parse(v.name) // a constant
	return &filter.EntrySource{Schema: s, Entry: &v.entry, Name: name}
}
