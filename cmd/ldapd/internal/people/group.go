package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func (c *client) group(attributes ...string) (*found, error) {
	return c.one(c.Names[0], c.groupFilter(), attributes...)
}

func (c *client) addGroup() error {
	name, p := c.Names[0], &c.People
	if err := checkNew(name, "people.groups"); err != nil {
		return err
	}
	r := ldap.NewAddRequest("cn="+ldap.EscapeDN(name)+","+c.below(p.Groups), nil)
	there, err := c.group("1.1")
	switch {
	case err == nil:
		return fmt.Errorf("%s exists already: %s", name, there.DN)
	case !errors.Is(err, errNone):
		return err
	}
	classes := p.GroupClass
	if c.Posix && !slices.ContainsFunc(classes, isPosix) {
		classes = []string{"posixGroup"}
	}
	v := &values{}
	v.add("objectClass", classes...)
	v.add("cn", name)
	v.add("description", c.Description)
	if slices.ContainsFunc(classes, isPosix) {
		n, err := c.nextNumber()
		if err != nil {
			return err
		}
		v.add("gidNumber", n)
	}
	attribute := config.MemberAttribute(classes)
	members, err := c.members(attribute, c.Members)
	if err != nil {
		return err
	}
	v.add(attribute, members...)
	for _, a := range v.all {
		r.Attribute(a.Type, a.Vals)
	}
	if len(members) == 0 && requiresMember(attribute) {
		r.Attribute(attribute, []string{""})
	}
	if err := c.add(r, p.Groups); err != nil {
		return c.failed(r.DN, err)
	}
	_, err = fmt.Fprintln(c.out, r.DN)
	return err
}

func isPosix(class string) bool { return strings.EqualFold(class, "posixGroup") }

// requiresMember reports whether a group with this attribute may have to have a value, for which the
// empty name stands if it has no members.
func requiresMember(attribute string) bool { return attribute != "memberUid" }

// members returns the values of a group's attribute for users and groups.
func (c *client) members(attribute string, names []string) ([]string, error) {
	var members []string
	for _, name := range names {
		m, err := c.one(name, c.userFilter(), "uid")
		if errors.Is(err, errNone) && attribute != "memberUid" {
			m, err = c.one(name, c.groupFilter(), "uid")
		}
		switch {
		case err != nil:
			return nil, err
		case attribute != "memberUid":
			members = append(members, m.DN)
		case m.GetAttributeValue("uid") == "":
			return nil, fmt.Errorf("%s: a member of a posixGroup needs a uid", m.DN)
		default:
			members = append(members, m.GetAttributeValue("uid"))
		}
	}
	return members, nil
}

func (c *client) addMembers() error {
	g, attribute, members, err := c.membership()
	if err != nil {
		return err
	}
	r := ldap.NewModifyRequest(g.DN, nil)
	r.Add(attribute, members)
	if requiresMember(attribute) && c.hasMember(g, attribute, "") {
		r.Delete(attribute, []string{""})
	}
	if err := c.Modify(r); err != nil {
		if ldap.IsErrorWithCode(err, ldap.LDAPResultAttributeOrValueExists) {
			return fmt.Errorf("%s: some of these are members already, so nothing was changed: %w", g.DN, err)
		}
		return c.failed(g.DN, err)
	}
	return nil
}

func (c *client) removeMembers() error {
	g, attribute, members, err := c.membership()
	if err != nil {
		return err
	}
	return c.remove(g, attribute, members)
}

// membership returns the group and the members that the arguments name.
func (c *client) membership() (g *found, attribute string, members []string, err error) {
	if g, err = c.group("objectClass"); err != nil {
		return nil, "", nil, err
	}
	if attribute = config.MemberAttribute(g.GetAttributeValues("objectClass")); attribute == "" {
		return nil, "", nil, fmt.Errorf("%s: none of its classes is a group with members", g.DN)
	}
	members, err = c.members(attribute, c.Names[1:])
	return g, attribute, members, err
}

// hasMember reports whether a group has a value, without reading all values.
func (c *client) hasMember(g *found, attribute, value string) bool {
	is, err := c.Compare(g.DN, attribute, value)
	return err == nil && is
}

// remove removes members from a group. If none is left and its class requires one, the empty name
// takes their place.
func (c *client) remove(g *found, attribute string, members []string) error {
	r := ldap.NewModifyRequest(g.DN, nil)
	r.Delete(attribute, members)
	err := c.Modify(r)
	if ldap.IsErrorWithCode(err, ldap.LDAPResultObjectClassViolation) && requiresMember(attribute) {
		r.Add(attribute, []string{""})
		err = c.Modify(r)
	}
	if ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchAttribute) {
		return fmt.Errorf("%s: not all of these are members, so nothing was changed: %w", g.DN, err)
	}
	if err != nil {
		return c.failed(g.DN, err)
	}
	return nil
}

// leaveGroups removes a deleted user from the groups in which the directory has left it.
func (c *client) leaveGroups(u *found) error {
	name, uid := ldap.EscapeFilter(u.DN), ldap.EscapeFilter(u.GetAttributeValue("uid"))
	filter := "(|(member=" + name + ")(uniqueMember=" + name + ")(memberUid=" + uid + "))"
	groups, err := c.search(c.base, ldap.ScopeWholeSubtree, filter, "objectClass")
	if err != nil {
		return c.failed("the groups of "+u.DN, err)
	}
	for _, g := range groups {
		attribute, value := config.MemberAttribute(g.GetAttributeValues("objectClass")), u.DN
		if attribute == "memberUid" {
			value = u.GetAttributeValue("uid")
		}
		if err := c.remove(&g, attribute, []string{value}); err != nil {
			return err
		}
	}
	return nil
}

// followUID replaces a uid in the groups that have uids as members.
func (c *client) followUID(old, uid string) error {
	if uid == "" || old == "" || uid == old {
		return nil
	}
	groups, err := c.search(c.base, ldap.ScopeWholeSubtree, "(memberUid="+ldap.EscapeFilter(old)+")", "1.1")
	if err != nil {
		return c.failed("the groups of "+old, err)
	}
	for _, g := range groups {
		r := ldap.NewModifyRequest(g.DN, nil)
		r.Delete("memberUid", []string{old})
		r.Add("memberUid", []string{uid})
		if err := c.change(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) deleteGroup() error {
	g, err := c.group("1.1")
	if err != nil {
		return err
	}
	if err := c.Del(ldap.NewDelRequest(g.DN, nil)); err != nil {
		return c.failed(g.DN, err)
	}
	return nil
}

func (c *client) listGroups() error {
	all, err := c.search(c.base, ldap.ScopeWholeSubtree, c.isGroup(), groupColumns...)
	if err != nil {
		return c.failed(c.base, err)
	}
	return c.out.print(all, groupColumns, func(*found) bool { return true })
}

func (c *client) showGroup() error {
	g, err := c.group("*", "memberOf", "createTimestamp", "modifyTimestamp")
	if err != nil {
		return err
	}
	return c.out.printOne(g)
}
