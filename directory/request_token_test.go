package directory_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// TestTokenLeadsToAnotherServer writes at one server. A read with the token at another
// server must see the write. A read at the first server must see the write without a token.
func TestTokenLeadsToAnotherServer(t *testing.T) {
	ctx := context.Background()
	store := tabletest.NewMem() // like HBase, usable by several servers at once
	var sessions []*directory.Session
	for range 2 {
		p, err := partition.Open(ctx, store, partition.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close(ctx) })
		if err := onlineschema.AddSuffixes(ctx, p, []string{"dc=example,dc=com"}); err != nil {
			t.Fatal(err)
		}
		s := newDirectory(t, p, directory.Options{}).NewSession(nil)
		serve(t, s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
		sessions = append(sessions, s)
	}
	const oid = "2.25.62115083859443682979182002512448271178"
	ask := op.Control{OID: oid, Critical: true}
	request := op.Request(&op.Add{Name: "dc=example,dc=com", Attributes: []op.PartialAttribute{
		{Description: "objectClass", Values: [][]byte{[]byte("domain")}},
	}})
	for i := range 100 {
		var out answers
		sessions[i%2].Serve(ctx, &op.Message{ID: 1, Request: request, Controls: []op.Control{ask}}, &out)
		if out.done.Code != op.Success || len(out.done.Controls) != 1 {
			t.Fatalf("%+v", out.done)
		}
		want := op.Compare{Name: "dc=example,dc=com", Description: "description", Value: fmt.Append(nil, i-1)}
		if i == 0 {
			want.Description, want.Value = "dc", []byte("example")
		}
		there := op.Control{OID: oid, Critical: true, Value: out.done.Controls[0].Value}
		// The client compares at the other server with the token, and then at the first
		// server without a token.
		for j, controls := range [][]op.Control{{there}, nil} {
			var out answers
			sessions[(i+1+j)%2].Serve(ctx, &op.Message{ID: 2, Request: &want, Controls: controls}, &out)
			if out.done.Code != op.CompareTrue {
				t.Fatalf("round %d, server %d: %+v", i, (i+1+j)%2, out.done)
			}
		}
		request = &op.Modify{Name: "dc=example,dc=com", Changes: []op.Modification{{
			Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: "description", Values: [][]byte{fmt.Append(nil, i)}},
		}}}
	}
}
