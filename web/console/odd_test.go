package console_test

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/seed-4dac0d86/ldapd/web/console"
)

// oddNames are the parameters and fields that pages read; some are the name of another page's.
var oddNames = strings.Fields("about add again arguments as at attributes aux base below branch cancel class code columns cookie csn do end external file find " +
	"format from job keep kind like list moment more name naming new number old parent password preview q rdn remove revision scope secret since size sort subtree to under until view who with f v o s")

// oddValues are values that are damaged, empty, of another parameter, or of something that does not exist.
var oddValues = []string{"", " ", "0", "-1", "99999999999999999999", "x", "=", ",", "(", "(cn=", "(cn=*)", "AAAA", "%00", "\x00", "\xff", "é", "dn:", "dn:=", "dn:x=y", "dn:" + jdoe, jdoe,
	"cn=config", "cn=changelog", "cn=branches", "cn=views", "dc=example,dc=com", "now", "1d", "-1d", "2026-11-27T09:00", "r0-0-0", "rffffffffff-ff-7fff", "r1-1-1-1", "objectClass", "member;range=0-*", "userPassword",
	"jpegPhoto", "inetOrgPerson", "top", "ldif", "csv", "plan", "run", "base", "person", "group", "make", "merge", "2e5bd1b4-0000-4000-8000-000000000000", strings.Repeat("a", 3000)}

var odd = flag.Int("odd", 10, "the `number` of odd requests of each kind that TestOddRequests sends as each identity")

// TestOddRequests sends every page and form what no link and no form of the console would send: each is answered, and
// not by an internal error.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := rand.New(rand.NewPCG(3, 2))
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	patterns := []string{}
	for pattern := range console.Routes {
		if strings.Contains(pattern, " ") && !strings.HasSuffix(pattern, "/logout") && !strings.HasSuffix(pattern, "/login") {
			patterns = append(patterns, pattern)
		}
	}
	slices.Sort(patterns)
	for _, v := range []*visitor{s.logged(jdoe, "opensesame"), s.logged(admin, "secret"), s.visitor()} {
		for _, pattern := range patterns {
			method, path, _ := strings.Cut(pattern, " ")
			for range *odd {
				at := strings.NewReplacer("{$}", "", "{id}", url.PathEscape(pick(oddValues)), "{at}", url.PathEscape(pick(oddValues)), "{n}", url.PathEscape(pick(oddValues))).Replace(path)
				q := url.Values{}
				for range 1 + r.IntN(5) {
					q.Add(pick(oddNames), pick(oddValues))
				}
				q.Del("done")
				request, err := http.NewRequestWithContext(t.Context(), method, v.url+at+"?"+q.Encode(), nil)
				if method == http.MethodPost {
					request, err = http.NewRequestWithContext(t.Context(), method, v.url+at, strings.NewReader(q.Encode()))
				}
				if err != nil {
					continue // an address that no client can send
				}
				if method == http.MethodPost {
					request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					request.Header.Set("Sec-Fetch-Site", "same-origin")
				}
				if v.send(request); v.status >= 500 {
					t.Errorf("%s %s %s: %d\n%.300s", method, at, q.Encode(), v.status, v.text)
				}
			}
		}
	}
}
