package directory_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/control"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// An outcome is what a client receives, and what the access log says.
type outcome struct {
	entries    []op.SearchEntry
	references int
	done       *op.Response
	persisted  bool
	cancel     func()
	log        lockedBuffer
}

func (o *outcome) Entry(e *op.SearchEntry) error {
	kept := *e
	kept.Attributes, kept.Controls = slices.Clone(e.Attributes), slices.Clone(e.Controls)
	o.entries = append(o.entries, kept)
	return nil
}
func (o *outcome) Reference([]string, []op.Control) error          { o.references++; return nil }
func (o *outcome) Intermediate(string, []byte, []op.Control) error { return nil }
func (o *outcome) Done(r *op.Response) error {
	kept := *r
	kept.Controls = slices.Clone(r.Controls)
	o.done = &kept
	return nil
}
func (o *outcome) Persist() error { o.persisted = true; o.cancel(); return nil }

func (o *outcome) each(ok func(e *op.SearchEntry) bool) bool {
	return len(o.entries) > 0 && !slices.ContainsFunc(o.entries, func(e op.SearchEntry) bool { return !ok(&e) })
}

func (o *outcome) eachHas(oid string) bool {
	return o.each(func(e *op.SearchEntry) bool { return hasControl(e.Controls, oid) })
}

func hasControl(cs []op.Control, oid string) bool {
	return slices.ContainsFunc(cs, func(c op.Control) bool { return c.OID == oid })
}

// lacks reports whether no entry has a value.
func (o *outcome) lacks(value string) bool {
	return o.each(func(e *op.SearchEntry) bool {
		for _, a := range e.Attributes {
			if slices.ContainsFunc(a.Values, func(v []byte) bool { return string(v) == value }) {
				return false
			}
		}
		return true
	})
}

// pairRequests are the requests of the pairs. They can be repeated.
var pairRequests = []op.Request{
	&op.Bind{Version: 3, Name: admin, Password: []byte("secret")},
	&op.Search{Base: "ou=a,dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(seeAlso=*)"), Attributes: []string{"description", "cn"}},
	&op.Compare{Name: "cn=1,ou=a,dc=example,dc=com", Description: "description", Value: []byte("new")},
	&op.Modify{Name: "cn=1,ou=a,dc=example,dc=com", Changes: changes(lines("replace l: x"))},
	&op.Add{Name: "cn=2,ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: device\ncn: 2"))},
	&op.Delete{Name: "cn=3,ou=a,dc=example,dc=com"},
	&op.ModifyDN{Name: "cn=3,ou=a,dc=example,dc=com", NewRDN: "cn=4", DeleteOldRDN: true},
	&op.Extended{OID: control.OIDPasswordModify, Value: []byte("\x30\x24\x80\x1bcn=1,ou=a,dc=example,dc=com\x82\x05new12")},
	&op.Extended{OID: control.OIDWhoAmI},
}

// A pairControl is a control of TestPairsOfControls. The function shows reports whether an
// outcome shows the effect of the control. It is nil if a successful operation shows no effect.
type pairControl struct {
	oid   string
	value []byte
	shows func(o *outcome) bool
}

// pairWorld is a directory with an entry that has a past, a subentry, a referral and a branch.
type pairWorld struct {
	t        *testing.T
	s        *directory.Session
	log      *lockedBuffer
	controls []pairControl
	open     []byte // the open transaction
}

func newPairWorld(t *testing.T) *pairWorld {
	w := &pairWorld{t: t, log: &lockedBuffer{}}
	p, d := newBranched(t, branchStores["embedded"](t), directory.Options{Access: slog.New(slog.NewJSONHandler(w.log, nil))})
	w.s = d.NewSession(nil)
	w.do(pairRequests[0])
	const common = "\nobjectClass: extensibleObject\nseeAlso: ou=a,dc=example,dc=com\nuserPassword: secret\ndescription: old"
	w.do(&op.Add{Name: "dc=example,dc=com", Attributes: attributes(lines("objectClass: domain"))})
	w.do(&op.Add{Name: "ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: organizationalUnit\nou: a\nadministrativeRole: collectiveAttributeSpecificArea"))})
	w.do(&op.Add{Name: "cn=1,ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: device" + common))})
	w.do(&op.Add{Name: "cn=sub,ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: subentry\nsubtreeSpecification: {}" + common))})
	w.do(&op.Add{Name: "cn=ref,ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: referral\nobjectClass: extensibleObject\nref: ldap://h/cn=x"))}, op.Control{OID: control.OIDManageDsaIT})
	if _, err := p.DB.Checkpoint(t.Context(), "then"); err != nil {
		t.Fatal(err)
	}
	w.do(&op.Add{Name: "cn=b,cn=branches", Attributes: values("objectClass", "branch")})
	for _, name := range []string{"1", "sub"} {
		w.do(&op.Modify{Name: "cn=" + name + ",ou=a,dc=example,dc=com", Changes: changes(lines("add description: new"))})
	}
	o := w.run(pairRequests[3], op.Control{OID: control.OIDToken})
	w.controls = pairControls(o.done.Controls[0].Value)
	return w
}

// do sends a request that must succeed.
func (w *pairWorld) do(r op.Request, controls ...op.Control) {
	w.t.Helper()
	if o := w.run(r, controls...); o.done.Code != op.Success {
		w.t.Fatalf("%+v: %v", r, &o.done.Result)
	}
}

func (w *pairWorld) run(r op.Request, controls ...op.Control) *outcome {
	w.log.take()
	o := &outcome{}
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	o.cancel = cancel
	m := &op.Message{ID: 1, Request: r, Controls: controls}
	w.s.Receive(m)
	w.s.Serve(ctx, m, o)
	o.log.WriteString(w.log.take())
	if id := w.open; id != nil && hasControl(controls, control.OIDTransaction) {
		w.open = nil
		w.commit(o, id)
	}
	return o
}

// commit ends the transaction of an update. The outcome is then that of the update in the
// transaction.
func (w *pairWorld) commit(o *outcome, id []byte) {
	value := append([]byte{0x30, byte(2 + len(id)), 4, byte(len(id))}, id...)
	end := w.run(&op.Extended{OID: control.OIDEndTransaction, Value: value})
	result, err := control.ParseEndTransactionResult(end.done.Value)
	if err != nil {
		w.t.Error(err)
	}
	if o.done.Code == op.Success {
		o.done.Code, o.done.Diagnostic = end.done.Code, end.done.Diagnostic
	}
	for _, u := range result.Updates {
		o.done.Controls = append(o.done.Controls, u.Controls...)
	}
}

func pairControls(token []byte) []pairControl {
	logged := func(text string) func(*outcome) bool {
		return func(o *outcome) bool { return strings.Contains(o.log.String(), text) }
	}
	answered := func(oid string) func(*outcome) bool {
		return func(o *outcome) bool { return hasControl(o.done.Controls, oid) }
	}
	named := func(text string) []byte { return namedControl(text).Value }
	isSearch := func(o *outcome) bool { return o.entries != nil }
	return []pairControl{
		{control.OIDManageDsaIT, nil, func(o *outcome) bool { return o.references == 0 }},
		{control.OIDPagedResults, control.PagedResults{Size: 2}.Encode(), answered(control.OIDPagedResults)},
		{control.OIDSortRequest, named("sort cn"), answered(control.OIDSortResponse)},
		{control.OIDVLVRequest, []byte("\x30\x0e\x02\x01\x00\x02\x01\x01\xa0\x06\x02\x01\x01\x02\x01\x00"), answered(control.OIDVLVResponse)},
		{control.OIDMatchedValues, named("matched (description=new)"), func(o *outcome) bool { return o.lacks("old") }},
		{control.OIDDereference, named("deref seeAlso:ou"), func(o *outcome) bool { return o.eachHas(control.OIDDereference) }},
		{control.OIDAssertion, named("assertion (objectClass=*)"), nil}, // see also TestPairsOfControls
		{control.OIDPreRead, named("preRead cn"), answered(control.OIDPreRead)},
		{control.OIDPostRead, named("postRead cn"), answered(control.OIDPostRead)},
		{control.OIDNoOp, nil, func(o *outcome) bool { return o.done.Code == op.NoOperation }},
		{control.OIDNoOp12, nil, func(o *outcome) bool { return o.done.Code == op.NoOperation }},
		{control.OIDProxiedAuthorization, []byte("dn:" + admin), logged(`"as":"dn:cn=admin`)},
		{control.OIDAuthzIDRequest, nil, answered(control.OIDAuthzIDResponse)},
		{control.OIDPasswordPolicy, nil, nil},
		{control.OIDAccountUsable, nil, func(o *outcome) bool { return o.eachHas(control.OIDAccountUsable) }},
		{control.OIDEffectiveRights, nil, func(o *outcome) bool {
			return o.each(func(e *op.SearchEntry) bool {
				return slices.ContainsFunc(e.Attributes, func(a entry.Attribute) bool { return a.Description() == "entryLevelRights" })
			})
		}},
		{control.OIDSessionTracking, named("session 192.0.2.1 app 1.2.3 one"), logged(`"sessions":`)},
		{control.OIDSubentries, named("subentries TRUE"), func(o *outcome) bool {
			return o.each(func(e *op.SearchEntry) bool { return strings.HasPrefix(e.Name, "cn=sub,") })
		}},
		{control.OIDPermissiveModify, nil, nil},
		{control.OIDRelaxRules, nil, nil},
		{control.OIDTreeDelete, nil, nil},
		{control.OIDDontUseCopy, nil, nil},
		{control.OIDSyncRequest, syncControl(1).Value, func(o *outcome) bool {
			return o.eachHas(control.OIDSyncState) && hasControl(o.done.Controls, control.OIDSyncDone)
		}},
		{control.OIDPersistentSearch, psearchControl().Value, func(o *outcome) bool { return o.persisted }},
		{control.OIDAt, []byte("then"), func(o *outcome) bool { return isSearch(o) && o.lacks("new") || o.done.Code == op.CompareFalse }},
		{control.OIDToken, token, nil},
		{control.OIDTransaction, nil, logged(`"transaction":`)},
		{control.OIDExplain, []byte("run"), answered(control.OIDExplain)},
		{control.OIDAccessDiff, nil, nil},
		{control.OIDBranch, []byte("b"), logged(`"branch":"b"`)},
	}
}

// TestPairsOfControls sends every pair of controls with every operation that both go with. The
// answer must show the effect of both controls, or refuse the pair with a diagnostic. The pairs
// that are refused are those of docs/protocol.md, whether critical or not.
func TestPairsOfControls(t *testing.T) {
	w := newPairWorld(t)
	for _, r := range pairRequests {
		for oid := range directory.Controls(r) {
			if !slices.ContainsFunc(w.controls, func(c pairControl) bool { return c.oid == oid || oid == control.OIDAuthzIDResponse }) {
				t.Fatalf("%s is not in pairControls", directory.ControlText(oid))
			}
		}
	}
	refused := map[string]bool{}
	for _, r := range pairRequests {
		goes := directory.Controls(r)
		for i, a := range w.controls {
			for _, b := range w.controls[i+1:] {
				if !goes[a.oid] || !goes[b.oid] {
					continue
				}
				if w.pair(r, a, b) {
					refused[pairText(directory.ControlText(a.oid), directory.ControlText(b.oid))] = true
				}
			}
		}
	}
	for pair := range documentedPairs(t) {
		if !refused[pair] {
			t.Errorf("docs/protocol.md says that %s exclude each other: they are served", pair)
		}
		delete(refused, pair)
	}
	for pair := range refused {
		t.Errorf("docs/protocol.md does not say that %s exclude each other", pair)
	}
}

func pairText(a, b string) string {
	name := regexp.MustCompile(`^\S* \((.*)\)$`)
	both := []string{name.ReplaceAllString(a, "$1"), name.ReplaceAllString(b, "$1")}
	slices.Sort(both)
	return strings.Join(both, " and ")
}

// documentedPairs returns the pairs of the table in docs/protocol.md.
func documentedPairs(t *testing.T) map[string]bool {
	text, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "| control | excludes | result |\n|---|---|---|\n")
	if !ok {
		t.Fatal("docs/protocol.md has no table of pairs")
	}
	pairs := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for b := range strings.SplitSeq(cells[2], ",") {
			pairs[pairText(strings.TrimSpace(cells[1]), strings.TrimSpace(b))] = true
		}
	}
	return pairs
}

// pair sends a pair of controls, and reports whether it was refused.
func (w *pairWorld) pair(r op.Request, a, b pairControl) (refused bool) {
	w.t.Helper()
	name := fmt.Sprintf("%T with %s and %s", r, directory.ControlText(a.oid), directory.ControlText(b.oid))
	w.run(&op.Delete{Name: "cn=2,ou=a,dc=example,dc=com"})
	w.run(&op.Delete{Name: "cn=4,ou=a,dc=example,dc=com"})
	w.run(&op.Add{Name: "cn=3,ou=a,dc=example,dc=com", Attributes: attributes(lines("objectClass: device\ncn: 3"))})
	inBranch := a.oid == control.OIDBranch || b.oid == control.OIDBranch
	if inBranch {
		w.run(&op.Delete{Name: "cn=b,cn=branches"})
		w.do(&op.Add{Name: "cn=b,cn=branches", Attributes: values("objectClass", "branch")})
	}
	if x, ok := r.(*op.Compare); ok && (a.oid == control.OIDPasswordPolicy && b.oid != control.OIDAt) { // secrets have no past
		r = &op.Compare{Name: x.Name, Description: "userPassword", Value: []byte("new12")}
	}
	cs := w.controlsOf(r, a, b)
	o := w.run(r, cs...)
	if o.done.Code == op.UnwillingToPerform || o.done.Code == op.ProtocolError || o.done.Code == op.VirtualListViewError {
		if o.done.Diagnostic == "" {
			w.t.Errorf("%s: %v without a diagnostic", name, o.done.Code)
		}
		return true
	}
	if !slices.Contains([]op.Code{op.Success, op.CompareTrue, op.CompareFalse, op.NoOperation, op.Canceled}, o.done.Code) {
		w.t.Errorf("%s: %v", name, &o.done.Result)
	}
	for _, c := range []pairControl{a, b} {
		if c.shows != nil && !c.shows(o) {
			w.t.Errorf("%s: no effect of %s: %v, %d entries, %s", name, directory.ControlText(c.oid), &o.done.Result, len(o.entries), o.log.String())
		}
	}
	for i := range cs { // a false assertion must count beside every other control
		if cs[i].OID == control.OIDAssertion {
			cs[i].Value = wire.AppendFilter(nil, filter.MustParse("(objectClass=room)"))
			if o := w.run(r, w.renewed(cs)...); o.done.Code != op.AssertionFailed && o.done.Code != op.NoSuchObject && o.done.Code != op.EntryAlreadyExists {
				w.t.Errorf("%s: a false assertion: %v", name, &o.done.Result)
			}
		}
	}
	return false
}

// controlsOf returns the controls of a pair. A view needs a sort control.
func (w *pairWorld) controlsOf(r op.Request, pair ...pairControl) (cs []op.Control) {
	if hasView := slices.ContainsFunc(pair, func(c pairControl) bool { return c.oid == control.OIDVLVRequest }); hasView &&
		!slices.ContainsFunc(pair, func(c pairControl) bool { return c.oid == control.OIDSortRequest }) {
		cs = append(cs, namedControl("sort cn"))
	}
	for _, c := range pair {
		x := op.Control{OID: c.oid, Critical: true, Value: c.value}
		if c.oid == control.OIDToken && directory.Controls(r)[control.OIDPreRead] || c.oid == control.OIDToken && directory.Controls(r)[control.OIDNoOp] {
			x.Value = nil // an update requests a token
		}
		cs = append(cs, x)
	}
	return w.renewed(cs)
}

// renewed begins a transaction for a transaction control.
func (w *pairWorld) renewed(cs []op.Control) []op.Control {
	for i := range cs {
		if cs[i].OID == control.OIDTransaction {
			cs[i].Value = slices.Clone(w.run(&op.Extended{OID: control.OIDStartTransaction}).done.Value)
			w.open = cs[i].Value
		}
	}
	return cs
}
