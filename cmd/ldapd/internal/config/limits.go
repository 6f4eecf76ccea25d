package config

import (
	"strings"
	"time"
)

// PerUser has the limits that may differ between users. 0 means no limit.
type PerUser struct {
	Size        int // entries that a search returns
	Time        time.Duration
	Candidates  int // entries that a search examines
	Page        int // entries per page
	SortMemory  int64
	Outstanding int // concurrent operations on a connection, if fewer than the general limit
}

// Transactions has the limits of LDAP transactions (RFC 5805).
type Transactions struct {
	Open       int // largest number of open transactions of a connection; 0 means none
	Operations int // largest number of operations of a transaction
	Memory     int64
	Idle       time.Duration // 0 means forever
}

// A LimitRule sets limits for the users that Who describes: "anonymous", "users",
// "administrator", "dn:NAME" or "subtree:NAME".
type LimitRule struct {
	Who string
	PerUser
}

// limitRules reads rules of the form "size=500 time=30s for WHO". A limit that a rule
// does not set has the value for users without a rule.
func (r *reader) limitRules(key string) []LimitRule {
	var rules []LimitRule
	for _, text := range r.ko.Strings(key) {
		limits, who, ok := strings.Cut(text, " for ")
		rule := LimitRule{Who: strings.TrimSpace(who), PerUser: r.perUser()}
		if !ok || !knownUsers(rule.Who) {
			r.fail(key, "%q does not end with for anonymous, users, administrator, dn:NAME or subtree:NAME", text)
			continue
		}
		for _, word := range strings.Fields(limits) {
			r.setLimit(key, &rule.PerUser, word)
		}
		rules = append(rules, rule)
	}
	return rules
}

// perUser reads the limits for users without a rule.
func (r *reader) perUser() PerUser {
	return PerUser{
		Size:       r.count("limits.size"),
		Time:       r.duration("limits.time"),
		Candidates: r.count("limits.candidates"),
		Page:       r.count("limits.page"),
		SortMemory: r.size("limits.sort-memory"),
	}
}

func (r *reader) setLimit(key string, l *PerUser, word string) {
	name, value, _ := strings.Cut(word, "=")
	switch name {
	case "size":
		l.Size = r.countOf(key, value)
	case "time":
		l.Time = r.durationOf(key, value)
	case "candidates":
		l.Candidates = r.countOf(key, value)
	case "page":
		l.Page = r.countOf(key, value)
	case "sort-memory":
		l.SortMemory = r.sizeOf(key, value)
	case "outstanding":
		l.Outstanding = r.countOf(key, value)
	default:
		r.fail(key, "%q is none of size=, time=, candidates=, page=, sort-memory=, outstanding=", word)
	}
}

func knownUsers(who string) bool {
	switch who {
	case "anonymous", "users", "administrator":
		return true
	}
	kind, name, _ := strings.Cut(who, ":")
	return (kind == "dn" || kind == "subtree") && checkDN(name) == nil
}
