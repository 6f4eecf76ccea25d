package partition_test

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestUnknownOptionsStay stores values with options and then removes the options from the
// configuration. It checks that the values remain and can be removed, and that values
// with these options cannot be added.
func TestUnknownOptionsStay(t *testing.T) {
	ctx := t.Context()
	s := tabletest.NewBatchMem()
	p, err := partition.Open(ctx, s, partition.Options{Format: *storeFormat, Create: true, Schema: tagged})
	must(t, err)
	must(t, onlineschema.SetSuffixes(ctx, p, []string{"dc=example,dc=com"}))
	at := "dc=example,dc=com"
	must(t, add(t, p, at, "objectClass: domain", "dc: example", "description;x-a: one", "description;x-b: two"))
	must(t, p.Close(ctx))

	p, err = partition.Open(ctx, s, partition.Options{})
	must(t, err)
	defer p.Close(ctx)
	must(t, modify(t, p, at, change(op.ModReplace, "description", []byte("plain"))))
	wantProblem(t, modify(t, p, at, change(op.ModAdd, "description;x-a", []byte("more"))), partition.UndefinedType, "option")
	wantProblem(t, modify(t, p, at, change(op.ModReplace, "description;x-a", []byte("more"))), partition.UndefinedType, "option")
	wantProblem(t, modify(t, p, at, change(op.ModDelete, "description;x-c")), partition.UndefinedType, "option")
	must(t, modify(t, p, at, change(op.ModDelete, "description;x-a", []byte("one"))))
	must(t, modify(t, p, at, change(op.ModReplace, "description;x-b")))
	wantProblem(t, modify(t, p, at, change(op.ModDelete, "description;x-b")), partition.UndefinedType, "option")
}
