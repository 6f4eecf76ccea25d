package directory_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
)

// TestUpdatesAreLinear checks that an update of eight times as many values, changes or attributes
// costs about eight times as much.
func TestUpdatesAreLinear(t *testing.T) {
	_, s := newPeople(t, 1)
	serve(t, s, &op.Add{Name: "cn=wide,dc=example,dc=com", Attributes: []op.PartialAttribute{
		{Description: "objectClass", Values: octets("groupOfNames")}, {Description: "member", Values: names(40000)}}})
	one := func(kind op.ModKind, values ...[]byte) op.Modification {
		return op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: "description", Values: values}}
	}
	device := func(more ...op.PartialAttribute) op.Request {
		return &op.Add{Name: "cn=new,dc=example,dc=com", Attributes: append([]op.PartialAttribute{
			{Description: "objectClass", Values: octets("device")}}, more...)}
	}
	modify := func(changes ...op.Modification) op.Request {
		return &op.Modify{Name: "cn=d00,dc=example,dc=com", Changes: changes}
	}
	for what, request := range map[string]func(n int) op.Request{
		"values of one change": func(n int) op.Request { return modify(one(op.ModReplace, names(n)...)) },
		"changes that add": func(n int) (r op.Request) {
			var cs []op.Modification
			for _, v := range names(n) {
				cs = append(cs, one(op.ModAdd, v))
			}
			return modify(cs...)
		},
		"changes that delete": func(n int) (r op.Request) {
			cs := []op.Modification{one(op.ModReplace, names(n)...)}
			for _, v := range names(n) {
				cs = append(cs, one(op.ModDelete, v))
			}
			return modify(cs...)
		},
		"members that go": func(n int) op.Request {
			return &op.Modify{Name: "cn=wide,dc=example,dc=com", Changes: []op.Modification{{Kind: op.ModDelete,
				PartialAttribute: op.PartialAttribute{Description: "member", Values: names(n)}}}}
		},
		"values of a new entry": func(n int) op.Request {
			return device(op.PartialAttribute{Description: "description", Values: names(n)})
		},
		"one attribute again and again": func(n int) op.Request {
			var as []op.PartialAttribute
			for _, v := range names(n) {
				as = append(as, op.PartialAttribute{Description: "description", Values: [][]byte{v}})
			}
			return device(as...)
		},
		"unknown attributes": func(n int) op.Request {
			var as []op.PartialAttribute
			for i := range n {
				as = append(as, op.PartialAttribute{Description: fmt.Sprintf("x%d", i), Values: octets("a")})
			}
			return device(as...)
		},
		"bad values": func(n int) op.Request {
			var values [][]byte
			for i := range n {
				values = append(values, fmt.Appendf(nil, "x%d", i))
			}
			return device(op.PartialAttribute{Description: "owner", Values: values})
		},
	} {
		checkLinear(t, what, 4000, 64<<10, func(n int) {
			s.Serve(t.Context(), &op.Message{Request: request(n), Controls: []op.Control{{OID: "1.3.6.1.4.1.4203.666.5.2", Critical: true}}}, &answers{})
		})
	}
}

// TestRightsAreLinear checks the cost of effective rights by the number of attributes that the control
// names, and their bound.
func TestRightsAreLinear(t *testing.T) {
	_, s := newPeople(t, 20)
	ask := func(n int) op.Result {
		b := ber.Open(nil, ber.Sequence)
		b = ber.AppendString(b, ber.OctetString, "dn:")
		list := ber.Open(b, ber.Sequence)
		at := len(b)
		for i := range n {
			list = ber.AppendString(list, ber.OctetString, fmt.Sprintf("cn;lang-a%d", i))
		}
		b = ber.Close(ber.Close(list, at), 0)
		var out answers
		s.Serve(t.Context(), &op.Message{Request: &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: filter.MustParse("(objectClass=*)")},
			Controls: []op.Control{{OID: "1.3.6.1.4.1.42.2.27.9.5.2", Critical: true, Value: b}}}, &out)
		return out.done.Result
	}
	checkLinear(t, "attributes of effective rights", 256, 1<<20, func(n int) {
		if r := ask(n); r.Code != op.Success {
			t.Fatal(&r)
		}
	})
	if r := ask(2049); r.Code != op.AdminLimitExceeded {
		t.Error(&r)
	}
}

// TestTransactionsAreLinear checks that updates of one large entry in one transaction cost about eight
// times as much if there are eight times as many, and the entry is as much larger.
func TestTransactionsAreLinear(t *testing.T) {
	p := newPartition(t)
	newPeopleIn(t, p, 0)
	group, err := dn.Parse("cn=wide,dc=example,dc=com")
	if err != nil {
		t.Fatal(err)
	}
	undone := errors.New("undone")
	checkLinear(t, "members of one transaction", 500, 1<<20, func(n int) {
		members := names(2 * n)
		_, err := write.Update(t.Context(), p, partition.By{}, func(tx *partition.Tx) error {
			if _, err := tx.Add(t.Context(), group, []op.PartialAttribute{{Description: "objectClass", Values: octets("groupOfNames")},
				{Description: "member", Values: members[:n]}}, false); err != nil {
				return err
			}
			for _, m := range members[n:] {
				if err := tx.Modify(t.Context(), group, []op.Modification{{Kind: op.ModAdd,
					PartialAttribute: op.PartialAttribute{Description: "member", Values: [][]byte{m}}}}); err != nil {
					return err
				}
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
	})
}

func octets(values ...string) (bs [][]byte) {
	for _, v := range values {
		bs = append(bs, []byte(v))
	}
	return bs
}

// names returns n names of entries.
func names(n int) (values [][]byte) {
	for i := range n {
		values = append(values, fmt.Appendf(nil, "cn=%d,dc=example,dc=com", i))
	}
	return values
}

// TestManyOptions checks the bound on the descriptions that an entry has of one type.
func TestManyOptions(t *testing.T) {
	c := newClient(t)
	c.must("bind", "dn: "+admin, "password: secret")
	lines := []string{"dn: dc=example,dc=com", "objectClass: domain", "dc: example", "description: x"}
	for i := range 255 {
		lines = append(lines, fmt.Sprintf("description;lang-a%d: x", i))
	}
	full := func(answer string) {
		t.Helper()
		if !strings.HasPrefix(answer, "11 ") || !strings.Contains(answer, "an entry has at most 256 attributes description with different options") {
			t.Error(answer)
		}
	}
	full(c.do("add", append(lines, "description;lang-b: x")...))
	c.must("add", lines...)
	full(c.do("modify", "dn: dc=example,dc=com", "add description;lang-b: x"))
	full(c.do("modify", "dn: dc=example,dc=com", "delete description;lang-a0", "add description;lang-b: x"))
	c.must("modify", "dn: dc=example,dc=com", "add description;lang-a0: y", "delete description;lang-a1")
	c.must("modify", "dn: dc=example,dc=com", "add description;lang-b: x")
}

// TestManyIncrements checks that an increment changes few values: a request may have very many increments.
func TestManyIncrements(t *testing.T) {
	_, s := newPeople(t, 1)
	serve(t, s, &op.Modify{Name: "cn=Subschema", Changes: []op.Modification{op.Change(op.ModAdd, "attributeTypes",
		"( 2.25.4711 NAME 'levels' EQUALITY integerMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.27 )")}})
	serve(t, s, &op.Add{Name: "cn=many,dc=example,dc=com", Attributes: []op.PartialAttribute{{Description: "objectClass", Values: octets("device", "extensibleObject")}}})
	for n, want := range map[int]op.Code{2: op.Success, 100: op.Success, 101: op.UnwillingToPerform, 2000: op.UnwillingToPerform} {
		levels := make([]string, n)
		for i := range levels {
			levels[i] = strconv.Itoa(i)
		}
		replace, increment := op.Change(op.ModReplace, "levels", levels...), op.Change(op.ModIncrement, "levels", "3")
		for _, changes := range [][]op.Modification{{replace, increment}, {replace}, {increment}} {
			want := want
			if len(changes) == 1 && changes[0].Kind == op.ModReplace {
				want = op.Success
			}
			if r := withControls(t, s, &op.Modify{Name: "cn=many,dc=example,dc=com", Changes: changes}); r.Code != want {
				t.Errorf("%d values, %d changes: %v, want %v", n, len(changes), &r.Result, want)
			}
		}
	}
}
