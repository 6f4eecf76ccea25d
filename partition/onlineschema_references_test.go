package partition_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/partition/state"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

var referenceSteps = flag.Int("references", 200, "updates that each client of TestReferencesTogether makes")

// follow makes the values of attributes follow the entries that they name.
func follow(t *testing.T, p *partition.Partition, mustExist bool, attributes ...string) {
	t.Helper()
	for _, a := range attributes {
		must(t, onlineschema.SetReferences(context.Background(), p, []catalog.Reference{catalog.Reference{Attribute: a, MustExist: mustExist}}, true))
	}
}

func addGroup(t *testing.T, p *partition.Partition, dn string, members ...string) error {
	lines := []string{"objectClass: groupOfNames"}
	for _, m := range members {
		lines = append(lines, "member: "+m)
	}
	return add(t, p, dn, lines...)
}

// wantValues checks that an entry has exactly these values of an attribute.
func wantValues(t *testing.T, p *partition.Partition, dn, attribute string, want ...string) {
	t.Helper()
	s := state.Newest(p)
	defer s.Close()
	at, err := s.Find(context.Background(), name(dn))
	must(t, err)
	e, err := s.Entry(context.Background(), at.ID, false)
	must(t, err)
	var got []string
	for _, a := range e.Attributes {
		for _, v := range a.Values {
			if a.Description() == attribute {
				got = append(got, string(v))
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s of %s is\n  %q, want\n  %q", attribute, dn, got, want)
	}
}

const group = "cn=group," + domain

func TestReferencesFollow(t *testing.T) {
	a, b := "cn=a,"+inside, "cn=b,"+inside
	for what, test := range map[string]func(t *testing.T, p *partition.Partition){
		"a rename": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a, "CN=B,OU=inside,"+domain, "cn=nobody,"+inside))
			must(t, move(t, p, a, "cn=c", inside))
			wantValues(t, p, group, "member", "cn=c,"+inside, "CN=B,OU=inside,"+domain, "cn=nobody,"+inside)
		},
		"a rename in another spelling": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a))
			must(t, move(t, p, a, "cn=A", inside))
			wantValues(t, p, group, "member", a)
		},
		"a move of a subtree": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a, "CN = B, OU = Inside, "+domain, inside))
			must(t, move(t, p, inside, "ou=in", outside))
			in := "ou=in," + outside
			wantValues(t, p, group, "member", "cn=a,"+in, "CN=B,"+in, in)
			wantValues(t, p, "cn=b,"+in, "manager", "cn=a,"+in)
		},
		"to a name that is there already": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a, "cn=c,"+inside))
			must(t, move(t, p, a, "cn=c", inside))
			wantValues(t, p, group, "member", "cn=c,"+inside)
		},
		"a value of the entry itself": func(t *testing.T, p *partition.Partition) {
			must(t, modify(t, p, a, change(op.ModAdd, "manager", []byte(a))))
			must(t, move(t, p, a, "cn=c", outside))
			wantValues(t, p, "cn=c,"+outside, "manager", "cn=c,"+outside)
			wantValues(t, p, b, "manager", "cn=c,"+outside)
			must(t, remove(t, p, "cn=c,"+outside))
			wantValues(t, p, b, "manager")
		},
		"a deletion": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a, b))
			must(t, remove(t, p, a))
			wantValues(t, p, group, "member", b)
			wantValues(t, p, b, "manager")
		},
		"a deletion of the last member": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a))
			must(t, remove(t, p, a))
			wantValues(t, p, group, "member", "")
			must(t, modify(t, p, group, change(op.ModReplace, "member", []byte(b))))
		},
		"a deletion of a tree": func(t *testing.T, p *partition.Partition) {
			must(t, addGroup(t, p, group, a, b, inside, outside, "cn=nobody,"+inside))
			must(t, update(t, p, func(tx *partition.Tx) error {
				_, _, err := tx.DeleteTree(context.Background(), name(inside), 2)
				return err
			}))
			wantValues(t, p, group, "member", inside, outside, "cn=nobody,"+inside)
			must(t, update(t, p, func(tx *partition.Tx) error {
				_, _, err := tx.DeleteTree(context.Background(), name(inside), 100)
				return err
			}))
			wantValues(t, p, group, "member", outside, "cn=nobody,"+inside)
		},
		"values with options": func(t *testing.T, p *partition.Partition) {
			must(t, add(t, p, group, "objectClass: groupOfNames", "member: "+b, "member;x-old: "+a, "member;x-old: "+b))
			must(t, move(t, p, a, "cn=c", inside))
			wantValues(t, p, group, "member;x-old", "cn=c,"+inside, b)
			wantValues(t, p, group, "member", b)
		},
		"many values": func(t *testing.T, p *partition.Partition) {
			members := []string{a}
			for i := range 300 {
				members = append(members, fmt.Sprintf("cn=other %d,%s", i, outside))
			}
			must(t, addGroup(t, p, group, members...))
			must(t, move(t, p, a, "cn=c", inside))
			members[0] = "cn=c," + inside
			wantValues(t, p, group, "member", members...)
			must(t, remove(t, p, "cn=c,"+inside))
			wantValues(t, p, group, "member", members[1:]...)
		},
		"names that the index cuts": func(t *testing.T, p *partition.Partition) {
			long := func(end string) string { return "cn=" + strings.Repeat("long ", 60) + end }
			must(t, addPerson(t, p, long("1,")+inside))
			must(t, addPerson(t, p, long("2,")+inside))
			must(t, addGroup(t, p, group, long("1,")+inside, long("2,")+inside))
			must(t, move(t, p, long("1,")+inside, "cn=short", inside))
			wantValues(t, p, group, "member", "cn=short,"+inside, long("2,")+inside)
			must(t, remove(t, p, long("2,")+inside))
			wantValues(t, p, group, "member", "cn=short,"+inside)
		},
		"names with a unique identifier": func(t *testing.T, p *partition.Partition) {
			must(t, add(t, p, group, "objectClass: groupOfUniqueNames", "uniqueMember: "+a, "uniqueMember: "+a+"#'01'B"))
			must(t, move(t, p, a, "cn=c", inside))
			// A value with a unique identifier does not follow the entry.
			wantValues(t, p, group, "uniqueMember", "cn=c,"+inside, a+"#'01'B")
		},
		"in one transaction": func(t *testing.T, p *partition.Partition) {
			ctx := context.Background()
			above := name(outside)
			must(t, update(t, p, func(tx *partition.Tx) error {
				_, err := tx.Add(ctx, name("cn=new,"+inside), attrs("objectClass: person", "sn: New"), false)
				_, err2 := tx.Add(ctx, name(group), attrs("objectClass: groupOfNames", "member: cn=new,"+inside), false)
				return errors.Join(err, err2, tx.Rename(ctx, name("cn=new,"+inside), name("cn=newer")[0], true, &above))
			}))
			wantValues(t, p, group, "member", "cn=newer,"+outside)
		},
	} {
		t.Run(what, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, p *partition.Partition) {
				units(t, p)
				must(t, addPerson(t, p, a))
				must(t, addPerson(t, p, b, "manager: "+a))
				follow(t, p, false, "member", "uniqueMember", "manager")
				test(t, p)
				wantSound(t, p)
			})
		})
	}
}

func TestReferencesMustExist(t *testing.T) {
	ctx := context.Background()
	a, b := "cn=a,"+inside, "cn=b,"+inside
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		units(t, p)
		must(t, addPerson(t, p, a))
		must(t, addGroup(t, p, group, a, b, "cn=c,"+inside))
		member := catalog.Reference{Attribute: "member", MustExist: true}
		err := onlineschema.SetReferences(ctx, p, []catalog.Reference{member}, true)
		if expected(t, err, partition.Constraint) || !strings.Contains(err.Error(), "2 values") || !strings.Contains(err.Error(), group+": "+b) {
			t.Errorf("values that name nothing: %v", err)
		}
		// The value is not refused, because MustExist is not in force.
		must(t, modify(t, p, group, change(op.ModAdd, "member", []byte("cn=d,"+inside))))
		follow(t, p, false, "member")
		n, err := onlineschema.RepairReferences(ctx, p, "member", partition.By{})
		must(t, err)
		if n != 3 {
			t.Errorf("%d values were taken away, want 3", n)
		}
		wantValues(t, p, group, "member", a)
		follow(t, p, true, "member")
		for what, err := range map[string]error{
			"a modify":  modify(t, p, group, change(op.ModAdd, "member", []byte(b))),
			"an add":    addGroup(t, p, "cn=other,"+domain, b),
			"elsewhere": modify(t, p, group, change(op.ModAdd, "member", []byte("dc=org"))),
		} {
			refused := expected(t, err, partition.Constraint)
			if refused || !strings.Contains(err.Error(), "member") {
				t.Errorf("%s: %v", what, err)
			}
		}
		must(t, addGroup(t, p, "cn=self,"+domain, "cn=self,"+domain, domain, ""))
		must(t, modify(t, p, group, change(op.ModAdd, "member", []byte(inside)), change(op.ModAdd, "member", []byte(""))))
		wantSound(t, p)
	})
}

// TestRepairReferences removes more values than one commit removes. The values are under
// several descriptions, and the keys of some values are too long for the index, which cuts
// them. The test checks that exactly the values that name no entry are removed.
func TestRepairReferences(t *testing.T) {
	t.Parallel()
	for _, layout := range []catalog.Layout{catalog.RowLayout, catalog.ColumnLayout} {
		eachProtocol(t, func(t *testing.T, p *partition.Partition) {
			ctx := context.Background()
			must(t, onlineschema.SetIndexes(ctx, p, append(p.Config().Indexes, catalog.Index{Attribute: "seeAlso", Layout: layout})))
			units(t, p)
			lines := []string{"objectClass: organizationalUnit", "seeAlso;x-old: " + inside, "seeAlso;x-old: cn=gone," + inside, "seeAlso;x-new: cn=gone," + inside}
			for i := range 510 {
				lines = append(lines, fmt.Sprintf("seeAlso: cn=%d,%s", i, outside))
			}
			long := strings.Repeat("long ", 60)
			for i := range 3 {
				lines = append(lines, fmt.Sprintf("seeAlso: cn=%s%d,%s", long, i, outside))
			}
			must(t, addPerson(t, p, "cn="+long+"1,"+outside))
			must(t, add(t, p, "ou=names,"+domain, lines...))
			follow(t, p, false, "seeAlso")
			n, err := onlineschema.RepairReferences(ctx, p, "seeAlso", partition.By{})
			must(t, err)
			if n != 514 {
				t.Errorf("%d values were removed, want 514", n)
			}
			wantValues(t, p, "ou=names,"+domain, "seeAlso", "cn="+strings.TrimSpace(long)+" 1,"+outside)
			wantValues(t, p, "ou=names,"+domain, "seeAlso;x-old", inside)
			follow(t, p, true, "seeAlso")
			wantSound(t, p)
		})
	}
}

func TestReferencesAreRefused(t *testing.T) {
	ctx := context.Background()
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		follow(t, p, false, "member")
		set := func(attribute string, on bool) error {
			return onlineschema.SetReferences(ctx, p, []catalog.Reference{catalog.Reference{Attribute: attribute}}, on)
		}
		must(t, set("member", true)) // it follows already
		_, repaired := onlineschema.RepairReferences(ctx, p, "uniqueMember", partition.By{})
		for what, err := range map[string]error{
			"that does not follow": set("uniqueMember", false),
			"no name":              set("mail", true),
			"no index":             set("seeAlso", true),
			"the server's":         set("creatorsName", true),
			"the index dropped":    onlineschema.SetIndexes(ctx, p, []catalog.Index{{Attribute: "cn", Layout: catalog.RowLayout}}),
			"repaired unasked":     repaired,
		} {
			if expected(t, err, partition.Unwilling) {
				t.Errorf("%s: done", what)
			}
		}
		all, err := onlineschema.References(p)
		must(t, err)
		if !slices.Equal(all, []catalog.Reference{{Attribute: "member"}}) {
			t.Errorf("references: %v", all)
		}
		must(t, set("member", false))
		units(t, p)
		must(t, addGroup(t, p, group, inside))
		must(t, remove(t, p, inside))
		wantValues(t, p, group, "member", inside)
	})
}

func TestTooManyReferences(t *testing.T) {
	t.Parallel()
	p := open(t)
	must(t, onlineschema.SetSuffixes(context.Background(), p, []string{domain}))
	must(t, add(t, p, domain, domainLines...))
	units(t, p)
	follow(t, p, false, "member")
	var members []string
	for i := range 5001 {
		members = append(members, fmt.Sprintf("cn=%d,%s", i, inside))
	}
	must(t, addGroup(t, p, group, members...))
	if expected(t, move(t, p, inside, "ou=in", domain), partition.TooMany) {
		t.Error("5,001 values were changed in one commit")
	}
	must(t, modify(t, p, group, change(op.ModDelete, "member", []byte(members[0]))))
	must(t, move(t, p, inside, "ou=in", domain))
	wantSound(t, p)
}

func TestLoadReferences(t *testing.T) {
	ctx := context.Background()
	eachProtocol(t, func(t *testing.T, p *partition.Partition) {
		units(t, p)
		follow(t, p, true, "member")
		loading := func(members ...string) error {
			l, err := load.Load(ctx, p, load.Options{})
			must(t, err)
			defer l.Abort(ctx)
			lines := []string{"objectClass: groupOfNames"}
			for _, m := range members {
				lines = append(lines, "member: "+m)
			}
			must(t, l.Refuse(name("cn=refused,"+inside)))
			must(t, l.Add(ctx, name(group), attrs(lines...)))
			must(t, l.Add(ctx, name("cn=later,"+inside), attrs("objectClass: person", "sn: Later")))
			_, err = l.Commit(ctx)
			return err
		}
		err := loading("cn=later,"+inside, "cn=never,"+inside)
		if expected(t, err, partition.Constraint) || !strings.Contains(err.Error(), "cn=never") || strings.Contains(err.Error(), "cn=later") {
			t.Errorf("a load with a value that names nothing: %v", err)
		}
		if err := loading("cn=refused," + inside); expected(t, err, partition.Constraint) || !strings.Contains(err.Error(), "cn=refused") {
			t.Errorf("a load with a value that names a refused entry: %v", err)
		}
		must(t, loading("cn=later,"+inside, group, outside, ""))
		wantSound(t, p)
	})
}

// TestReferencesOnTwoServers adds a value on one server while another server deletes, renames
// or moves the entry that the value names, or an entry above it. When the transactions first
// run, neither sees the changes of the other. Afterwards the value must not exist or must name
// an entry.
func TestReferencesOnTwoServers(t *testing.T) {
	type step = func(tx *partition.Tx) error
	ctx := context.Background()
	a := "cn=a,ou=team," + inside
	gives := func(tx *partition.Tx) error {
		return tx.Modify(ctx, name(group), []op.Modification{change(op.ModAdd, "member", []byte(a))})
	}
	adds := func(tx *partition.Tx) error {
		_, err := tx.Add(ctx, name("cn=new,"+domain), attrs("objectClass: groupOfNames", "member: "+a), false)
		return err
	}
	renames := func(dn, rdn string) step {
		return func(tx *partition.Tx) error { return tx.Rename(ctx, name(dn), name(rdn)[0], true, nil) }
	}
	moves := func(dn string) step {
		return func(tx *partition.Tx) error {
			above := name(outside)
			return tx.Rename(ctx, name(dn), name(dn)[0], true, &above)
		}
	}
	deletes := func(tx *partition.Tx) error { return tx.Delete(ctx, name(a)) }
	deletesAll := func(tx *partition.Tx) error {
		_, _, err := tx.DeleteTree(ctx, name(inside), 100)
		return err
	}
	for what, other := range map[string]step{
		"a deletion": deletes, "a tree's deletion": deletesAll, "a rename": renames(a, "cn=b"),
		"a move": moves(a), "a rename of the parent": renames("ou=team,"+inside, "ou=crew"),
		"a move further up": moves(inside),
	} {
		for how, first := range map[string]step{"a new value": gives, "a new entry": adds} {
			t.Run(how+" and "+what, func(t *testing.T) {
				s := tabletest.NewMem()
				ps := []*partition.Partition{server(t, s)}
				must(t, onlineschema.SetSuffixes(ctx, ps[0], []string{domain}))
				must(t, add(t, ps[0], domain, domainLines...))
				units(t, ps[0])
				must(t, add(t, ps[0], "ou=team,"+inside, "objectClass: organizationalUnit"))
				must(t, addPerson(t, ps[0], a))
				must(t, addGroup(t, ps[0], group, domain))
				follow(t, ps[0], true, "member")
				ps = append(ps, server(t, s))
				must(t, ps[1].CatchUp(ctx))
				var ready sync.WaitGroup // neither transaction commits before both have read
				ready.Add(2)
				together(2, func(i int, _ *rand.Rand) {
					var met sync.Once
					_, err := write.Update(ctx, ps[i], partition.By{}, func(tx *partition.Tx) error {
						err := []step{first, other}[i](tx)
						met.Do(func() { ready.Done(); ready.Wait() })
						return err
					})
					if !expected(t, err, partition.Constraint) && i == 1 {
						t.Error("what others refer to could not be changed")
					}
				})
				must(t, ps[0].CatchUp(ctx))
				wantSound(t, ps[0])
			})
		}
	}
}

// TestReferencesTogether runs clients of three servers. At the same time, they add, rename and
// delete entries and change the values that name these entries. Afterwards the directory must
// be sound.
func TestReferencesTogether(t *testing.T) {
	ctx := context.Background()
	ps := []*partition.Partition{}
	s := tabletest.NewMem()
	for range 3 {
		ps = append(ps, server(t, s))
		if len(ps) == 1 {
			must(t, onlineschema.SetSuffixes(ctx, ps[0], []string{domain}))
			must(t, add(t, ps[0], domain, domainLines...))
			units(t, ps[0])
			for i := range 4 {
				must(t, addGroup(t, ps[0], fmt.Sprintf("cn=group %d,%s", i, domain), domain))
			}
			follow(t, ps[0], true, "member")
		}
	}
	above := []string{inside, outside, "ou=team," + inside, "ou=team," + outside}
	done := make([]int, 6)
	together(len(done), func(i int, r *rand.Rand) {
		p := ps[i%len(ps)]
		place := func() string { return above[r.IntN(len(above))] }
		person := func() string { return fmt.Sprintf("cn=p%d,%s", r.IntN(6), place()) }
		group := func() string { return fmt.Sprintf("cn=group %d,%s", r.IntN(4), domain) }
		for range *referenceSteps {
			var err error
			switch r.IntN(8) {
			case 0:
				err = add(t, p, place(), "objectClass: organizationalUnit")
			case 1:
				err = move(t, p, "ou=team,"+inside, "ou=team", outside)
			case 2:
				err = move(t, p, "ou=team,"+outside, "ou=team", inside)
			case 3:
				err = move(t, p, person(), fmt.Sprintf("cn=p%d", r.IntN(6)), place())
			case 4:
				err = remove(t, p, person())
			case 5:
				err = modify(t, p, group(), change(op.ModDelete, "member", []byte(person())))
			case 6:
				err = addPerson(t, p, person())
			default:
				err = modify(t, p, group(), change(op.ModAdd, "member", []byte(person())))
			}
			if expected(t, err, partition.NoSuchEntry, partition.EntryExists, partition.NotLeaf, partition.Constraint,
				partition.ValueExists, partition.NoSuchAttribute, partition.Unwilling, partition.NamingViolation) {
				done[i]++
			}
		}
	})
	for i, n := range done {
		if n == 0 {
			t.Errorf("client %d made %d updates: the test sees nothing", i, n)
		}
	}
	must(t, ps[0].CatchUp(ctx))
	wantSound(t, ps[0])
}
