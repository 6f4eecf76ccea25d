// Package acl evaluates access rules. It knows rules, identities and entries, but no
// store: its callers pass in the entries to decide about.
//
// # Rules
//
// A rule is a sentence:
//
//	helpdesk: allow group "cn=helpdesk,ou=groups,dc=example,dc=com" to write userPassword
//	          in "ou=people" except (employeeType=admin) if secure
//
// It is stored at an entry, its place, and applies to that entry and those below it. A
// request may do what at least one rule allows and no rule denies. The order of rules has
// no meaning, nor has the distance of their places from an entry. An identity with the
// right manage is the administrator of the entry: for it, only a denial of manage counts.
//
//	rule      = name ":" ( "allow" / "deny" ) who part *( "," part )
//	            [ "in" what ] [ "if" condition *( "and" condition ) ] [ "#" why ]
//	who       = term *( "," term ) [ "except" term *( "," term ) ]
//	term      = subject *( "and" subject )
//	part      = "to" right *( "," right ) [ attribute *( "," attribute )
//	            [ "except" attribute *( "," attribute ) ] ]
//	what      = target *( "," target ) [ "except" target *( "," target ) ]
//	target    = [ scope ] [ pattern ] [ filter ]
//	attribute = ( "*" / "+" / "@" class / description )
//	            [ "=self" / "=" quoted / filter ]
//	condition = [ "not" ] ( "secure" / "local" / "proxied" / "ssf" number /
//	            "address" network / "mechanism" name / "time" hh:mm-hh:mm zone /
//	            "day" day [ "-" day ] )
//
// The subjects are everyone, anonymous, users, self, nobody, a quoted name, below and a
// quoted name with an optional filter, group and a quoted name, its with an attribute,
// its parent, its parent's with an attribute (each of the last three also after group),
// its superiors, and same with an attribute.
//
// In a quoted name "*" matches any part of a value. {t} matches a value that is the same
// at every {t} in the rule. Names of subjects are complete DNs. Names after in are
// relative to the place.
//
// # From rules to decisions
//
// [Parse] parses a rule. [NewSet] checks rules against a schema. [Set.Program] decides
// for one identity everything that does not depend on an entry, [Program.Zone] everything
// that depends only on an entry's parent, and [Zone.Decide] the rest, by tests of the
// entry. Equal results of these tests share one [Decision].
package acl
