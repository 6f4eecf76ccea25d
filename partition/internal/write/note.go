package write

import (
	"strconv"
	"strings"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/op"
	"github.com/seed-4dac0d86/ldapd/partition/internal/catalog"
)

// A Message is what the journal keeps of a commit in words: who made it, and which
// operations it was. As text it is a line for who, with what is known besides, and
// a line an operation, everything that is not a word of ours quoted as Go does:
//
//	"cn=admin" from="192.0.2.1:5123" request="17/4"
//	add "uid=a,dc=example,dc=com" userPassword
//	rename "uid=b,dc=example,dc=com"
//
// What changed is not in it: the states before and behind the commit have that.
// Only of secret attributes, which have no history, it tells that they got or lost
// values.
type Message struct {
	By         By
	Operations []Operation
}

// An Operation is one that a commit was made of.
type Operation struct {
	Kind string // add, delete, deletetree, modify, rename, import, reindex or erase
	Name string // of the entry, before it
	// Secrets are the secret attributes that the operation set or took away.
	Secrets []string
}

// Append writes who makes a commit.
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

// Record notes an operation for the journal: its kind, the entry's name and the
// secrets that it changes.
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
	return b
}

// secretsIn names the secret types among changes.
func secretsIn(k *catalog.Types, changes []op.Modification) (names []string) {
	for i := range changes {
		if t, _, err := k.Describe(changes[i].Description); err == nil && t.Secret() {
			names = append(names, t.Name())
		}
	}
	return names
}

// ParseMessage reads what the journal has of a commit. What it does not understand
// it passes over.
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

// unquoted takes a quoted string off the frontier.
func unquoted(s string) (value, rest string, ok bool) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", s, false
	}
	value, err = strconv.Unquote(q)
	return value, s[len(q):], err == nil
}

// secrets names the secret types that a new entry has.
func (e *NewEntry) secrets() (names []string) {
	for i := range e.Attributes {
		if t := e.Attributes[i].Typ; t.Secret() {
			names = append(names, t.Name())
		}
	}
	return names
}

// By says who changes the directory, for creatorsName and the journal.
type By struct {
	Name    string    // the requester's DN
	Bound   string    // who bound, if others may be assumed and another was
	From    string    // the client's address
	Request string    // what the access log calls the request
	Session string    // on whose behalf the client says that it asks
	Time    time.Time // zero: by the store's clock
}
