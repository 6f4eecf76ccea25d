package console

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
)

// The form of an entry has a field for each value. The field N is the parameters aN (the attribute), oN (the
// value that the entry has, in base64; empty: a new value), nN (the value that it shall have), pN (its
// options), fN (a file), xN (the value goes away). So the form says what differs, value by value.

// A Field is a value in the form of an entry.
type Field struct {
	N       int
	Name    string // the attribute with its options
	Type    *schema.AttributeType
	Options string // without the first semicolon
	Old     string // in base64; "": a new value
	Text    string // what is typed
	Input   string // line, lines, choice, file
	Hint    string
	Must    bool
	Fixed   string // why it cannot be changed here; "": it can
	Gone    bool   // the value goes away
	Wrong   string // what is wrong with it
	Shown   *Value // of a file
	List    string // the id of the list of hints for it
	Pick    *pick  // nil: it is no name of an entry

	file []byte // what was uploaded
}

// A Group is the fields of one attribute.
type Group struct {
	Name, Desc string
	Must       bool
	Fields     []*Field
	HasPage    bool // its values are changed on a page of their own
}

// maxFields bounds the fields of a form.
const maxFields = 2000

// inputOf returns the kind of input for values of a type.
func inputOf(t *schema.AttributeType, value string) string {
	switch t.Syntax.OID {
	case syntaxBoolean:
		return "choice"
	case syntaxPostal:
		return "lines"
	case syntaxJPEG, syntaxFax, syntaxCert, syntaxCRL, syntaxCertPair:
		return "file"
	}
	switch {
	case !isText([]byte(value)):
		return "file"
	case strings.ContainsAny(value, "\n\r\t") || isCalled(t, "description") && len(value) > 60:
		return "lines"
	}
	return "line"
}

// hints say what a value must be like, by syntax.
var hints = map[string]string{
	syntaxInteger: "a number", syntaxTime: "such as 20261128120000Z", syntaxDN: "the name of an entry, or a part of it to find it",
	syntaxPostal: "one line each", syntaxOID: "a name of the schema or an OID",
}

// newField returns the field of a value that an entry has, or of a new value if it is nil.
func newField(t *schema.AttributeType, options string, value []byte) *Field {
	f := &Field{Type: t, Name: t.SentName() + options, Options: strings.TrimPrefix(options, ";"), Hint: hints[t.Syntax.OID], Input: inputOf(t, string(value))}
	if isCalled(t, "objectClass") {
		f.List, f.Hint = "classes", ""
	}
	if t.Syntax.OID == syntaxDN && f.Input == "line" {
		f.Pick = &pick{}
	}
	if value == nil {
		return f
	}
	f.Old = base64.StdEncoding.EncodeToString(value)
	if f.Input != "file" {
		f.Text = textOf(t, string(value))
	}
	return f
}

// textOf returns a value as the form shows it, and valueOf the value for what was typed.
func textOf(t *schema.AttributeType, value string) string {
	if t.Syntax.OID == syntaxPostal {
		return postalText(value)
	}
	return strings.ReplaceAll(value, "\r\n", "\n")
}

func valueOf(t *schema.AttributeType, text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	switch {
	case t.Syntax.OID == syntaxPostal:
		return schema.PostalAddress(strings.TrimRight(text, "\n"))
	case t.Syntax.OID == syntaxDN || t.Syntax.OID == syntaxInteger || t.Syntax.OID == syntaxTime || t.Syntax.OID == syntaxOID:
		return strings.TrimSpace(text)
	}
	return text
}

// readForm reads the fields that a client has sent.
func (v *visit) readForm() ([]*Field, error) {
	if err := v.r.ParseMultipartForm(1 << 20); err != nil && err != http.ErrNotMultipart {
		return nil, err
	}
	var fields []*Field
	for n := 0; n < maxFields; n++ {
		id := strconv.Itoa(n)
		if !v.r.PostForm.Has("a" + id) {
			break
		}
		f, err := v.readField(id)
		if err != nil {
			return nil, err
		}
		f.N = n
		fields = append(fields, f)
	}
	return fields, nil
}

func (v *visit) readField(id string) (*Field, error) {
	form := v.r.PostForm
	t, options := v.schema().Describe(form.Get("a" + id))
	if t == nil {
		return nil, errorf(http.StatusUnprocessableEntity, "There is no attribute %q in the schema.", form.Get("a"+id))
	}
	old, err := base64.StdEncoding.DecodeString(form.Get("o" + id))
	if err != nil {
		return nil, errorf(http.StatusBadRequest, "The form is damaged: load the page again.")
	}
	if form.Get("o"+id) == "" {
		old = nil
	}
	f := newField(t, entry.SortOptions(options), old)
	f.Gone = form.Has("x" + id)
	if form.Has("p" + id) {
		f.Options = strings.ToLower(strings.Trim(strings.TrimSpace(form.Get("p"+id)), ";"))
	}
	if form.Has("n" + id) { // else the value is shown, but stays
		f.Text = strings.ReplaceAll(form.Get("n"+id), "\r\n", "\n")
	}
	if f.Pick != nil && form.Has("n"+id) {
		f.Pick = v.picked("n" + id)
		if f.Pick.Text != strings.TrimSpace(f.Text) { // it was chosen
			f.Text = f.Pick.Text
		}
	}
	if f.Input == "file" && v.r.MultipartForm != nil {
		if uploads := v.r.MultipartForm.File["f"+id]; len(uploads) > 0 && uploads[0].Size > 0 {
			if f.file, err = readUpload(uploads[0]); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func readUpload(u *multipart.FileHeader) ([]byte, error) {
	in, err := u.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// old returns the value that the entry has, or nil.
func (f *Field) old() []byte {
	b, err := base64.StdEncoding.DecodeString(f.Old)
	if err != nil || f.Old == "" {
		return nil
	}
	return b
}

// new returns the value that the entry shall have, or nil.
func (f *Field) new() []byte {
	switch {
	case f.Gone:
		return nil
	case f.Input == "file" && f.file != nil:
		return f.file
	case f.Input == "file" && f.Old != "":
		return f.old()
	case f.Text == "":
		return nil
	case f.Old != "" && f.Text == textOf(f.Type, string(f.old())):
		return f.old() // not touched, whatever the browser did to its line ends
	}
	return []byte(valueOf(f.Type, f.Text))
}

// description returns the attribute description that the value shall have.
func (f *Field) description() string {
	d := f.Type.SentName()
	if f.Options != "" && !strings.EqualFold(";"+f.Options, ";binary") {
		d += ";" + f.Options
	}
	return d
}

// check sets what is wrong with the values, and reports whether nothing is.
func (v *visit) check(fields []*Field) bool {
	right := true
	for _, f := range fields {
		value := f.new()
		if t, _ := v.schema().Describe(f.description()); t == nil {
			f.Wrong = fmt.Sprintf("%q is no option of attributes", f.Options)
		} else if value != nil && !bytes.Equal(value, f.old()) {
			if err := f.Type.Syntax.Validate(value); err != nil {
				f.Wrong = err.Error()
			}
		}
		right = right && f.Wrong == ""
	}
	return right
}

// changesOf returns what differs between what the entry has and what it shall have, in the order of the
// form: values that go away first, so that a single value can be replaced.
func changesOf(fields []*Field) (changes []op.Modification) {
	var add []op.Modification
	for _, f := range fields {
		old, value := f.old(), f.new()
		if bytes.Equal(old, value) && (old != nil) == (value != nil) && strings.EqualFold(f.description(), f.Name) {
			continue
		}
		if old != nil {
			changes = collect(changes, op.ModDelete, f.Name, old)
		}
		if value != nil {
			add = collect(add, op.ModAdd, f.description(), value)
		}
	}
	return append(changes, add...)
}

// collect adds a value to the change of its attribute.
func collect(changes []op.Modification, kind op.ModKind, description string, value []byte) []op.Modification {
	for i := range changes {
		if strings.EqualFold(changes[i].Description, description) {
			changes[i].Values = append(changes[i].Values, value)
			return changes
		}
	}
	return append(changes, op.Modification{Kind: kind, PartialAttribute: op.PartialAttribute{Description: description, Values: [][]byte{value}}})
}

// groupsOfFields groups fields by attribute, those that an entry must have first. It numbers the fields, and looks for the
// entries that they name.
func (v *door) groupsOfFields(fields []*Field) (groups []*Group, err error) {
	byType := map[*schema.AttributeType]*Group{}
	for n, f := range fields {
		f.N = n
		if f.Pick != nil {
			f.Pick.Param, f.Pick.Text = "n"+strconv.Itoa(n), f.Text
			if n < rows && err == nil {
				err = v.find(f.Pick)
			}
		}
		g := byType[f.Type]
		if g == nil {
			g = &Group{Name: f.Type.Name(), Desc: f.Type.Desc, Must: f.Must}
			byType[f.Type] = g
			groups = append(groups, g)
		}
		g.Fields = append(g.Fields, f)
	}
	return groups, err
}

// Hex returns the beginning of an old value, for the field of a file.
func (f *Field) Hex() string {
	b := f.old()
	return hex.EncodeToString(b[:min(len(b), 32)])
}

// Size returns the length of an old value.
func (f *Field) Size() int { return len(f.old()) }

// sortFields orders fields by attribute as the page of an entry does.
func sortFields(fields []*Field) {
	slices.SortStableFunc(fields, func(a, b *Field) int {
		if class := isCalled(a.Type, "objectClass"); class != isCalled(b.Type, "objectClass") {
			return importance(a.Type) - importance(b.Type)
		}
		if a.Must != b.Must && a.Type != b.Type {
			if a.Must {
				return -1
			}
			return 1
		}
		if d := importance(a.Type) - importance(b.Type); d != 0 {
			return d
		}
		return strings.Compare(a.Type.Name(), b.Type.Name())
	})
}
