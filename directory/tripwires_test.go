package directory_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/ldap/ldif"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestTripwires runs testdata/tripwires, in the language of TestTranscripts. The name of
// each file begins with the number of a trip-wire in docs/design/tripwires.md. Each file
// begins with a session of the administrator in a new copy of the sample directory.
func TestTripwires(t *testing.T) {
	datadriven.Walk(t, "testdata/tripwires", func(t *testing.T, path string) {
		d := newDirectory(t, newPartition(t), directory.Options{Version: "test"})
		c := &client{t: t, d: d, s: d.NewSession(nil)}
		c.addSample()
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			c.t = t
			return c.command(td)
		})
	})
}

// addSample binds as the administrator and adds the sample directory.
func (c *client) addSample() {
	c.t.Helper()
	serve(c.t, c.s, &op.Bind{Version: 3, Name: "cn=admin,dc=example,dc=com", Password: []byte("secret")})
	f, err := os.Open("../testdata/ldif/example.ldif")
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	manage := []op.Control{{OID: "2.16.840.1.113730.3.4.2"}}
	for r, err := range ldif.NewReader(f, ldif.Options{}).Records() {
		if err != nil {
			c.t.Fatal(err)
		}
		var out answers
		c.s.Serve(c.t.Context(), &op.Message{Request: &op.Add{Name: r.DN, Attributes: r.Attributes}, Controls: manage}, &out)
		if out.done.Code != op.Success {
			c.t.Fatalf("add of %s: %v", r.DN, &out.done.Result)
		}
	}
}

// TestTripwiresAreAllThere checks that every trip-wire in the list has a transcript or a
// test with its number.
func TestTripwiresAreAllThere(t *testing.T) {
	list, err := os.ReadFile("../docs/design/tripwires.md")
	if err != nil {
		t.Fatal(err)
	}
	numbers := regexp.MustCompile(`(?m)^(\d+)\. `).FindAllSubmatch(list, -1)
	if len(numbers) != 40 {
		t.Errorf("%d trip-wires are listed", len(numbers))
	}
	tests := testSources(t)
	for _, n := range numbers {
		number := fmt.Sprintf("%02s", n[1])
		transcripts, _ := filepath.Glob("testdata/tripwires/" + number + "-*")
		if len(transcripts) == 0 && !strings.Contains(tests, "func TestTripwire"+number) {
			t.Errorf("nothing is named after trip-wire %s", number)
		}
	}
}

// testSources returns the sources of the tests of package server and of the integration
// tests.
func testSources(t *testing.T) string {
	var b bytes.Buffer
	for _, dir := range []string{"../ldap/server", "../integration"} {
		files, _ := filepath.Glob(dir + "/*_test.go")
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(text)
		}
	}
	return b.String()
}
