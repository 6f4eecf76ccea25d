package partition_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/search"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/store/table"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

var branchSeed = flag.Uint64("branch-seed", 0, "the seed of TestBranchModel")

// A lineModel is what one line of commits, the trunk or a branch, should show: the people
// by name, each with its sn and its descriptions.
type lineModel map[string]*personModel

type personModel struct {
	sn           string
	descriptions map[string]bool
}

func (m lineModel) clone() lineModel {
	c := lineModel{}
	for n, p := range m {
		c[n] = &personModel{p.sn, maps.Clone(p.descriptions)}
	}
	return c
}

func (m lineModel) String() string {
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s %s %v\n", n, m[n].sn, slices.Sorted(maps.Keys(m[n].descriptions)))
	}
	return b.String()
}

// A touch records how an operation touched a person. The field "how" is "x" if the operation
// made or deleted the entry, "u" if it replaced an attribute, and "v" with the value if it
// added a value.
type touch struct{ name, how string }

// clash reports whether two operations on different lines are in conflict.
func (a touch) clash(b touch) bool {
	return a.name == b.name && (a.how[0] != 'v' || b.how[0] != 'v' || a.how == b.how)
}

// A branchModel is a branch, the state that the branch should show, and the state that its
// base should show.
type branchModel struct {
	b       *branch.Branch
	base    lineModel
	line    lineModel
	own     []touch // what operations in the branch touched
	outside []touch // what commits after the base touched on the trunk
}

func (m *branchModel) clashes() bool { return len(m.clashing()) > 0 }

// clashing returns the names of the people for which an operation in the branch clashes with
// an operation on the trunk.
func (m *branchModel) clashing() map[string]bool {
	names := map[string]bool{}
	for _, a := range m.own {
		if slices.ContainsFunc(m.outside, a.clash) {
			names[a.name] = true
		}
	}
	return names
}

// conflicts maps the name of each entry in conflict to the attributes in conflict. It
// compares three states: the base, the branch, and the trunk.
func (m *branchModel) conflicts(trunk lineModel) map[string]string {
	all := map[string]string{}
	for n := range m.clashing() {
		base, own, newest := m.base[n], m.line[n], trunk[n]
		switch {
		case base == nil && own == nil && newest == nil:
			all[""] = "" // none of the three states has an entry with the name
		case base == nil || own == nil || newest == nil || m.replaced(n):
			all[n] = "the entry" // the entry was added, deleted, or deleted and added again
		default:
			all[n] = differing(base, own, newest)
		}
	}
	return all
}

// replaced reports whether an operation in the branch or on the trunk added or deleted the
// entry with the name n.
func (m *branchModel) replaced(n string) bool {
	return slices.ContainsFunc(slices.Concat(m.own, m.outside), touch{n, "x"}.is)
}

func (a touch) is(b touch) bool { return a == b }

// differing compares a person at the base, in the branch (own) and on the trunk (newest). For
// each attribute that branch and trunk changed in different ways, the result contains the
// values in the three states.
func differing(base, own, newest *personModel) string {
	var b strings.Builder
	is := func(description string, values func(*personModel) []string) {
		x, y, z := values(base), values(own), values(newest)
		if !slices.Equal(x, y) && !slices.Equal(x, z) && !slices.Equal(y, z) {
			fmt.Fprintln(&b, description, x, y, z)
		}
	}
	is("description", func(p *personModel) []string { return slices.Sorted(maps.Keys(p.descriptions)) })
	is("sn", func(p *personModel) []string { return []string{p.sn} })
	return b.String()
}

// conflictsOf converts conflicts to the form in which branchModel.conflicts returns them.
func conflictsOf(m *branchModel, found []branch.Conflict) map[string]string {
	all := map[string]string{}
	for _, c := range found {
		n := ""
		if c.Name != "" {
			n = strings.TrimPrefix(strings.TrimSuffix(c.Name, ","+domain), "uid=")
		}
		var b strings.Builder
		for _, d := range c.Attributes {
			fmt.Fprintln(&b, d.Description, sortedTexts(d.Base), sortedTexts(d.Branch), sortedTexts(d.Newest))
		}
		if all[n] = b.String(); n != "" && m.replaced(n) {
			all[n] = "the entry"
		}
	}
	return all
}

func sortedTexts(values [][]byte) (texts []string) {
	for _, v := range values {
		texts = append(texts, string(v))
	}
	slices.Sort(texts)
	return texts
}

// TestBranchModel makes random changes on the trunk and in branches, and merges and
// discards branches. A model says what every line must show, which branches can be merged,
// and which conflicts the other branches have.
func TestBranchModel(t *testing.T) {
	seed := *branchSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	eachEraseStore(t, func(t *testing.T, s table.Store) {
		t.Logf("again: -branch-seed %d", seed)
		ctx := context.Background()
		p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged, Txn: txn.Options{Lease: time.Minute}})
		must(t, err)
		t.Cleanup(func() { p.Close(ctx) })
		must(t, onlineschema.SetSuffixes(ctx, p, []string{domain}))
		must(t, add(t, p, domain, domainLines...))
		m := &mergeModel{t: t, p: p, r: rand.New(rand.NewPCG(seed, 1)), trunk: lineModel{}}
		for range 400 {
			m.step(ctx)
			if t.Failed() {
				t.FailNow()
			}
		}
		for _, b := range m.open {
			must(t, b.b.Discard(ctx))
		}
		wantSound(t, p)
		t.Logf("%d merges, %d refused", m.merges, m.refused)
	})
}

type mergeModel struct {
	t               *testing.T
	p               *partition.Partition
	r               *rand.Rand
	trunk           lineModel
	open            []*branchModel
	made            int
	merges, refused int
}

func (m *mergeModel) step(ctx context.Context) {
	switch n := m.r.IntN(24); {
	case n < 2 && len(m.open) < 4:
		m.made++
		b, err := branch.Create(ctx, m.p, branch.Options{Name: fmt.Sprint("b", m.made)})
		must(m.t, err)
		m.open = append(m.open, &branchModel{b: b, base: m.trunk.clone(), line: m.trunk.clone()})
	case n < 5 && len(m.open) > 0:
		m.merge(ctx, m.r.IntN(len(m.open)))
	case n == 5 && len(m.open) > 0 && m.r.IntN(4) == 0:
		i := m.r.IntN(len(m.open))
		must(m.t, m.open[i].b.Discard(ctx))
		m.open = slices.Delete(m.open, i, i+1)
	case n < 14 && len(m.open) > 0:
		b := m.open[m.r.IntN(len(m.open))]
		b.own = append(b.own, m.change(ctx, b.line, b.b.Update))
	default:
		t := m.change(ctx, m.trunk, updating(m.p))
		for _, b := range m.open {
			b.outside = append(b.outside, t)
		}
	}
	m.compare("the trunk", m.trunk, state.Newest(m.p))
	for _, b := range m.open {
		s, err := b.b.Snapshot(ctx)
		must(m.t, err)
		m.compare(b.b.Name(), b.line, s)
	}
}

// change adds, changes or deletes a random person on a line.
func (m *mergeModel) change(ctx context.Context, line lineModel, update func(context.Context, partition.By, func(*partition.Tx) error) (table.Revision, error)) touch {
	uid := fmt.Sprint("u", m.r.IntN(24))
	dn := name("uid=" + uid + "," + domain)
	value := fmt.Sprint("d", m.r.IntN(4))
	var t touch
	var fn func(tx *partition.Tx) error
	switch p := line[uid]; {
	case p == nil:
		line[uid], t = &personModel{"new", map[string]bool{}}, touch{uid, "x"}
		fn = func(tx *partition.Tx) error {
			_, err := tx.Add(ctx, dn, attrs("objectClass: inetOrgPerson", "cn: x", "sn: new"), false)
			return err
		}
	case m.r.IntN(6) == 0:
		delete(line, uid)
		t = touch{uid, "x"}
		fn = func(tx *partition.Tx) error { return tx.Delete(ctx, dn) }
	case p.descriptions[value] || m.r.IntN(2) == 0:
		p.sn, t = fmt.Sprint("s", m.r.IntN(1000)), touch{uid, "u"}
		fn = func(tx *partition.Tx) error {
			return tx.Modify(ctx, dn, []op.Modification{change(op.ModReplace, "sn", []byte(p.sn))})
		}
	default:
		p.descriptions[value], t = true, touch{uid, "v" + value}
		fn = func(tx *partition.Tx) error {
			return tx.Modify(ctx, dn, []op.Modification{change(op.ModAdd, "description", []byte(value))})
		}
	}
	_, err := update(ctx, partition.By{Name: "cn=model"}, fn)
	must(m.t, err)
	return t
}

// merge checks the conflicts of a branch and then merges it. The merge must fail if and only if
// the model has conflicts.
func (m *mergeModel) merge(ctx context.Context, i int) {
	b := m.open[i]
	found, err := b.b.Conflicts(ctx)
	must(m.t, err)
	if got, want := conflictsOf(b, found), b.conflicts(m.trunk); !maps.Equal(got, want) {
		m.t.Errorf("%s has the conflicts %+v\n%q\nwant\n%q\nwith %v in it and %v outside", b.b.Name(), found, got, want, b.own, b.outside)
	}
	_, err = b.b.Merge(ctx, partition.By{Name: "cn=merger"})
	if (err != nil) != b.clashes() {
		m.t.Errorf("merging %s: %v\nwith %v in it and %v outside", b.b.Name(), err, b.own, b.outside)
	}
	if err != nil {
		m.refused++
		if m.r.IntN(2) == 0 { // discard the branch, to make room for a branch that can be merged
			must(m.t, b.b.Discard(ctx))
			m.open = slices.Delete(m.open, i, i+1)
		}
		return
	}
	m.merges++
	m.open = slices.Delete(m.open, i, i+1)
	for _, t := range b.own {
		switch is := b.line[t.name]; {
		case t.how[0] == 'v' && m.trunk[t.name] != nil && is != nil:
			m.trunk[t.name].descriptions[t.how[1:]] = true
		case is == nil:
			delete(m.trunk, t.name)
		default:
			m.trunk[t.name] = lineModel{t.name: is}.clone()[t.name]
		}
	}
	for _, other := range m.open {
		other.outside = append(other.outside, b.own...)
	}
}

// compare compares the state s with the model of a line. It closes s.
func (m *mergeModel) compare(what string, want lineModel, s *partition.Snapshot) {
	m.t.Helper()
	defer s.Close()
	got := lineModel{}
	q := partition.Query{Scope: op.WholeSubtree, Filter: filter.Resolve(filter.MustParse("(objectClass=inetOrgPerson)"), s.Schema())}
	for r, err := range search.Search(context.Background(), s, q) {
		must(m.t, err)
		p := &personModel{descriptions: map[string]bool{}}
		for _, v := range r.Entry.Values(s.Schema().Attribute("sn")) {
			p.sn = string(v)
		}
		for _, v := range r.Entry.Values(s.Schema().Attribute("description")) {
			p.descriptions[string(v)] = true
		}
		got[string(r.Entry.Values(s.Schema().Attribute("uid"))[0])] = p
	}
	if got.String() != want.String() {
		m.t.Errorf("%s shows\n%s\nwant\n%s", what, got, want)
	}
}
