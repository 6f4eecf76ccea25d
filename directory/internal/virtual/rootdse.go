package virtual

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/directory/internal/bind"
	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
)

// theRootDSE serves the root DSE, which describes what the server supports (RFC 4512,
// 5.1). Only base searches find it.
type theRootDSE struct{}

func (theRootDSE) holds(name dn.DN) bool { return len(name) == 0 }

func (theRootDSE) serves(base dn.DN, scope op.Scope) bool {
	return len(base) == 0 && scope == op.BaseObject
}

func (theRootDSE) Search(ctx context.Context, req *request.Request, _ dn.DN, r *op.Search, sink op.Sink) error {
	return searchSingle(ctx, req, r, sink, func(ctx context.Context, req *request.Request) (*Entry, error) {
		return RootDSE(ctx, req, r.Attributes), nil
	})
}

func (theRootDSE) find(ctx context.Context, req *request.Request, _ dn.DN) (*Entry, error) {
	return RootDSE(ctx, req, nil), nil
}

func (theRootDSE) refusal() string {
	return "the root DSE shows what the server can do and cannot be changed"
}

// supportedExtensions are the extended operations that the directory serves.
var supportedExtensions = []string{control.OIDPasswordModify, control.OIDWhoAmI, control.OIDStartTransaction, control.OIDEndTransaction,
	control.OIDRestore, control.OIDDiff, control.OIDStartJob, control.OIDCancelJob}

// supportedFeatures are the values of supportedFeatures.
var supportedFeatures = []string{
	"1.3.6.1.1.14",           // modify-increment, RFC 4525
	"1.3.6.1.4.1.4203.1.5.1", // all operational attributes, RFC 3673
	"1.3.6.1.4.1.4203.1.5.2", // attributes of a class, RFC 4529
	"1.3.6.1.4.1.4203.1.5.3", // true and false filters, RFC 4526
	"1.3.6.1.4.1.4203.1.5.4", // language tags, RFC 3866
	"1.3.6.1.4.1.4203.1.5.5", // language ranges, RFC 3866
}

// RootDSE returns the root DSE. The parameter attributes contains the requested
// attributes.
func RootDSE(ctx context.Context, req *request.Request, attributes []string) *Entry {
	v := &Entry{}
	add := func(name string, values ...string) { v.add(req.Schema, name, values...) }
	add("objectClass", "top", "extensibleObject")
	add("namingContexts", req.Server.Part.Config().Suffixes...)
	add("ref", req.Server.Settings().Referral...)
	add("subschemaSubentry", catalog.SubschemaName)
	add("supportedLDAPVersion", "3")
	add("supportedControl", request.SupportedControls()...)
	add("supportedExtension", slices.Concat(supportedExtensions, req.Server.Settings().Extensions)...)
	add("supportedFeatures", supportedFeatures...)
	add("supportedSASLMechanisms", bind.UsableMechanisms(req)...)
	add("vendorName", "ldapd")
	if req.Server.Settings().Version != "" {
		add("vendorVersion", req.Server.Settings().Version)
	}
	add("changelog", changelogName)
	add("monitorContext", monitorName)
	add("branchContext", request.BranchContext)
	if asks(attributes, "firstChangeNumber", "lastChangeNumber", "+") {
		addNumbers(ctx, req, v)
	}
	add("entryDN", "")
	if h := req.Server.Settings().Health; h != nil && asks(attributes, "alive", "healthy") {
		add("alive", boolean(h.IsLive()))
		add("healthy", boolean(h.IsReady(false)))
	}
	return v
}

// addNumbers adds the bounds of the changelog, if the requester may read it and changes are
// numbered.
func addNumbers(ctx context.Context, req *request.Request, v *Entry) {
	own := *req
	l := &listing{req: &own}
	l.judgeAs(req)
	if l.checkRead(ctx, changelogTop(req)) != nil {
		return
	}
	if first, last, err := changestream.Numbers(ctx, req.Server.Part); err == nil {
		v.add(req.Schema, "firstChangeNumber", strconv.FormatUint(first, 10))
		v.add(req.Schema, "lastChangeNumber", strconv.FormatUint(last, 10))
	}
}

// asks reports whether a request names one of some attributes that take time to find out, such
// as those of the server's health, for which the server is checked.
func asks(attributes []string, names ...string) bool {
	return slices.ContainsFunc(attributes, func(a string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(a, n) })
	})
}

func boolean(b bool) string {
	if b {
		return "TRUE"
	}
	return "FALSE"
}
