// Package acl evaluates access rules. It works on rules, identities and entries, and
// reads no store: callers pass the entries to decide about.
//
// # Rules
//
// A rule is a sentence:
//
//	helpdesk: allow group "cn=helpdesk,ou=groups,dc=example,dc=com" to write userPassword
//	          in "ou=people" except (employeeType=admin) if secure
//
// A rule is stored at an entry, which is the place of the rule. It applies to the place and to
// all entries below the place, or to those of them that its targets ("in") select. A request
// may do what at least one rule allows and no rule denies. Neither the order of rules nor the
// distance between the place of a rule and an entry matters. An identity with the right manage
// on an entry is an administrator of the entry: for an administrator, rules that deny other
// rights have no effect.
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
// A subject is one of "everyone", "anonymous", "users", "self" and "nobody"; a quoted
// name; "below" and a quoted name, with an optional filter; "group" and a quoted name;
// "its" and an attribute; "its parent"; "its parent's" and an attribute; "its superiors";
// or "same" and an attribute. "group" may also precede a subject that begins with "its",
// except "its superiors".
//
// In a quoted name, "*" matches any part of a value. {t} matches any value, but every {t}
// in a rule must match the same value. The names in subjects are complete DNs. The names
// after "in" are relative to the place of the rule.
//
// # From rules to decisions
//
// [Parse] parses a rule. [NewSet] checks rules against a schema. [Set.Program] evaluates,
// for one identity, all conditions that do not depend on an entry. [Program.Zone]
// evaluates the conditions that depend only on the parent of an entry. [Zone.Decide]
// evaluates all other conditions by tests of the entry. Two entries of a zone share one
// [Decision] if the tests have equal results for both.
package acl
