package directory_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/write"
	"github.com/seed-4dac0d86/ldapd/store/table/tabletest"
)

// newStale returns clients of two servers of one store. The first is the administrator. The
// second is the user ann, whose server does not follow the other server unless a request
// wants the newest state.
func newStale(t *testing.T) (writer, ann *client) {
	t.Helper()
	store := tabletest.NewMem()
	writer = newServer(t, store)
	writer.must("add", "dn: dc=example,dc=com", "objectClass: domain", "dc: example")
	writer.addPerson("ann")
	writer.must("add", "dn: cn=team,dc=example,dc=com", "objectClass: groupOfNames", "cn: team", "member: uid=ann,dc=example,dc=com", "member: cn=x")
	writer.must("add", "dn: cn=box,dc=example,dc=com", "objectClass: device", "cn: box", "description: old")
	setRules(t, writer.p, "bind: allow everyone to bind\nuse: allow everyone to use *\nsee: allow users to read objectClass, cn\n"+
		"team: allow group \"cn=team,dc=example,dc=com\" to read, write in \"cn=box,dc=example,dc=com\"")
	ann = newServerPolling(t, store, time.Minute)
	ann.s = ann.d.NewSession(nil)
	ann.must("bind", "dn: uid=ann,dc=example,dc=com", "password: p")
	return writer, ann
}

// TestNewestRules checks that a request that wants the newest state is also judged by the
// newest groups. The other server removes ann from a group, and then writes a value that
// only the group may read. Ann's server learns of both changes only through ann's request,
// which must not show the value.
func TestNewestRules(t *testing.T) {
	for name, c := range map[string]struct{ cmd, input, within, never string }{
		"search":  {"search", "base: cn=box,dc=example,dc=com\nattrs: description", "old", "new"},
		"filter":  {"search", "base: dc=example,dc=com\nscope: sub\nfilter: (description=*)\nattrs: 1.1", "box", "box"},
		"sorted":  {"search", "base: dc=example,dc=com\nscope: sub\nfilter: (description=*)\nattrs: description\ncontrol: sort description", "old", "new"},
		"paged":   {"search", "base: dc=example,dc=com\nscope: sub\nfilter: (description=*)\nattrs: description\ncontrol: paged 5 new", "old", "new"},
		"compare": {"compare", "dn: cn=box,dc=example,dc=com\nassert: description=new", "5\n", "6\n"},
		"rights":  {"search", "base: cn=box,dc=example,dc=com\nattrs: description\ncontrol: rights critical", "description: old", "new"},
	} {
		t.Run(name, func(t *testing.T) {
			writer, ann := newStale(t)
			ask := func() string {
				input := strings.Replace(c.input, "\ncontrol: ", "\ncontrol: dontUseCopy critical; ", 1)
				if input == c.input {
					input += "\ncontrol: dontUseCopy critical"
				}
				return ann.do(c.cmd, strings.Split(input, "\n")...)
			}
			if got := ask(); !strings.Contains(got, c.within) {
				t.Fatalf("within the group: %s", got)
			}
			writer.must("modify", "dn: cn=team,dc=example,dc=com", "delete member: uid=ann,dc=example,dc=com")
			writer.must("modify", "dn: cn=box,dc=example,dc=com", "replace description: new")
			if got := ask(); strings.Contains(got, c.never) {
				t.Errorf("after the removal: %s", got)
			}
		})
	}
}

// TestNewestAccount checks that a request that wants the newest state is not served for an
// account that another server has disabled.
func TestNewestAccount(t *testing.T) {
	writer, ann := newStale(t)
	writer.must("modify", "dn: uid=ann,dc=example,dc=com", "replace pwdAccountLockedTime: 000001010000Z")
	if out := ann.do("search", "base: cn=box,dc=example,dc=com", "attrs: cn", "control: dontUseCopy critical"); !strings.HasPrefix(out, fmt.Sprint(op.StrongerAuthRequired)) {
		t.Error(out)
	}
}

// TestUpdatesAreJudgedAgain checks an update that is repeated on a newer state after a
// conflict. The rules and groups of the newer state must judge the update. Ann's server
// learns only through the conflict that ann is not in the group any more.
func TestUpdatesAreJudgedAgain(t *testing.T) {
	writer, ann := newStale(t)
	ann.must("modify", "dn: cn=box,dc=example,dc=com", "replace description: mine")
	writer.must("modify", "dn: cn=team,dc=example,dc=com", "delete member: uid=ann,dc=example,dc=com")
	writer.must("modify", "dn: cn=box,dc=example,dc=com", "replace description: new")
	if out := ann.do("modify", "dn: cn=box,dc=example,dc=com", "replace description: mine"); !strings.HasPrefix(out, fmt.Sprint(op.InsufficientAccessRights)) {
		t.Error(out)
	}
	if out := writer.do("search", "base: cn=box,dc=example,dc=com", "attrs: description"); !strings.Contains(out, "new") {
		t.Error(out)
	}
}

// holdUpdate starts an update at the client's server. The update stays in progress until the
// test ends.
func (c *client) holdUpdate() {
	c.t.Helper()
	began, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	go func() {
		defer close(ended)
		write.Update(context.Background(), c.p, partition.By{Name: "held"}, func(*partition.Tx) error {
			begin()
			<-end
			return context.Canceled
		})
	}()
	c.t.Cleanup(func() { close(end); <-ended })
	<-began
}

// TestCommittedButNotEverywhere changes access rules at one server while an update that began
// under the old rules runs at another server. The first server then cannot say that all
// servers apply the new rules. The result must be an error, and its diagnostic must say that
// the change is committed.
func TestCommittedButNotEverywhere(t *testing.T) {
	for _, inTransaction := range []bool{false, true} {
		writer, ann := newStale(t)
		ann.holdUpdate()
		message := &op.Message{Request: &op.Modify{Name: "dc=example,dc=com", Changes: changes(lines("add accessRule: no: deny users to read title"))}}
		if inTransaction {
			var out answers
			writer.s.Serve(t.Context(), &op.Message{ID: 1, Request: &op.Extended{OID: "1.3.6.1.1.21.1"}}, &out)
			id := string(out.done.Value)
			message.ID, message.Controls = 2, []op.Control{{OID: "1.3.6.1.1.21.2", Critical: true, Value: []byte(id)}}
			writer.s.Serve(t.Context(), message, &out)
			message = &op.Message{ID: 3, Request: endTransaction(id, true)}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		var out answers
		writer.s.Serve(ctx, message, &out)
		cancel()
		if out.done.Code != op.Other || !strings.Contains(out.done.Diagnostic, "committed") {
			t.Errorf("transaction %v: %v", inTransaction, &out.done.Result)
		}
		if got := writer.do("search", "base: dc=example,dc=com", "attrs: accessRule"); !strings.Contains(got, "no: deny") {
			t.Errorf("transaction %v: %s", inTransaction, got)
		}
	}
}
