package ldif

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// columns is the largest length of a line in bytes. The Writer folds longer lines, except
// comments.
const columns = 76

// A Writer writes records. An error of the stream is final: every later call, also of
// Flush, returns it.
type Writer struct {
	w     *bufio.Writer
	line  []byte
	begun bool
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 64<<10)} }

// Flush writes the buffered output.
func (w *Writer) Flush() error { return w.w.Flush() }

// WriteVersion writes the line "version: 1", with which a file begins (RFC 2849).
func (w *Writer) WriteVersion() error {
	w.begin()
	w.put("version", []byte("1"))
	return w.done()
}

// WriteComment writes each line of text as a comment line. Blank lines separate the
// comment from the records around it.
func (w *Writer) WriteComment(text string) error {
	w.begin()
	b := w.line[:0]
	for line := range strings.Lines(text) {
		b = append(b, strings.TrimRight("# "+line, " \r\n")...)
		b = append(b, '\n')
	}
	w.line = b
	w.w.Write(b)
	return w.done()
}

// WriteEntry writes an entry as a content record.
func (w *Writer) WriteEntry(dn string, attributes []entry.Attribute) error {
	w.begin()
	w.put("dn", []byte(dn))
	for i := range attributes {
		d := attributes[i].Description()
		for _, v := range attributes[i].Values {
			w.put(d, v)
		}
	}
	return w.done()
}

// WriteBody writes the body of an add or a modify: the part of the record after the
// lines dn and changetype. It writes nothing for other changes.
func (w *Writer) WriteBody(request op.Request) error {
	switch c := request.(type) {
	case *op.Add:
		w.attributes(c.Attributes)
	case *op.Modify:
		w.modifications(c.Changes)
	}
	return w.done()
}

// Write writes a change record if rec.Change is set, and otherwise a content record.
func (w *Writer) Write(rec *Record) error {
	w.begin()
	w.put("dn", []byte(rec.DN))
	if rec.Change == nil {
		w.attributes(rec.Attributes)
		return w.done()
	}
	for _, c := range rec.Controls {
		w.control(c)
	}
	if err := w.change(rec.Change); err != nil {
		return err
	}
	return w.done()
}

// begin writes the blank line between a record and the previous one.
func (w *Writer) begin() {
	if w.begun {
		w.w.WriteByte('\n')
	}
	w.begun = true
}

func (w *Writer) done() error {
	_, err := w.w.Write(nil) // a bufio.Writer keeps its first error
	return err
}

func (w *Writer) put(description string, value []byte) {
	w.line = AppendLine(w.line[:0], description, value)
	w.w.Write(w.line)
}

func (w *Writer) attributes(attributes []op.PartialAttribute) {
	for _, a := range attributes {
		for _, v := range a.Values {
			w.put(a.Description, v)
		}
	}
}

func (w *Writer) control(c op.Control) {
	b := append(w.line[:0], "control: "...)
	b = append(b, c.OID...)
	b = append(b, ' ')
	b = strconv.AppendBool(b, c.Critical)
	if c.Value != nil {
		b = appendValue(b, c.Value)
	}
	w.line = fold(b, 0)
	w.w.Write(w.line)
}

func (w *Writer) modifications(changes []op.Modification) {
	for _, m := range changes {
		w.put(modNames[m.Kind], []byte(m.Description))
		w.attributes([]op.PartialAttribute{m.PartialAttribute})
		w.w.WriteString("-\n")
	}
}

func (w *Writer) change(request op.Request) error {
	kind := func(s string) { w.put("changetype", []byte(s)) }
	switch c := request.(type) {
	case *op.Add:
		kind("add")
		w.attributes(c.Attributes)
	case *op.Delete:
		kind("delete")
	case *op.Modify:
		kind("modify")
		w.modifications(c.Changes)
	case *op.ModifyDN:
		kind("moddn")
		w.put("newrdn", []byte(c.NewRDN))
		w.put("deleteoldrdn", strconv.AppendInt(nil, int64(btoi(c.DeleteOldRDN)), 10))
		if c.NewSuperior != nil {
			w.put("newsuperior", []byte(*c.NewSuperior))
		}
	default:
		return fmt.Errorf("LDIF cannot express a %T", request)
	}
	return nil
}

var modNames = [...]string{op.ModAdd: "add", op.ModDelete: "delete", op.ModReplace: "replace", op.ModIncrement: "increment"}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// AppendLine appends "description: value" to b, folded, and a newline. It encodes the
// value in base64 if necessary.
func AppendLine(b []byte, description string, value []byte) []byte {
	start := len(b)
	b = append(b, description...)
	return fold(appendValue(b, value), start)
}

func appendValue(b, value []byte) []byte {
	if !safe(value) {
		b = append(b, ":: "...)
		return base64.StdEncoding.AppendEncode(b, value)
	}
	b = append(b, ':')
	if len(value) > 0 {
		b = append(b, ' ')
	}
	return append(b, value...)
}

// safe reports whether a value is a SAFE-STRING that does not end with a space (RFC
// 2849, notes 4 and 8). Other values are written in base64.
func safe(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	if v[0] == ' ' || v[0] == ':' || v[0] == '<' || v[len(v)-1] == ' ' {
		return false
	}
	for _, c := range v {
		if c >= 0x80 || c == 0 || c == '\n' || c == '\r' {
			return false
		}
	}
	return true
}

// fold breaks b[start:] into lines of at most columns bytes, and appends a newline.
func fold(b []byte, start int) []byte {
	size := len(b) - start
	if size <= columns {
		return append(b, '\n')
	}
	// Every line after the first begins with a space.
	breaks := (size - columns + columns - 2) / (columns - 1)
	b = append(b, make([]byte, 2*breaks)...)
	to, from := len(b), start+size
	for ; breaks > 0; breaks-- {
		at := start + columns + (breaks-1)*(columns-1)
		to -= from - at
		copy(b[to:], b[at:from])
		to -= 2
		b[to], b[to+1] = '\n', ' '
		from = at
	}
	return append(b, '\n')
}
