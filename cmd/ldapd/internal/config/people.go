package config

import (
	"slices"
	"strings"
)

// People describes the users and groups that commands make.
type People struct {
	Base                    string // "": the naming context
	Users, Groups, Services string // relative to Base
	UserClass, GroupClass   []string
	UserName                string // attribute that names a user
	FirstNumber             int    // of POSIX users and groups
	Home, Shell             string // of POSIX users; $1 in Home is the user's name
}

// GroupClasses are the classes whose members the commands know, with the attribute that has them.
var GroupClasses = map[string]string{
	"groupofnames": "member", "groupofmembers": "member", "groupofuniquenames": "uniqueMember", "posixgroup": "memberUid",
}

// MemberAttribute returns the attribute that has the members of a group with these classes, or "".
func MemberAttribute(classes []string) string {
	attribute := ""
	for _, class := range classes {
		if a := GroupClasses[strings.ToLower(class)]; a != "" && (attribute == "" || attribute == "memberUid") {
			attribute = a
		}
	}
	return attribute
}

func (r *reader) people() People {
	p := People{
		Base: r.text("people.base"), Users: r.text("people.users"), Groups: r.text("people.groups"), Services: r.text("people.services"),
		UserClass: strings.Fields(r.text("people.user-class")), GroupClass: strings.Fields(r.text("people.group-class")),
		UserName: r.text("people.user-name"), FirstNumber: r.count("people.first-number"),
		Home: r.text("people.home"), Shell: r.text("people.shell"),
	}
	for _, key := range []string{"people.base", "people.users", "people.groups", "people.services"} {
		if text := r.text(key); text != "" {
			if err := checkDN(text); err != nil {
				r.fail(key, "%v", err)
			}
		}
	}
	if len(p.UserClass) == 0 || p.UserName == "" {
		r.fail("people.user-class", "a user needs a class, and people.user-name the attribute that names it")
	}
	if !slices.ContainsFunc(p.GroupClass, func(c string) bool { return GroupClasses[strings.ToLower(c)] != "" }) {
		r.fail("people.group-class", "%q has none of groupOfNames, groupOfUniqueNames, groupOfMembers and posixGroup", r.text("people.group-class"))
	}
	return p
}
