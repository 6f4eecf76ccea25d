package directory

import (
	"context"
	"slices"
	"strconv"

	"github.com/seed-4dac0d86/ldapd/control"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition"
)

// theRootDSE serves the entry that says what the server can do (RFC 4512, 5.1). It is
// seen by base searches only.
type theRootDSE struct{}

func (theRootDSE) holds(name dn.DN) bool { return len(name) == 0 }

func (theRootDSE) serves(base dn.DN, scope op.Scope) bool {
	return len(base) == 0 && scope == op.BaseObject
}

func (theRootDSE) search(ctx context.Context, o *operation, _ dn.DN, r *op.Search, sink op.Sink) error {
	return searchSingle(ctx, o, r, sink, func(context.Context, *operation) (*virtual, error) { return rootDSE(o), nil })
}

func (theRootDSE) entry(_ context.Context, o *operation, _ dn.DN) (*virtual, error) {
	return rootDSE(o), nil
}

func (theRootDSE) refusal() string {
	return "the root DSE shows what the server can do and cannot be changed"
}

// supportedExtensions are the extended operations that the directory serves.
var supportedExtensions = []string{control.OIDPasswordModify, control.OIDWhoAmI}

// Features that work (supportedFeatures).
var supportedFeatures = []string{
	"1.3.6.1.1.14",           // modify-increment, RFC 4525
	"1.3.6.1.4.1.4203.1.5.1", // all operational attributes, RFC 3673
	"1.3.6.1.4.1.4203.1.5.2", // attributes of a class, RFC 4529
	"1.3.6.1.4.1.4203.1.5.3", // true and false filters, RFC 4526
	"1.3.6.1.4.1.4203.1.5.4", // language tags, RFC 3866
	"1.3.6.1.4.1.4203.1.5.5", // language ranges, RFC 3866
}

// rootDSE returns what the server can do as an entry.
func rootDSE(o *operation) *virtual {
	v := &virtual{}
	add := func(name string, values ...string) { v.add(o.schema, name, values...) }
	add("objectClass", "top", "extensibleObject")
	add("namingContexts", o.server.part.Config().Suffixes...)
	add("ref", o.server.settings().Referral...)
	add("subschemaSubentry", partition.SubschemaName)
	add("supportedLDAPVersion", "3")
	add("supportedControl", supportedControls()...)
	add("supportedExtension", slices.Concat(supportedExtensions, o.server.settings().Extensions)...)
	add("supportedFeatures", supportedFeatures...)
	add("supportedSASLMechanisms", usableMechanisms(o)...)
	add("vendorName", "ldapd")
	if o.server.settings().Version != "" {
		add("vendorVersion", o.server.settings().Version)
	}
	add("changelog", changelogName)
	add("monitorContext", monitorName)
	if o.who.isAdmin() {
		first, last := o.server.part.Bounds()
		add("firstChangeNumber", strconv.FormatUint(uint64(first), 10))
		add("lastChangeNumber", strconv.FormatUint(uint64(last), 10))
	}
	add("entryDN", "")
	return v
}
