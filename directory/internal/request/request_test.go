package request

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/access"
	"github.com/seed-4dac0d86/ldapd/directory/acl"
	"github.com/seed-4dac0d86/ldapd/directory/internal/wellknown"
	"github.com/seed-4dac0d86/ldapd/directory/settings"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/branch"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/store/txn"
)

// TestEndKeepsNothing checks that a reused Request contains nothing of the last request,
// which may have come from another client.
func TestEndKeepsNothing(t *testing.T) {
	req := New(&Server{Log: slog.New(slog.DiscardHandler)})
	kept := map[string]bool{"Server": true, "Response": true, "Seen": true, "Cost": true}
	req.Session, req.ID, req.Who, req.Limits = &Session{}, 1, &settings.Identity{}, &settings.Limits{}
	req.Controls.ManageDsaIT = true
	req.Judge.By(&acl.Program{})
	req.Judge.NoteIn(&req.refusal)
	if err := req.Judge.RefuseUse("1.1", "1.1"); err == nil {
		t.Error("nothing is refused")
	}
	req.Snapshot, req.Schema, req.Known = &partition.Snapshot{}, &schema.Schema{}, &wellknown.Elements{}
	req.Branch, req.Suffix = &branch.Branch{}, "cn=x,cn=branches"
	req.dynamic = &access.DynamicGroups{}
	req.held, req.kept, req.judged = []*partition.Snapshot{}, &partition.Snapshot{At: &txn.Snapshot{}}, 1
	req.Sink = noSink{}
	req.Response.Code, req.Seen.Entries, req.Watched = op.Busy, 1, true
	req.Cost.Candidates = 1
	for i, v := 0, reflect.ValueOf(req).Elem(); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the test does not set %s", v.Type().Field(i).Name)
		}
	}
	req.End()
	for i, v := 0, reflect.ValueOf(req).Elem(); i < v.NumField(); i++ {
		f, name := v.Field(i), v.Type().Field(i).Name
		if kept[name] && name != "Server" {
			f = f.Elem()
		}
		if name != "Server" && !f.IsZero() {
			t.Errorf("%s is kept", name)
		}
	}
}

type noSink struct{ op.Sink }
