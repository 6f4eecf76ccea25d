package migrate

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition"
	"github.com/seed-4dac0d86/ldapd/partition/changestream"
	"github.com/seed-4dac0d86/ldapd/schema"
	"github.com/seed-4dac0d86/ldapd/schema/entry"
	"github.com/seed-4dac0d86/ldapd/tools/bulk"
)

// The type copied is an entry of the other server, translated to the form in which this
// directory stores it.
type copied struct {
	name       dn.DN
	id         entry.ID // zero if the server shows no ids
	attributes []op.PartialAttribute
}

// A translation translates the entries of another server.
type translation struct {
	schema *schema.Schema
	t      *bulk.Translator
}

func newTranslation(s *schema.Schema, note func(string)) *translation {
	return &translation{s, bulk.NewTranslator(s, note)}
}

// translate returns an entry in the form in which the directory stores it.
func (t *translation) translate(e *ldap.Entry) (*copied, error) {
	name, err := dn.Parse(e.DN)
	if err != nil {
		return nil, err
	}
	c := &copied{name: name}
	for _, a := range t.t.Translate(t.stored(attributesOf(e))) {
		if strings.EqualFold(a.Description, "entryUUID") && len(a.Values) == 1 {
			if c.id, err = entry.ParseID(string(a.Values[0])); err != nil {
				c.id = entry.Root
			}
		}
		c.attributes = append(c.attributes, a)
	}
	return c, nil
}

// stored removes the attributes that the directory generates, and the access rules of
// another ldapd.
func (t *translation) stored(as []op.PartialAttribute) []op.PartialAttribute {
	return slices.DeleteFunc(as, func(a op.PartialAttribute) bool {
		switch strings.ToLower(a.Description) {
		case "accessrule", "entrycsn", "structuralobjectclass", "entrydn", "subschemasubentry", "hassubordinates", "numsubordinates",
			"governingstructurerule", "scramkey":
			return true
		}
		return false
	})
}

// occupied is the error for an entry whose name, or the name of whose parent, is taken by another
// entry. The field id is the id of the other entry. An entry that must be moved below its own
// name is in its own way.
type occupied struct {
	id   entry.ID
	name dn.DN
}

func (o *occupied) Error() string {
	return "another entry, with the entryUUID " + o.id.String() + ", has the name"
}

// put makes the directory's entry equal to c. If the directory has no such entry, put
// adds it. It reports whether it changed anything.
func put(ctx context.Context, tx *partition.Tx, c *copied) (changed bool, err error) {
	tx.Rules = partition.Rules{Relaxed: true, Permissive: true, Kept: true, Accounts: true}
	at, err := locate(ctx, &tx.Snapshot, c)
	if partition.Is(err, partition.NoSuchEntry) {
		_, err = tx.Add(ctx, c.name, c.attributes, true)
		return true, err
	}
	if err != nil {
		return false, err
	}
	renamed, err := rename(ctx, tx, at, c)
	if err != nil {
		return false, err
	}
	e, err := tx.Entry(ctx, at.ID, true)
	if err != nil {
		return false, err
	}
	changes := changesTo(tx.Schema(), e, c)
	if len(changes) == 0 {
		return renamed, nil
	}
	return true, tx.Modify(ctx, c.name, changes)
}

// locate finds the entry of the directory with the id of c or, if the server shows no ids, with
// the name of c. If there is no such entry, the error is of the type occupied if another entry
// has the name. Otherwise the error is a partition.Error with the problem NoSuchEntry.
func locate(ctx context.Context, s *partition.Snapshot, c *copied) (partition.Located, error) {
	if c.id == entry.Root {
		return s.Find(ctx, c.name)
	}
	at, err := byID(ctx, s, c.id)
	if err != nil || at.ID != entry.Root {
		return at, err
	}
	at, err = s.Find(ctx, c.name)
	if err == nil {
		return at, &occupied{at.ID, c.name}
	}
	return at, err
}

// byID finds an entry by its id. It returns the zero Located if no entry has the id.
func byID(ctx context.Context, s *partition.Snapshot, id entry.ID) (at partition.Located, err error) {
	node, err := changestream.Node(ctx, s, id)
	if err != nil || node == nil {
		return at, err
	}
	name, err := s.Name(ctx, id)
	return partition.Located{ID: id, Parent: node.Parent, Name: name}, err
}

// rename renames an entry to the name of c, and reports whether the entry had another
// name.
func rename(ctx context.Context, tx *partition.Tx, at partition.Located, c *copied) (bool, error) {
	old, err := at.Name.DN()
	if err != nil {
		return false, err
	}
	there, err := tx.Find(ctx, c.name)
	switch {
	case err == nil && there.ID != at.ID:
		return false, &occupied{there.ID, c.name}
	case err == nil && (len(c.name) == 0 || len(old) == 0 || old[0].String() == c.name[0].String()):
		return false, nil
	case err != nil && !partition.Is(err, partition.NoSuchEntry):
		return false, err
	}
	var parent *dn.DN
	if err != nil { // the names differ in more than their spelling
		p := c.name.Parent()
		parent = &p
		if inItself(tx.Schema(), at.Name, p) {
			return false, &occupied{at.ID, old}
		}
	}
	return true, tx.Rename(ctx, old, c.name[0], !c.has(tx.Schema(), old[0]), parent)
}

// inItself reports whether an entry's new parent has the entry's own name, or a name below it. At
// the server, another entry has that name now.
func inItself(s *schema.Schema, name *dn.Name, parent dn.DN) bool {
	own, err := name.Key(s)
	above, err2 := dn.NameOf(parent).Key(s)
	return err == nil && err2 == nil && bytes.HasPrefix(above, own)
}

// has reports whether c has all values of an RDN.
func (c *copied) has(s *schema.Schema, rdn dn.RDN) bool {
	for _, ava := range rdn {
		t := s.Attribute(ava.Type)
		in := slices.ContainsFunc(c.attributes, func(a op.PartialAttribute) bool {
			of, _ := s.Describe(a.Description)
			return t != nil && of == t && slices.ContainsFunc(a.Values, func(v []byte) bool { return t.SameValue(v, ava.Value) })
		})
		if !in {
			return false
		}
	}
	return true
}

// changesTo returns the modifications that make the values of e equal to those of c,
// octet by octet.
func changesTo(s *schema.Schema, e *entry.Entry, c *copied) (changes []op.Modification) {
	theirs, ours := c.byDescription(s), ofEntry(e)
	for d, want := range theirs {
		have := ours[d]
		delete(ours, d)
		if d.typ.Name() == "objectClass" {
			want = withSuperclasses(s, want)
			have = withSuperclasses(s, have)
		}
		if sameOctets(have, want) || !d.changeable() {
			continue
		}
		changes = append(changes, op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: d.String(), Values: want}})
	}
	for d := range ours {
		if d.changeable() && !d.stamp() {
			changes = append(changes, op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: d.String()}})
		}
	}
	if len(changes) == 0 {
		return nil
	}
	// A modification sets new stamps unless it contains them, so add the stamps of the
	// other server.
	for d, v := range theirs {
		given := slices.ContainsFunc(changes, func(m op.Modification) bool { return m.Description == d.String() })
		if d.stamp() && !given {
			changes = append(changes, op.Modification{Kind: op.ModReplace, PartialAttribute: op.PartialAttribute{Description: d.String(), Values: v}})
		}
	}
	slices.SortFunc(changes, func(a, b op.Modification) int { return strings.Compare(a.Description, b.Description) })
	return changes
}

// The type described is an attribute description.
type described struct {
	typ     *schema.AttributeType
	options string
}

func (d described) String() string { return d.typ.Name() + d.options }

// stamp reports whether an attribute says who made or changed an entry, and when.
func (d described) stamp() bool {
	switch d.typ.Name() {
	case "creatorsName", "createTimestamp", "modifiersName", "modifyTimestamp":
		return true
	}
	return false
}

// accounts is the OID prefix of the attributes in which a server with password policies
// keeps the state of accounts.
const accounts = "1.3.6.1.4.1.42.2.27.8.1."

// changeable reports whether the directory takes an attribute from another server.
func (d described) changeable() bool {
	switch {
	case d.stamp(), strings.HasPrefix(d.typ.OID, accounts):
		return true
	}
	return !d.typ.NoUserModification && d.typ.Name() != "accessRule"
}

// compared reports whether an attribute counts in a comparison. Attributes that binds
// change do not count.
func (d described) compared() bool {
	return d.stamp() || !d.typ.NoUserModification && d.changeable()
}

// values returns the values of an attribute without options.
func (c *copied) values(name string) [][]byte {
	i := slices.IndexFunc(c.attributes, func(a op.PartialAttribute) bool { return strings.EqualFold(a.Description, name) })
	if i < 0 {
		return nil
	}
	return c.attributes[i].Values
}

// byDescription returns the attributes of c. It leaves out attributes that the schema
// lacks.
func (c *copied) byDescription(s *schema.Schema) map[described][][]byte {
	m := make(map[described][][]byte, len(c.attributes))
	for _, a := range c.attributes {
		t, options := s.Describe(a.Description)
		if t == nil {
			continue
		}
		d := described{t, entry.SortOptions(options)}
		m[d] = append(m[d], a.Values...)
	}
	return m
}

func ofEntry(e *entry.Entry) map[described][][]byte {
	m := make(map[described][][]byte, len(e.Attributes))
	for i := range e.Attributes {
		a := &e.Attributes[i]
		m[described{a.Type, a.Options}] = a.Values
	}
	return m
}

// withSuperclasses returns classes and all their superclasses. An entry need not name the
// superclasses of its classes, so two equal entries may differ in them.
func withSuperclasses(s *schema.Schema, classes [][]byte) [][]byte {
	all := slices.Clone(classes)
	for i := 0; i < len(all); i++ {
		c := s.Class(string(all[i]))
		if c == nil {
			continue
		}
		for _, sup := range c.Sup {
			if !slices.ContainsFunc(all, func(v []byte) bool { return s.Class(string(v)) == sup }) {
				all = append(all, []byte(sup.Name()))
			}
		}
	}
	return all
}

// sameOctets reports whether two lists have the same values, in any order.
func sameOctets(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	if slices.EqualFunc(a, b, bytes.Equal) {
		return true
	}
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, bytes.Compare)
	slices.SortFunc(b, bytes.Compare)
	return slices.EqualFunc(a, b, bytes.Equal)
}

// isRefusal reports whether an error is about an entry, and not about the store or the
// server.
func isRefusal(err error) bool {
	var p *partition.Error
	var o *occupied
	var d *dn.Error
	return errors.As(err, &p) && p.Problem != partition.Busy || errors.As(err, &o) || errors.As(err, &d)
}
