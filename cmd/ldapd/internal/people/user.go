package people

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/cmd/ldapd/internal/config"
)

func (c *client) addUser() error {
	name, p := c.Names[0], &c.People
	if err := checkNew(name, "people.users"); err != nil {
		return err
	}
	place, attribute := p.Users, p.UserName
	if c.Service {
		place, attribute = p.Services, "uid"
	}
	r := ldap.NewAddRequest(attribute+"="+ldap.EscapeDN(name)+","+c.below(place), nil)
	there, err := c.one(name, "(|("+attribute+"=$1)(uid=$1))", "1.1")
	switch {
	case err == nil:
		return fmt.Errorf("%s exists already: %s", name, there.DN)
	case !errors.Is(err, errNone):
		return err
	}
	values := c.newUser(name, attribute)
	if c.Posix {
		if err := c.number(values); err != nil {
			return err
		}
	}
	if err := values.set(c.Set); err != nil {
		return err
	}
	for _, a := range values.all {
		r.Attribute(a.Type, a.Vals)
	}
	if err := c.add(r, place); err != nil {
		if ldap.IsErrorWithCode(err, ldap.LDAPResultObjectClassViolation) || ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidAttributeSyntax) {
			return fmt.Errorf("%w (the classes are those of people.user-class; --set gives further attributes)", c.failed(r.DN, err))
		}
		return c.failed(r.DN, err)
	}
	fmt.Fprintln(c.out, r.DN)
	return c.sayPassword()
}

// checkNew checks the name of a new user or group.
func checkNew(name, key string) error {
	if name != strings.TrimSpace(name) || name == "" || strings.ContainsAny(name, "=,") {
		return &config.Error{Text: fmt.Sprintf("%q: give a name, not a DN, without spaces at its ends: %s says where the entry is added", name, key)}
	}
	return nil
}

// newUser returns the attributes of a new user.
func (c *client) newUser(name, attribute string) *values {
	v := &values{}
	cn := strings.TrimSpace(c.CN)
	if cn == "" {
		cn = name
	}
	v.add(attribute, name)
	if c.Service {
		v.add("objectClass", "account")
		v.add("uid", name)
		v.add("description", c.CN)
		if c.Password != "" {
			v.add("objectClass", "simpleSecurityObject")
		}
	} else {
		v.add("objectClass", c.People.UserClass...)
		v.add("uid", name)
		v.add("cn", cn)
		words := strings.Fields(cn)
		last := len(words) - 1
		v.add("sn", words[last])
		v.add("givenName", strings.Join(words[:last], " "))
	}
	v.add("mail", c.Mail)
	v.add("userPassword", c.Password)
	if reset := c.reset(c.Service); reset != "" && c.Password != "" {
		v.add("pwdReset", reset)
	}
	return v
}

// reset returns the value of pwdReset that goes with a new password, or "".
func (c *client) reset(service bool) string {
	switch {
	case c.MustChange != nil:
		return strings.ToUpper(fmt.Sprint(*c.MustChange))
	case service:
		return "FALSE"
	}
	return ""
}

// sayPassword prints a generated password.
func (c *client) sayPassword() error {
	if !c.Generated {
		return nil
	}
	_, err := fmt.Fprintln(c.out, "password:", c.Password)
	return err
}

func (c *client) user(attributes ...string) (*found, error) {
	return c.one(c.Names[0], c.userFilter(), attributes...)
}

func (c *client) change(r *ldap.ModifyRequest) error {
	if err := c.Modify(r); err != nil {
		return c.failed(r.DN, err)
	}
	return nil
}

func (c *client) setUser() error {
	u, err := c.user("uid")
	if err != nil {
		return err
	}
	r := ldap.NewModifyRequest(u.DN, nil)
	renamed, uid := "", ""
	for _, text := range c.Set {
		name, value, ok := strings.Cut(text, "=")
		if !ok || strings.Trim(name, "+-") == "" {
			return &config.Error{Text: fmt.Sprintf("%q is none of ATTR=VALUE, ATTR+=VALUE and ATTR-=VALUE", text)}
		}
		if strings.EqualFold(name, "uid") {
			uid = value
		}
		one := []string{value}
		switch {
		case strings.HasSuffix(name, "+"):
			r.Add(strings.TrimSuffix(name, "+"), one)
		case strings.HasSuffix(name, "-"):
			r.Delete(strings.TrimSuffix(name, "-"), one)
		case value == "":
			r.Replace(name, nil)
		case strings.EqualFold(name, firstType(u.DN)):
			renamed = name + "=" + ldap.EscapeDN(value)
		default:
			r.Replace(name, one)
		}
	}
	if len(r.Changes) > 0 {
		if err := c.change(r); err != nil {
			return err
		}
	}
	if renamed != "" {
		if err := c.ModifyDN(ldap.NewModifyDNRequest(u.DN, renamed, true, "")); err != nil {
			return c.failed(u.DN, err)
		}
	}
	return c.followUID(u.GetAttributeValue("uid"), uid)
}

// firstType returns the type at the beginning of a DN.
func firstType(name string) string {
	kind, _, _ := strings.Cut(name, "=")
	return kind
}

func (c *client) setPassword() error {
	u, err := c.user("objectClass")
	if err != nil {
		return err
	}
	r := ldap.NewModifyRequest(u.DN, nil)
	r.Replace("userPassword", []string{c.Password})
	if reset := c.reset(c.isService(u.DN)); reset != "" {
		r.Replace("pwdReset", []string{reset})
	}
	if err := c.change(r); err != nil {
		return err
	}
	return c.sayPassword()
}

// isService reports whether an account is below the place of services.
func (c *client) isService(name string) bool {
	n, err := ldap.ParseDN(name)
	place, e := ldap.ParseDN(c.below(c.People.Services))
	return err == nil && e == nil && place.AncestorOfFold(n)
}

// disabled is the time since which an account is locked for good.
const disabled = "000001010000Z"

func (c *client) lockUser() error {
	u, err := c.user("objectClass")
	if err != nil {
		return err
	}
	r := ldap.NewModifyRequest(u.DN, nil)
	r.Replace("pwdAccountLockedTime", []string{disabled})
	return c.change(r)
}

func (c *client) unlockUser() error {
	u, err := c.user("nsAccountLock", "ds-pwp-account-disabled")
	if err != nil {
		return err
	}
	r := ldap.NewModifyRequest(u.DN, nil)
	r.Replace("pwdAccountLockedTime", nil)
	for _, a := range u.Attributes {
		r.Replace(a.Name, nil)
	}
	return c.change(r)
}

func (c *client) deleteUser() error {
	u, err := c.user("uid")
	if err != nil {
		return err
	}
	if err := c.Del(ldap.NewDelRequest(u.DN, nil)); err != nil {
		return c.failed(u.DN, err)
	}
	return c.leaveGroups(u)
}

func (c *client) listUsers() error {
	filter := "(|(objectClass=" + c.People.UserClass[0] + ")(&(objectClass=account)(uid=*)))"
	if c.Locked {
		filter = "(&" + filter + "(pwdAccountLockedTime=*))"
	}
	if c.Idle > 0 {
		since := time.Now().Add(-c.Idle).UTC().Format("20060102150405Z")
		filter = "(&" + filter + "(|(pwdLastSuccess<=" + since + ")(&(!(pwdLastSuccess=*))(createTimestamp<=" + since + "))))"
	}
	all, err := c.search(c.base, ldap.ScopeWholeSubtree, filter, userColumns...)
	if err != nil {
		return c.failed(c.base, err)
	}
	if c.Idle > 0 {
		if err := c.noteUnseen(); err != nil {
			return err
		}
	}
	return c.out.print(all, userColumns, c.expiresSoon)
}

// noteUnseen says that nothing is known of logins, if that is so.
func (c *client) noteUnseen() error {
	seen, err := c.exists("(pwdLastSuccess=*)")
	if err == nil && !seen {
		fmt.Fprintln(c.notes, "note: no account shows when it was used last: the password policy needs pwdLastSuccessInterval, and you the right to see pwdLastSuccess")
	}
	return err
}

// expiresSoon reports whether a user's password expires so soon that the user is listed.
func (c *client) expiresSoon(u *found) bool {
	return c.Expiring == 0 || u.account != nil && (u.account.Expired || u.account.Usable && u.account.Expires >= 0 && u.account.Expires <= c.Expiring)
}

func (c *client) showUser() error {
	u, err := c.user(append([]string{"*", "memberOf"}, stateAttributes...)...)
	if err != nil {
		return err
	}
	return c.out.printOne(u)
}
