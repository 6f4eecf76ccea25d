package ldif

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"pgregory.net/rapid"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// TestTranscripts reads LDIF and shows the records and errors. In the input, a line "$"
// represents an empty line. "\r" and "\ufeff" represent these invisible characters, and
// "\e" represents nothing and protects spaces at the end of a line.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			in := strings.NewReplacer(`\r`, "\r", `\e`, "", `\ufeff`, "\ufeff").Replace("\n" + d.Input + "\n")
			in = strings.ReplaceAll(in, "\n$", "\n")[1:]
			if d.HasArg("no-newline") {
				in = strings.TrimSuffix(in, "\n")
			}
			o := Options{File: "in"}
			d.MaybeScanArgs(t, "max", &o.MaxRecord)
			r := NewReader(strings.NewReader(in), o)
			if d.Cmd == "write" {
				return rewrite(r)
			}
			return show(r)
		})
	})
}

func show(r *Reader) string {
	var b strings.Builder
	for rec, err := range r.Records() {
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%d %q\n", rec.Line, rec.DN)
		for _, c := range rec.Controls {
			fmt.Fprintf(&b, "  control %s %t %q\n", c.OID, c.Critical, c.Value)
		}
		if rec.Change != nil {
			showChange(&b, rec.Change)
		}
		showAttributes(&b, rec.Attributes)
	}
	return b.String()
}

func showChange(b io.Writer, c op.Request) {
	switch c := c.(type) {
	case *op.Add:
		fmt.Fprintf(b, "  add %q\n", c.Name)
		showAttributes(b, c.Attributes)
	case *op.Delete:
		fmt.Fprintf(b, "  delete %q\n", c.Name)
	case *op.Modify:
		fmt.Fprintf(b, "  modify %q\n", c.Name)
		for _, m := range c.Changes {
			fmt.Fprintf(b, "  %s %s %q\n", modNames[m.Kind], m.Description, m.Values)
		}
	case *op.ModifyDN:
		fmt.Fprintf(b, "  moddn %q to %q, delete old %t", c.Name, c.NewRDN, c.DeleteOldRDN)
		if c.NewSuperior != nil {
			fmt.Fprintf(b, ", under %q", *c.NewSuperior)
		}
		fmt.Fprintln(b)
	}
}

func showAttributes(b io.Writer, attributes []op.PartialAttribute) {
	for _, a := range attributes {
		fmt.Fprintf(b, "  %s %q\n", a.Description, a.Values)
	}
}

func rewrite(r *Reader) string {
	var b strings.Builder
	w := NewWriter(&b)
	for rec, err := range r.Records() {
		if err == nil {
			err = w.Write(rec)
		}
		if err != nil {
			return err.Error()
		}
	}
	w.Flush()
	return b.String()
}

func readAll(t testing.TB, r *Reader) []*Record {
	t.Helper()
	var all []*Record
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

var sample = filepath.Join("..", "..", "testdata", "ldif", "example.ldif")

// TestArrival checks that the Reader returns the same records from the sample, in
// whatever pieces the bytes arrive and whichever line ends the sample has.
func TestArrival(t *testing.T) {
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	want := show(NewReader(bytes.NewReader(text), Options{}))
	crlf := bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	utf16 := func(order unicode.Endianness, mark unicode.BOMPolicy) io.Reader {
		return iotest.OneByteReader(transform.NewReader(bytes.NewReader(crlf), unicode.UTF16(order, mark).NewEncoder()))
	}
	for name, in := range map[string]io.Reader{
		"UTF-16LE":       utf16(unicode.LittleEndian, unicode.UseBOM),
		"UTF-16BE":       utf16(unicode.BigEndian, unicode.UseBOM),
		"no mark":        utf16(unicode.LittleEndian, unicode.IgnoreBOM),
		"no mark either": utf16(unicode.BigEndian, unicode.IgnoreBOM),
		"bytes":          iotest.OneByteReader(bytes.NewReader(text)),
		"halves":         iotest.HalfReader(bytes.NewReader(text)),
		"data+EOF":       iotest.DataErrReader(bytes.NewReader(text)),
		"CRLF":           iotest.OneByteReader(bytes.NewReader(crlf)),
		"BOM":            iotest.OneByteReader(strings.NewReader("\ufeff" + string(text))),
		"cut":            bytes.NewReader(bytes.TrimRight(text, "\n")),
	} {
		if got := show(NewReader(in, Options{})); got != want {
			t.Errorf("%s: %s", name, cmp.Diff(want, got))
		}
	}
}

func TestStreamFailure(t *testing.T) {
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader("dn: a\ncn: a\n\ndn: b\ncn: b\n"), iotest.ErrReader(broken))
	r := NewReader(in, Options{File: "f"})
	if rec, err := r.Read(); err != nil || rec.DN != "a" {
		t.Fatal(rec, err)
	}
	for range 2 { // the second call returns the same error
		if rec, err := r.Read(); !errors.Is(err, broken) {
			t.Fatalf("a record cut short was read as %v, %v", rec, err)
		}
	}
	n := 0
	for _, err := range r.Records() {
		if n++; err == nil || n > 1 {
			t.Fatal(n, err)
		}
	}
}

func TestRaw(t *testing.T) {
	r := NewReader(strings.NewReader("# c\ndn: a\n\n\ndn: b\ncn: b\n x\n\ndn: c\ncn: c"), Options{})
	for _, want := range []struct{ raw, dn string }{
		{"# c\ndn: a\n", ""}, {"dn: b\ncn: b\n x\n", "b"}, {"dn: c\ncn: c", "c"},
	} {
		rec, err := r.Read()
		if string(r.Raw()) != want.raw || (err != nil) != (want.dn == "") || rec != nil && rec.DN != want.dn {
			t.Errorf("%v, %v, %q; want %q", rec, err, r.Raw(), want)
		}
	}
}

func TestRecordsAreTheCallers(t *testing.T) {
	r := NewReader(strings.NewReader("dn: a\ncn: a\ncn: b\nsn: c\n\ndn: x\ncn: x\ncn: y\nsn: z\n"), Options{})
	first, err := r.Read()
	if err != nil {
		t.Fatal(err)
	}
	_ = append(first.Attributes[0].Values, []byte("zz"))
	_ = append(first.Attributes[0].Values[0], "zz"...)
	if _, err := r.Read(); err != nil {
		t.Fatal(err)
	}
	want := []op.PartialAttribute{
		{Description: "cn", Values: [][]byte{[]byte("a"), []byte("b")}},
		{Description: "sn", Values: [][]byte{[]byte("c")}},
	}
	if d := cmp.Diff(want, first.Attributes); d != "" {
		t.Error(d)
	}
}

// TestTooLarge checks that reading continues after a record that is too large, for
// several positions of the record's end in the buffer.
func TestTooLarge(t *testing.T) {
	for _, size := range []int{101, firstBuffer - 20, firstBuffer, 3*firstBuffer - 9} {
		for _, newline := range []string{"\n", "\r\n"} {
			text := strings.ReplaceAll("dn: a\ncn: a\n\ndn: big\ncn: "+strings.Repeat("x", size)+"\nsn: x\n\n\ndn: b\ncn: b\n", "\n", newline)
			for _, in := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
				got := show(NewReader(in, Options{MaxRecord: 100}))
				want := "1 \"a\"\n  cn [\"a\"]\nerror: line 4: the record is larger than 100 bytes; raise the limit or split it\n9 \"b\"\n  cn [\"b\"]\n"
				if got != want {
					t.Errorf("%d: %s", size, got)
				}
			}
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b")
	if err := os.WriteFile(path, []byte("\x00photo"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(url string, o Options) string {
		rec, err := NewReader(strings.NewReader("dn: a\nphoto:< "+url+"\n"), o).Read()
		if err != nil {
			return strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		return string(rec.Attributes[0].Values[0])
	}
	escaped := strings.ReplaceAll(path, " ", "%20")
	for _, c := range []struct {
		url  string
		opt  Options
		want string
	}{
		{"file://" + escaped, Options{AllowFiles: true}, "\x00photo"},
		{"file://localhost" + escaped, Options{AllowFiles: true}, "\x00photo"},
		{"file://" + escaped, Options{}, `line 2: "a": the value of photo is to be read from "file://DIR/a%20b", which is not allowed here`},
		{"file:///dev/zero", Options{AllowFiles: true, MaxRecord: 1000}, `line 2: "a": the value of photo: /dev/zero is larger than 1000 bytes`},
		{"file://" + dir + "/none", Options{AllowFiles: true}, `line 2: "a": the value of photo: open DIR/none: no such file or directory`},
		{"http://x/y", Options{AllowFiles: true}, `line 2: "a": the URL "http://x/y" of photo is not supported; only file:///PATH is`},
		{"file://host/y", Options{AllowFiles: true}, `line 2: "a": the URL "file://host/y" of photo is not supported; only file:///PATH is`},
		{"file:", Options{AllowFiles: true}, `line 2: "a": the URL "file:" of photo is not supported; only file:///PATH is`},
		{":", Options{AllowFiles: true}, `line 2: "a": the value of photo is not a URL: parse ":": missing protocol scheme`},
	} {
		if got := read(c.url, c.opt); got != c.want {
			t.Errorf("%s: %q, want %q", c.url, got, c.want)
		}
	}
}

func TestFold(t *testing.T) {
	for size := range 400 {
		value := bytes.Repeat([]byte("abcdefg"), size)[:size]
		b := AppendLine([]byte("before\n"), "cn", value)
		text, ok := strings.CutPrefix(string(b), "before\n")
		lines := strings.SplitAfter(text, "\n")
		if !ok || lines[len(lines)-1] != "" {
			t.Fatalf("%q", b)
		}
		lines = lines[:len(lines)-1]
		for i, l := range lines {
			if len(l) > columns+1 || i < len(lines)-1 && len(l) != columns+1 || i > 0 && (l[0] != ' ' || len(l) < 3) {
				t.Fatalf("size %d, line %d: %q", size, i, l)
			}
		}
		want := strings.TrimSuffix("cn: "+string(value), " ")
		if got := strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n ", ""); got != want {
			t.Fatalf("size %d: %q", size, got)
		}
	}
}

func TestWriter(t *testing.T) {
	var b strings.Builder
	w := NewWriter(&b)
	w.WriteVersion()
	w.WriteComment("two\r\nlines")
	s := schema.Core()
	err := w.WriteEntry("cn=é", []entry.Attribute{
		{Type: s.Attribute("cn"), Values: [][]byte{[]byte("é")}},
		{Type: s.Attribute("sn"), Options: ";lang-de", Values: [][]byte{[]byte("x"), []byte("")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "version: 1\n\n# two\n# lines\n\ndn:: Y249w6k=\ncn:: w6k=\nsn;lang-de: x\nsn;lang-de:\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if err := w.Write(&Record{DN: "x", Change: &op.Compare{}}); err == nil {
		t.Error("a compare was written")
	}
}

func TestWriterError(t *testing.T) {
	full := errors.New("full")
	w := NewWriter(failing{full})
	var err error
	for range 100 {
		err = w.Write(&Record{DN: "x", Attributes: []op.PartialAttribute{{Description: "cn", Values: [][]byte{make([]byte, 4000)}}}})
	}
	if !errors.Is(err, full) || !errors.Is(w.Flush(), full) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func genRecord(t *rapid.T) *Record {
	value := rapid.OneOf(
		rapid.SliceOf(rapid.Byte()),
		rapid.SliceOfN(rapid.SampledFrom([]byte(" :<-#a\n\r\x00é")), 0, 6),
		rapid.SliceOfN(rapid.SampledFrom([]byte("ab ")), 60, 200))
	name := rapid.SampledFrom([]string{"cn", "sn", "cn;lang-de", "2.5.4.3", "version", "add", "DN"})
	attributes := func() []op.PartialAttribute {
		list := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) op.PartialAttribute {
			return op.PartialAttribute{
				Description: name.Draw(t, "name"),
				Values:      rapid.SliceOfN(value, 1, 3).Draw(t, "values"),
			}
		}), 1, 4, func(a op.PartialAttribute) string { return a.Description })
		return list.Draw(t, "attributes")
	}
	rec := &Record{DN: rapid.String().Draw(t, "dn")}
	if rapid.Bool().Draw(t, "content") {
		rec.Attributes = attributes()
		return rec
	}
	rec.Controls = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) op.Control {
		return op.Control{OID: "1.2.3", Critical: rapid.Bool().Draw(t, "critical"), Value: rapid.OneOf(value, rapid.Just([]byte(nil))).Draw(t, "value")}
	}), 0, 2).Draw(t, "controls")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		rec.Change = &op.Add{Name: rec.DN, Attributes: attributes()}
	case 1:
		rec.Change = &op.Delete{Name: rec.DN}
	case 2:
		m := &op.Modify{Name: rec.DN}
		for _, a := range attributes() {
			m.Changes = append(m.Changes, op.Modification{Kind: op.ModKind(rapid.IntRange(0, 3).Draw(t, "mod")), PartialAttribute: a})
		}
		rec.Change = m
	default:
		m := &op.ModifyDN{Name: rec.DN, NewRDN: "cn=é", DeleteOldRDN: rapid.Bool().Draw(t, "old")}
		if rapid.Bool().Draw(t, "superior") {
			m.NewSuperior = new(string)
		}
		rec.Change = m
	}
	return rec
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(rapid.Custom(genRecord), 1, 3).Draw(t, "records")
		var b bytes.Buffer
		w := NewWriter(&b)
		w.WriteVersion()
		for _, rec := range records {
			w.Write(rec)
		}
		w.Flush()
		text := b.String()
		r := NewReader(&b, Options{})
		for _, want := range records {
			got, err := r.Read()
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
			if d := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Line"), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("%s in\n%s", d, text)
			}
			if (got.Change == nil) != (want.Change == nil) || hasNilValue(got) != hasNilValue(want) {
				t.Fatalf("%v became %v", want, got)
			}
		}
		if rec, err := r.Read(); err != io.EOF {
			t.Fatal(rec, err)
		}
	})
}

// hasNilValue reports whether a control has no value. cmpopts.EquateEmpty does not
// distinguish an absent value from an empty one.
func hasNilValue(r *Record) bool {
	for _, c := range r.Controls {
		if c.Value == nil {
			return true
		}
	}
	return false
}

func FuzzRead(f *testing.F) {
	seeds, _ := filepath.Glob(filepath.Join("..", "..", "testdata", "ldif", "*.ldif"))
	if len(seeds) < 5 {
		f.Fatal("the sample files are missing")
	}
	for _, path := range seeds {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < 8<<10 { // longer texts make the fuzzer slow
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := NewReader(bytes.NewReader(text), Options{})
		var b bytes.Buffer
		w := NewWriter(&b)
		var records []*Record
		for rec, err := range r.Records() {
			if err == nil {
				records = append(records, rec)
				w.Write(rec)
			}
		}
		w.Flush()
		again := readAll(t, NewReader(&b, Options{}))
		if d := cmp.Diff(records, again, cmpopts.IgnoreFields(Record{}, "Line"), cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}

// person is a typical entry of 506 bytes.
const person = `dn: uid=user.%07d,ou=people,dc=example,dc=com
objectClass: top
objectClass: person
objectClass: organizationalPerson
objectClass: inetOrgPerson
uid: user.%07d
cn: Aaccf Amar
sn: Amar
givenName: Aaccf
mail: user.0000000@example.com
employeeNumber: 12345
telephoneNumber: +1 685 622 6202
description: This is the description for Aaccf Amar, of the usual length.
postalAddress: Aaccf Amar$01251 Chestnut Street$Panama City, DE  50369
userPassword:: e1NTSEF9V2tsN3dYNmFJNTJwT0dhTFk3cU5wMG9yMVhNZmV2bWI=

`

func people(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, person, i, i)
	}
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	text := people(2000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(bytes.NewReader(text), Options{})
		for _, err := range r.Records() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	text := people(2000)
	records := readAll(b, NewReader(bytes.NewReader(text), Options{}))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard)
		for _, rec := range records {
			w.Write(rec)
		}
	}
}

// TestAuditLog reads an audit log of 389 Directory Server, with a change that failed there. The
// server was started twice.
func TestAuditLog(t *testing.T) {
	const head = "\t389-Directory/2.3.1 B2022.340.0000\n\tldap.example.com:636 (/etc/dirsrv/slapd-example)\n\n"
	const log = head +
		"time: 20261128000000\ndn: cn=a\nresult: 0\nchangetype: add\ncn: a\n\n" +
		"time: 20261128000001\ndn: cn=b\nresult: 32\nchangetype: delete\nmodifiersname: cn=m\n\n" + head +
		"time: 20261128000002\ndn: cn=c\nresult: 0\nchangetype: delete\nmodifiersname: cn=m\n\n" +
		"time: 20261128000003\ndn: cn=d\n#cn: d\nresult: 0\nchangetype: modrdn\nnewrdn: cn=e\ndeleteoldrdn: 1\nmodifiersname: cn=m\n"
	const want = "5 \"cn=a\"\n  add \"cn=a\"\n  cn [\"a\"]\n20 \"cn=c\"\n  delete \"cn=c\"\n26 \"cn=d\"\n  moddn \"cn=d\" to \"cn=e\", delete old true\n"
	if got := show(NewReader(strings.NewReader(log), Options{File: "in"})); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// TestIndented reports a record that is indented by tabs, which could be taken for the head of an
// audit log.
func TestIndented(t *testing.T) {
	got := show(NewReader(strings.NewReader("\tdn: cn=a\n\tcn: a (b)\n"), Options{File: "in"}))
	if !strings.Contains(got, "in:1:") {
		t.Errorf("got %q, want an error", got)
	}
}

// TestJoinedMarks reads files that were joined with their byte order marks.
func TestJoinedMarks(t *testing.T) {
	got := show(NewReader(strings.NewReader("\ufeffdn: cn=a\ncn: a\n\n\ufeffversion: 1\ndn: cn=b\ncn: b\n"), Options{File: "in"}))
	const want = "1 \"cn=a\"\n  cn [\"a\"]\n5 \"cn=b\"\n  cn [\"b\"]\n"
	if got != want {
		t.Error(cmp.Diff(want, got))
	}
}
