package bulk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
	"github.com/seed-4dac0d86/ldapd/partition/onlineschema"
	"github.com/seed-4dac0d86/ldapd/schema"
)

// These are the attributes of definitions that 389 Directory Server and slapd accept.
// Definitions of a later attribute may need definitions of an earlier one.
var (
	takenByDirsrv = []string{"attributeTypes", "objectClasses"}
	takenBySlapd  = []string{"attributeTypes", "objectClasses", "dITContentRules"}
)

// define adds the definitions in a record to the server's schema, except those that the server
// has already. If the server is neither slapd nor 389 Directory Server, define also removes the
// definitions that the record removes.
func (s *sender) define(c *ldap.Conn, x *item) error {
	added, removed, err := x.definitions()
	if err != nil {
		return err
	}
	root, err := readBase(c, "", "vendorName", "configContext", "subschemaSubentry")
	if err != nil {
		return err
	}
	config, vendor := root.GetEqualFoldAttributeValue("configContext"), root.GetEqualFoldAttributeValue("vendorName")
	switch {
	case strings.Contains(strings.ToLower(vendor), "389 project"):
		return s.defineElsewhere(c, root, added, removed, takenByDirsrv, addToDirsrv)
	case vendor != "ldapd" && config != "":
		return s.defineElsewhere(c, root, added, removed, takenBySlapd,
			func(c *ldap.Conn, by map[string][]string) error { return addToSlapd(c, config, by) })
	}
	return defineInLdapd(c, added, removed)
}

// defineInLdapd changes the schema of another ldapd.
func defineInLdapd(c *ldap.Conn, added, removed []schema.Definition) error {
	there, err := subschemaOf(c, catalog.SubschemaName)
	if err != nil {
		return err
	}
	add, remove, err := onlineschema.LackingAt(there, added, removed)
	if err != nil || len(add)+len(remove) == 0 {
		return err
	}
	m := ldap.NewModifyRequest(catalog.SubschemaName, nil)
	for _, d := range remove {
		m.Delete(d.Attribute, []string{d.Text})
	}
	for _, d := range add {
		m.Add(d.Attribute, []string{d.Text})
	}
	return c.Modify(m)
}

// defineElsewhere adds definitions to a server of another kind. It calls the function do with
// the definitions, grouped by attribute. It skips definitions whose OID the server already
// knows. The parameter "takes" contains the attributes that the server accepts. For definitions
// in other attributes, defineElsewhere writes a note.
func (s *sender) defineElsewhere(c *ldap.Conn, root *ldap.Entry, added, removed []schema.Definition, takes []string, do func(*ldap.Conn, map[string][]string) error) error {
	there, err := subschemaOf(c, root.GetEqualFoldAttributeValue("subschemaSubentry"))
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, a := range there {
		for _, v := range a.Values {
			known[strings.ToLower(a.Description)+oidOf(string(v))] = true
		}
	}
	by := map[string][]string{}
	for _, d := range added {
		switch {
		case known[strings.ToLower(d.Attribute)+oidOf(d.Text)]:
		case !slices.Contains(takes, d.Attribute):
			s.o.Note(fmt.Sprintf("%s: %s of %s is not sent: that server does not take such definitions", d.Source, d.Attribute, oidOf(d.Text)))
		default:
			by[d.Attribute] = append(by[d.Attribute], d.Text)
		}
	}
	if len(removed) > 0 {
		s.o.Note(fmt.Sprintf("%d built-in definitions that the directory does not have are not removed from the server's schema", len(removed)))
	}
	if len(by) == 0 {
		return nil
	}
	return do(c, by)
}

// oidOf returns the OID with which a definition begins, or the name that is written in
// place of the OID.
func oidOf(text string) string {
	f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(text), "("))
	if len(f) == 0 {
		return ""
	}
	return f[0]
}

// addToDirsrv adds definitions to 389 Directory Server.
func addToDirsrv(c *ldap.Conn, by map[string][]string) error {
	for _, a := range takenByDirsrv {
		if len(by[a]) == 0 {
			continue
		}
		m := ldap.NewModifyRequest("cn=schema", nil)
		m.Add(a, by[a])
		if err := c.Modify(m); err != nil {
			return err
		}
	}
	return nil
}

// addToSlapd adds definitions to slapd, as an entry below cn=schema,cn=config.
func addToSlapd(c *ldap.Conn, config string, by map[string][]string) error {
	cn := "imported-" + time.Now().UTC().Format("20060102150405")
	r := ldap.NewAddRequest("cn="+cn+",cn=schema,"+config, nil)
	r.Attribute("objectClass", []string{"olcSchemaConfig"})
	r.Attribute("cn", []string{cn})
	for _, a := range takenBySlapd {
		if len(by[a]) > 0 {
			r.Attribute("olc"+strings.ToUpper(a[:1])+a[1:], by[a])
		}
	}
	if err := c.Add(r); err != nil {
		return fmt.Errorf("the definitions for %s: %w", r.DN, err)
	}
	return nil
}

func readBase(c *ldap.Conn, name string, attributes ...string) (*ldap.Entry, error) {
	res, err := c.Search(ldap.NewSearchRequest(name, ldap.ScopeBaseObject, ldap.NeverDerefAliases,
		1, 0, false, "(objectClass=*)", attributes, nil))
	if err != nil {
		return nil, err
	}
	if len(res.Entries) != 1 {
		return nil, fmt.Errorf("the server does not show %q", name)
	}
	return res.Entries[0], nil
}

// subschemaOf reads the definitions of a server's schema.
func subschemaOf(c *ldap.Conn, name string) (attributes []op.PartialAttribute, err error) {
	e, err := readBase(c, name, "+", "attributeTypes", "objectClasses", "dITContentRules")
	if err != nil {
		return nil, err
	}
	for _, a := range e.Attributes {
		attributes = append(attributes, op.PartialAttribute{Description: a.Name, Values: a.ByteValues})
	}
	return attributes, nil
}
