package transaction

import "github.com/seed-4dac0d86/ldapd/ldap/op"

// The estimated overhead of a kept message, in octets: messageSize once, and partSize for
// each of the message's parts.
const (
	messageSize = 256
	partSize    = 48
)

// size returns about how many octets of memory a message takes.
func size(m *op.Message) int64 {
	n := messageSize
	for i := range m.Controls {
		n += partSize + len(m.Controls[i].OID) + len(m.Controls[i].Value)
	}
	switch r := m.Request.(type) {
	case *op.Add:
		n += len(r.Name)
		for i := range r.Attributes {
			n += attributeSize(&r.Attributes[i])
		}
	case *op.Modify:
		n += len(r.Name)
		for i := range r.Changes {
			n += attributeSize(&r.Changes[i].PartialAttribute)
		}
	case *op.Delete:
		n += len(r.Name)
	case *op.ModifyDN:
		n += len(r.Name) + len(r.NewRDN)
		if r.NewSuperior != nil {
			n += partSize + len(*r.NewSuperior)
		}
	case *op.Extended:
		n += len(r.OID) + len(r.Value)
	}
	return int64(n)
}

func attributeSize(a *op.PartialAttribute) int {
	n := partSize + len(a.Description)
	for _, v := range a.Values {
		n += partSize + len(v)
	}
	return n
}
