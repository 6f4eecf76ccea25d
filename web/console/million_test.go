package console_test

import (
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/load"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/store/lsm"
)

var entries = flag.Int("entries", 10_000, "the `number` of entries of BenchmarkPages")

// BenchmarkPages measures pages of a directory of many entries, and of a group that has them all, from the request
// to the end of the answer.
func BenchmarkPages(b *testing.B) {
	store, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	const crowd = "cn=crowd,ou=many,o=big"
	s := siteIn(b, store, func(p *partition.Partition) error {
		if err := onlineschema.AddSuffixes(b.Context(), p, []string{"o=big"}); err != nil {
			return err
		}
		l, err := load.Load(b.Context(), p, load.Options{Folder: b.TempDir()})
		if err != nil {
			return err
		}
		add := func(name string, attributes ...op.PartialAttribute) error {
			d, err := dn.Parse(name)
			if err != nil {
				return err
			}
			return l.Add(b.Context(), d, attributes)
		}
		has := func(name string, values ...string) op.PartialAttribute {
			a := op.PartialAttribute{Description: name}
			for _, v := range values {
				a.Values = append(a.Values, []byte(v))
			}
			return a
		}
		members := has("member")
		err = add("o=big", has("objectClass", "organization"))
		if err == nil {
			err = add("ou=many,o=big", has("objectClass", "organizationalUnit"))
		}
		for i := 0; i < *entries && err == nil; i++ {
			name := fmt.Sprintf("uid=user%07d,ou=many,o=big", i)
			members.Values = append(members.Values, []byte(name))
			err = add(name, has("objectClass", "inetOrgPerson"), has("cn", fmt.Sprintf("User %07d", i)), has("sn", fmt.Sprintf("Number%07d", i)), has("mail", fmt.Sprintf("user%07d@example.com", i)))
		}
		if err == nil {
			err = add(crowd, has("objectClass", "groupOfNames"), members)
		}
		if err != nil {
			l.Abort(b.Context())
			return err
		}
		_, err = l.Commit(b.Context())
		return err
	})
	v := s.logged(admin, "secret")
	const many = "ou=many,o=big"
	for _, c := range []struct{ name, address string }{
		{"tree", "/tree?base=" + url.QueryEscape(many)}, {"tree-filter", "/tree?base=" + url.QueryEscape(many) + "&find=NUMBER"}, {"entry", dnLink("uid=userNUMBER," + many)},
		{"group", dnLink(crowd)}, {"group-values", dnLink(crowd) + "/values/member?from=5000"}, {"group-find", dnLink(crowd) + "/values/member?find=NUMBER"},
		{"search-part", "/search?q=userNUMBER"}, {"search-filter", "/search?q=" + url.QueryEscape("(mail=user000*)")}, {"home", "/"}, {"me", "/me"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			n := 0
			for b.Loop() {
				n++
				address := strings.Replace(c.address, "NUMBER", fmt.Sprintf("%07d", n*7919%*entries), 1)
				begin := time.Now()
				v.get(address)
				took = append(took, time.Since(begin))
				if v.status != 200 || c.name == "search-part" && !strings.Contains(v.text, "uid=user") {
					b.Fatalf("%s: %d %s", address, v.status, v.page())
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(len(v.text))/1000, "kB")
		})
	}
}
