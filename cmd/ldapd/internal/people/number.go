package people

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/seed-4dac0d86/ldapd/ldap/control"
)

// number completes a new user for Unix machines.
func (c *client) number(v *values) error {
	group, err := c.groupNumber()
	if err != nil {
		return err
	}
	n, err := c.nextNumber()
	if err != nil {
		return err
	}
	if group == "" {
		group = n
	}
	v.add("objectClass", "posixAccount")
	if v.index("cn") < 0 {
		v.add("cn", c.Names[0])
	}
	v.add("uidNumber", n)
	v.add("gidNumber", group)
	v.add("homeDirectory", strings.ReplaceAll(c.People.Home, "$1", c.Names[0]))
	v.add("loginShell", c.People.Shell)
	return nil
}

// groupNumber returns the number that --gid means: itself, or the number of a group; "" without --gid.
func (c *client) groupNumber() (string, error) {
	if c.GID == "" {
		return "", nil
	}
	if _, err := strconv.ParseUint(c.GID, 10, 31); err == nil {
		return c.GID, nil
	}
	g, err := c.one(c.GID, c.groupFilter(), "gidNumber")
	if err != nil {
		return "", err
	}
	number := g.GetAttributeValue("gidNumber")
	if number == "" {
		return "", fmt.Errorf("%s: the group has no gidNumber", g.DN)
	}
	return number, nil
}

// nextNumber returns a number for a user or a group that was never given out before. Increments of
// one attribute come one after the other, at whichever servers, and each is answered with its own
// result (RFC 4525, 4527). Numbers that other clients have given to entries are passed over.
func (c *client) nextNumber() (string, error) {
	source := "cn=numbers," + c.base
	for made := false; ; {
		r := ldap.NewModifyRequest(source, []ldap.Control{
			ldap.NewControlString(control.OIDPostRead, true, string(control.ReadEntry{Attributes: []string{"nextNumber"}}.Encode()))})
		r.Increment("nextNumber", "1")
		answer, err := c.ModifyWithResult(r)
		switch {
		case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) && !made:
			if err := c.addSource(source); err != nil {
				return "", err
			}
			made = true
			continue
		case ldap.IsErrorWithCode(err, ldap.LDAPResultBusy) && c.ctx.Err() == nil:
			time.Sleep(busyPause) // others took numbers at other servers
			continue
		case err != nil:
			return "", c.failed(source, err)
		}
		after, err := incremented(answer)
		if err != nil {
			return "", fmt.Errorf("%s: %w", source, err)
		}
		n := strconv.Itoa(after - 1)
		taken, err := c.exists("(|(uidNumber=" + n + ")(gidNumber=" + n + "))")
		if err != nil {
			return "", err
		}
		if !taken {
			return n, nil
		}
	}
}

// busyPause is the time between two attempts to take a number.
const busyPause = 20 * time.Millisecond

// incremented returns the value of nextNumber after a modify.
func incremented(answer *ldap.ModifyResult) (int, error) {
	x, ok := ldap.FindControl(answer.Controls, control.OIDPostRead).(*ldap.ControlString)
	if !ok {
		return 0, errors.New("the server did not say which number comes next: you need the right to read nextNumber")
	}
	read, err := control.ParseEntryRead([]byte(x.ControlValue))
	if err != nil {
		return 0, err
	}
	if len(read["nextNumber"]) != 1 {
		return 0, errors.New("nextNumber cannot be read: you need the right to")
	}
	n, err := strconv.Atoi(read["nextNumber"][0])
	if err == nil && (n < 1 || n > math.MaxInt32) {
		err = fmt.Errorf("no number is left: nextNumber is %d", n)
	}
	return n, err
}

// addSource adds the source of numbers. It begins behind all numbers that are in use.
func (c *client) addSource(name string) error {
	first := c.People.FirstNumber
	from := strconv.Itoa(first)
	used, err := c.search(c.base, ldap.ScopeWholeSubtree, "(|(uidNumber>="+from+")(gidNumber>="+from+"))", "uidNumber", "gidNumber")
	if err != nil {
		return c.failed(c.base, err)
	}
	for _, e := range used {
		for _, a := range e.Attributes {
			for _, v := range a.Values {
				if n, err := strconv.Atoi(v); err == nil && n >= first && n < nobody {
					first = n + 1
				}
			}
		}
	}
	r := ldap.NewAddRequest(name, nil)
	r.Attribute("objectClass", []string{"numberSource"})
	r.Attribute("cn", []string{"numbers"})
	r.Attribute("nextNumber", []string{strconv.Itoa(first)})
	r.Attribute("description", []string{"the next uidNumber or gidNumber; it only grows"})
	if err := c.Add(r); err != nil && !ldap.IsErrorWithCode(err, ldap.LDAPResultEntryAlreadyExists) {
		return c.failed(name, err)
	}
	return nil
}

// nobody is the smallest of the numbers at which the first number is not looked for: 65534 is nobody
// on most machines.
const nobody = 65534
