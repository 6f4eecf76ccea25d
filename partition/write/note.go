package write

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/partition/catalog"
)

// A Message describes a commit in the journal: who made the commit, and the operations of the
// commit. The first line of a message contains the name of the author and further details about
// the request. Each further line is one operation. Names of entries and details of the request
// are quoted as in Go:
//
//	"cn=admin" from="192.0.2.1:5123" request="17/4"
//	add "uid=a,dc=example,dc=com" userPassword
//	rename "uid=b,dc=example,dc=com"
//
// A message does not contain the changed values, because the states before and after the commit
// show them. Secret attributes have no history, so the message names the secret attributes
// whose values were added or removed, and contains those of deleted entries (see Sealed).
type Message struct {
	By         By
	Operations []Operation
	Sealed     Sealed
}

// An Operation is one operation of a commit.
type Operation struct {
	// add, delete, deletetree, modify, rename, configure, import, reindex, rebuild or erase;
	// package branch adds branch, describe and merge
	Kind string
	Name string // name of the entry before the operation
	// Secrets are the secret attributes that the operation set or removed.
	Secrets []string
}

// Append appends the line for the author of a commit.
func (by *By) Append(b []byte) []byte {
	b = strconv.AppendQuote(b, by.Name)
	for _, f := range by.fields() {
		if *f.value != "" {
			b = append(append(append(b, ' '), f.name...), '=')
			b = strconv.AppendQuote(b, *f.value)
		}
	}
	return b
}

type byField struct {
	name  string
	value *string
}

func (by *By) fields() [4]byField {
	return [...]byField{{"bound", &by.Bound}, {"from", &by.From}, {"request", &by.Request}, {"session", &by.Session}}
}

// Record records an operation for the journal: its kind, the entry's name and the secret
// attributes that the operation changes.
func (tx *Tx) Record(kind string, name dn.DN, secrets ...string) {
	o := Operation{kind, name.String(), secrets}
	tx.Message = o.append(tx.Message)
}

func (o *Operation) append(b []byte) []byte {
	b = append(append(append(b, '\n'), o.Kind...), ' ')
	b = strconv.AppendQuote(b, o.Name)
	for _, s := range o.Secrets {
		b = append(append(b, ' '), s...)
	}
	return b
}

func (n *Message) Append(b []byte) []byte {
	b = n.By.Append(b)
	for i := range n.Operations {
		b = n.Operations[i].append(b)
	}
	return n.Sealed.append(b)
}

// secretsIn returns the names of the secret types in changes.
func secretsIn(k *catalog.Types, changes []op.Modification) (names []string) {
	for i := range changes {
		if t, _, err := k.Describe(changes[i].Description); err == nil && t.Secret() {
			names = append(names, t.Name())
		}
	}
	return names
}

// OnlyModifies reports whether all operations in the message of a commit are of the kind
// modify.
func OnlyModifies(message []byte) bool {
	_, operations, some := bytes.Cut(message, []byte("\n"))
	for some && len(operations) > 0 {
		if !bytes.HasPrefix(operations, []byte("modify ")) {
			return false
		}
		_, operations, _ = bytes.Cut(operations, []byte("\n"))
	}
	return some
}

// ParseMessage parses a commit's message. It skips text that it cannot parse.
func ParseMessage(message []byte) (n Message) {
	first := true
	for line := range strings.Lines(string(message)) {
		line = strings.TrimSuffix(line, "\n")
		if first {
			n.By.parse(line)
			first = false
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		if kind == sealedKind {
			n.Sealed.parse(rest)
			continue
		}
		o := Operation{Kind: kind}
		if name, behind, ok := unquoted(rest); ok {
			o.Name, o.Secrets = name, strings.Fields(behind)
		}
		n.Operations = append(n.Operations, o)
	}
	return n
}

func (by *By) parse(line string) {
	var ok bool
	by.Name, line, ok = unquoted(line)
	for ok {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, " "), "=")
		if !found {
			return
		}
		var value string
		if value, line, ok = unquoted(rest); !ok {
			return
		}
		for _, f := range by.fields() {
			if f.name == name {
				*f.value = value
			}
		}
	}
}

// unquoted parses the quoted string at the beginning of s.
func unquoted(s string) (value, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", s, false
	}
	value, err = strconv.Unquote(q)
	return value, s[len(q):], err == nil
}

// secrets returns the names of the secret types in a new entry.
func (e *NewEntry) secrets() (names []string) {
	for i := range e.Attributes {
		if t := e.Attributes[i].Typ; t.Secret() {
			names = append(names, t.Name())
		}
	}
	return names
}

// By identifies the author of a change: for creatorsName and modifiersName, and for the
// journal.
type By struct {
	Name    string    // DN of the requester
	Bound   string    // the authenticated DN, if the requester assumed another identity
	From    string    // address of the client
	Request string    // name of the request in the access log
	Session string    // the user for whom the client acts, as the client says
	Time    time.Time // zero: use the store's clock
}
