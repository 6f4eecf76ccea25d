// Package acl decides who may see and do what in a directory. It knows rules,
// identities and entries, and no store: package directory hands it the entries
// that it asks about.
//
// # Rules
//
// A rule is a sentence:
//
//	helpdesk: allow group "cn=helpdesk,ou=groups,dc=example,dc=com" to write userPassword
//	          in "ou=people" except (employeeType=admin) if secure
//
// It stands at an entry, its place, and holds from there down. A request may do
// what at least one rule allows and no rule denies: neither the order of rules nor
// how near to an entry they stand means anything. Who has the right manage is the
// administrator of the entry: of the denials only one of manage counts.
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
// quoted name with an optional filter, group and a quoted name, its with an
// attribute, its parent, its parent's with an attribute (each of the last three
// also after group), its superiors, and same with an attribute.
//
// In a quoted name "*" is any part of a value, and {t} a value that is the same
// wherever {t} stands in the rule. Names of subjects are whole; those after in are
// relative to the place.
//
// # From rules to decisions
//
// [Parse] reads a rule. [NewSet] checks rules against a schema. [Set.Program] decides
// for one identity all that does not depend on an entry, [Program.Zone] all that
// depends on an entry's parent only, and [Zone.Decide] the rest, by tests of the entry.
// Equal outcomes of these tests share one [Decision].
package acl
