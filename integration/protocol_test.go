package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
	godiff "github.com/google/go-cmp/cmp"
)

// TestProtocolIsPublished compares docs/protocol.md with the root DSE. The server must
// publish exactly what the tables of that page name (RFC 4512, 5.1). The server has a
// certificate, so that it publishes StartTLS.
func TestProtocolIsPublished(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, filepath.Join(t.TempDir(), "store"), newTLS(t).flags()...)
	r, err := p.connect("", "").Search(ldap.NewSearchRequest("", base, ldap.NeverDerefAliases, 0, 0, false, "(objectClass=*)", []string{"+"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	for section, attribute := range map[string]string{
		"Controls":            "supportedControl",
		"Extended operations": "supportedExtension",
		"Features":            "supportedFeatures",
	} {
		published := slices.Sorted(slices.Values(r.Entries[0].GetAttributeValues(attribute)))
		if diff := godiff.Diff(tableOIDs(string(page), section), published); diff != "" {
			t.Errorf("%s (- docs/protocol.md, + %s of the root DSE):\n%s", section, attribute, diff)
		}
	}
}

// tableOIDs returns the OIDs in a section's table, sorted. It returns only the first
// OID of each row, because a server does not publish the OIDs of responses.
func tableOIDs(page, section string) (oids []string) {
	_, page, _ = strings.Cut(page, "\n## "+section+"\n")
	page, _, _ = strings.Cut(page, "\n## ")
	oid := regexp.MustCompile(`\b\d+(\.\d+){2,}\b`)
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			if x := oid.FindString(cells[2]); x != "" {
				oids = append(oids, x)
			}
		}
	}
	slices.Sort(oids)
	return oids
}
