package foreign

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-4dac0d86/ldapd/acl/foreign/aci"
	"github.com/seed-4dac0d86/ldapd/acl/foreign/draft"
	"github.com/seed-4dac0d86/ldapd/acl/foreign/olc"
	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/entry"
	"github.com/seed-4dac0d86/ldapd/ldif"
	"github.com/seed-4dac0d86/ldapd/op"
)

// An Item is an entry of a file, with those of its attributes that the schema defines.
type Item struct {
	Name  dn.DN
	Entry *entry.Entry
}

// Read adds the originals in an LDIF file or a slapd.conf to the import. If keep is not nil,
// Read passes each entry of an LDIF file to it. If the file contains changes, Read ignores all
// changes except those that add entries.
func (im *Import) Read(file string, in io.Reader, keep func(Item)) error {
	text := bufio.NewReaderSize(ldif.UTF8(in), 64<<10)
	if isConf(text) {
		return im.readConf(file, text)
	}
	return im.readLDIF(file, text, keep)
}

// isConf reports whether a text is a slapd.conf and not LDIF. It examines the first line
// that is neither empty nor a comment: in a slapd.conf, the first word of this line
// contains no colon.
func isConf(in *bufio.Reader) bool {
	begin, _ := in.Peek(64 << 10)
	for line := range bytes.Lines(begin) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		word, _, _ := bytes.Cut(line, []byte(" "))
		word, _, _ = bytes.Cut(word, []byte("\t"))
		return !bytes.Contains(word, []byte(":"))
	}
	return false
}

// readLDIF reads an LDIF file.
func (im *Import) readLDIF(file string, in io.Reader, keep func(Item)) error {
	r := ldif.NewReader(in, ldif.Options{File: file, AllowEmpty: true})
	for {
		rec, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		attributes := rec.Attributes
		if add, ok := rec.Change.(*op.Add); ok {
			attributes = add.Attributes
		} else if rec.Change != nil {
			continue
		}
		name, err := dn.Parse(rec.DN)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, rec.Line, err)
		}
		im.entries++
		im.values(file, rec, name, attributes, r.Raw())
		im.olcAccess(file, rec, name, attributes, r.Raw())
		if keep != nil {
			keep(Item{name, im.entry(attributes, im.entries)})
		}
	}
}

// values adds those values of an entry that are originals.
func (im *Import) values(file string, rec *ldif.Record, name dn.DN, attributes []op.PartialAttribute, raw []byte) {
	for _, a := range attributes {
		at := name
		switch strings.ToLower(a.Description) {
		case "aci":
		case "ds-cfg-global-aci":
			at = nil
		case "prescriptiveaci", "entryaci", "subentryaci":
		default:
			continue
		}
		lines := linesOf(raw, a.Description)
		for i, v := range a.Values {
			x := &Original{File: file, Line: rec.Line, Text: string(v), dn: at}
			if i < len(lines) {
				x.Line += lines[i]
			}
			im.Originals = append(im.Originals, x)
			if strings.ToLower(a.Description) != "aci" && at != nil {
				x.Note(draft.Not, "%s of X.501 is not translated: write rules that say the same", a.Description)
				continue
			}
			var err error
			if x.aci, err = aci.Parse(x.Text); err != nil {
				x.Note(draft.Not, "%v", err)
			} else if len(name) == 0 {
				x.aci = nil
				x.Note(draft.Not, "it is about the root DSE")
			}
		}
	}
}

// olcAccess adds the values of olcAccess of an entry, in the order of their numbers.
func (im *Import) olcAccess(file string, rec *ldif.Record, name dn.DN, attributes []op.PartialAttribute, raw []byte) {
	db := &database{}
	for _, a := range attributes {
		switch strings.ToLower(a.Description) {
		case "olcaccess":
			lines := linesOf(raw, a.Description)
			for i, v := range a.Values {
				x := &Original{File: file, Line: rec.Line, Text: string(v), db: db}
				if i < len(lines) {
					x.Line += lines[i]
				}
				db.directives = append(db.directives, x)
			}
		case "olcsuffix":
			for _, v := range a.Values {
				if d, err := dn.Parse(string(v)); err == nil {
					db.suffixes = append(db.suffixes, d)
				}
			}
		}
	}
	if len(db.directives) == 0 {
		return
	}
	slices.SortStableFunc(db.directives, func(a, b *Original) int { return number(a.Text) - number(b.Text) })
	rdn := strings.ToLower(name.String())
	db.frontend = strings.Contains(rdn, "frontend,")
	db.own = strings.Contains(rdn, "}config,") || strings.Contains(rdn, "}monitor,")
	im.add(db)
}

// add parses the directives of a database and adds them to the import.
func (im *Import) add(db *database) {
	im.databases = append(im.databases, db)
	for _, x := range db.directives {
		im.Originals = append(im.Originals, x)
		var err error
		if x.olc, err = olc.Parse(x.Text); err != nil {
			x.Note(draft.Not, "%v; slapd would not start", err)
			x.More = true
		}
	}
}

// number returns the number in braces with which a value of olcAccess begins. If there is
// none, it returns a large number.
func number(text string) int {
	if inside, _, ok := strings.Cut(strings.TrimPrefix(text, "{"), "}"); ok {
		if n, err := strconv.Atoi(inside); err == nil {
			return n
		}
	}
	return 1 << 30
}

// linesOf returns the numbers of those lines of a record in which a value of the
// attribute begins. Lines are counted from the line with the record's DN.
func linesOf(raw []byte, description string) (lines []int) {
	first := -1
	for n, line := range bytes.Split(raw, []byte("\n")) {
		head, _, _ := bytes.Cut(line, []byte(":"))
		if first < 0 && bytes.EqualFold(head, []byte("dn")) {
			first = n
		}
		if first >= 0 && bytes.EqualFold(head, []byte(description)) {
			lines = append(lines, n-first)
		}
	}
	return lines
}

// entry returns an entry with those of the attributes that the schema defines. The id of
// the entry is made from n.
func (im *Import) entry(attributes []op.PartialAttribute, n int) *entry.Entry {
	e := &entry.Entry{ID: entry.ID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}}
	for _, a := range attributes {
		t, options := im.Schema.Describe(a.Description)
		if t == nil || len(a.Values) == 0 {
			continue
		}
		e.Attributes = append(e.Attributes, entry.Attribute{Type: t, Options: entry.SortOptions(options), Values: a.Values})
	}
	return e
}
