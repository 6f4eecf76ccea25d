package console_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
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

const (
	many  = "ou=many,o=big"
	crowd = "cn=crowd," + many
)

// crowded returns the console of a directory of many entries, and of a group that has them all.
func crowded(t testing.TB, entries int) *site {
	t.Helper()
	store, err := lsm.Open(lsm.Options{Path: "store", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return siteIn(t, store, func(p *partition.Partition) error {
		if err := onlineschema.AddSuffixes(t.Context(), p, []string{"o=big"}); err != nil {
			return err
		}
		l, err := load.Load(t.Context(), p, load.Options{Folder: t.TempDir()})
		if err != nil {
			return err
		}
		add := func(name string, attributes ...op.PartialAttribute) error {
			d, err := dn.Parse(name)
			if err != nil {
				return err
			}
			return l.Add(t.Context(), d, attributes)
		}
		has := op.Attribute
		err = add("o=big", has("objectClass", "organization"))
		if err == nil {
			err = add(many, has("objectClass", "organizationalUnit"))
		}
		var members []string
		for i := 0; i < entries && err == nil; i++ {
			name := fmt.Sprintf("uid=user%07d,%s", i, many)
			members = append(members, name)
			err = add(name, has("objectClass", "inetOrgPerson"), has("cn", fmt.Sprintf("User %07d", i)), has("sn", fmt.Sprintf("Number%07d", i)), has("mail", fmt.Sprintf("user%07d@example.com", i)))
		}
		if err == nil {
			err = add(crowd, has("objectClass", "groupOfNames"), has("member", members...))
		}
		if err != nil {
			l.Abort(t.Context())
			return err
		}
		_, err = l.Commit(t.Context())
		return err
	})
}

// TestManyChildren checks that pages are bounded whatever the directory has.
func TestManyChildren(t *testing.T) {
	v := crowded(t, 10_000).logged(admin, "secret")
	base := "base=" + url.QueryEscape(many)
	for _, page := range []string{"/tree?" + base, "/tree/children?" + base, "/search?q=user", dnLink(many), dnLink(many) + "/delete", dnLink(crowd), dnLink(crowd) + "/edit",
		dnLink(crowd) + "/values/member?from=9900", "/add?like=" + url.QueryEscape("dn:"+crowd), "/schema"} {
		v.get(page)
		if v.status != http.StatusOK || len(v.text) > 200_000 {
			t.Errorf("%s: %d, %d bytes", page, v.status, len(v.text))
		}
	}
	v.get("/tree?" + base)
	v.shows("crowd", "user0000098") // cn comes before uid
	v.follow("More")
	v.shows("user0000099", "user0000198")
	v.get("/tree?find=user0004242&" + base)
	v.shows("user0004242")
	v.get(dnLink(crowd) + "/values/member?from=9900")
	v.shows("9901 to 10000, the last", "user0009999")
}

// BenchmarkPages measures pages of a directory of many entries, and of a group that has them all, from the request
// to the end of the answer: the first request of a kind apart, and the CPU time of server and client, which does not depend
// on what else the machine does.
func BenchmarkPages(b *testing.B) {
	v := crowded(b, *entries).logged(admin, "secret")
	for _, c := range []struct{ name, address string }{
		{"tree", "/tree?base=" + url.QueryEscape(many)}, {"tree-filter", "/tree?base=" + url.QueryEscape(many) + "&find=NUMBER"}, {"entry", dnLink("uid=userNUMBER," + many)},
		{"group", dnLink(crowd)}, {"group-values", dnLink(crowd) + "/values/member?from=5000"}, {"group-find", dnLink(crowd) + "/values/member?find=NUMBER"},
		{"search-part", "/search?q=userNUMBER"}, {"search-filter", "/search?q=" + url.QueryEscape("(mail=user000*)")}, {"home", "/"}, {"me", "/me"},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			n := -1
			var before, after syscall.Rusage
			look := func() time.Duration {
				n++
				address := strings.Replace(c.address, "NUMBER", fmt.Sprintf("%07d", n*7919%*entries), 1)
				begin := time.Now()
				v.get(address)
				d := time.Since(begin)
				if v.status != 200 || c.name == "search-part" && !strings.Contains(v.text, "uid=user") {
					b.Fatalf("%s: %d %s", address, v.status, v.page())
				}
				return d
			}
			first := look()
			syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			for b.Loop() {
				took = append(took, look())
			}
			syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
			slices.Sort(took)
			cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(cpu)/1e6/float64(len(took)), "cpu-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(len(v.text))/1000, "kB")
		})
	}
}
