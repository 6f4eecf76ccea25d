package request

import (
	"testing"

	"github.com/seed-4dac0d86/ldapd/directory/auth"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/schema"
)

func FuzzControls(f *testing.F) {
	f.Add([]byte{0x30, 0x05, 0x02, 0x01, 0x05, 0x04, 0x00})
	f.Add([]byte{0x30, 0x84, 0, 0, 0, 5, 0x02, 0x01, 0x00, 0x04, 0x00})
	f.Add([]byte{})
	f.Add([]byte("\x30\x0f\x30\x0d\x04\x06member\x30\x03\x04\x01c")) // dereference
	f.Add([]byte("\x30\x0b\x30\x09\x04\x02cn\x80\x00\x81\x01\xff"))  // sort
	f.Add([]byte("\x30\x09\x02\x01\x00\x02\x01\x00\x81\x01a"))       // virtual list view
	f.Add([]byte("\x30\x0c\x87\x02cn\xa3\x06\x04\x01c\x04\x01x"))    // matched values
	f.Fuzz(func(t *testing.T, value []byte) {
		m := &op.Message{Request: &op.Search{}}
		for i := range supported {
			req := &Request{Server: &Server{}, Schema: schema.Core(), Session: &Session{Channel: auth.NoChannel{}}}
			supported[i].take(req, m, &op.Control{OID: supported[i].oid, Critical: true, Value: value})
		}
	})
}
