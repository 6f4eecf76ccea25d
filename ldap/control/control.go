// Package control encodes and decodes the values of controls and extended operations. It
// has Parse functions for values that clients send, and Encode methods for values that the
// server sends. Package directory defines what the values mean. The result of a Parse
// function may share memory with the value that was parsed.
//
// An error of a Parse function describes what is wrong with the value, but does not name
// the control or operation. The result code for all such errors is protocolError.
package control

import (
	"fmt"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the OIDs of controls that have no value.
const (
	OIDManageDsaIT      = "2.16.840.1.113730.3.4.2"   // RFC 3296, section 3
	OIDNoOp             = "1.3.6.1.4.1.4203.666.5.2"  // draft-zeilenga-ldap-noop
	OIDNoOp12           = "1.3.6.1.4.1.4203.1.10.2"   // draft-zeilenga-ldap-noop, as UnboundID, OpenDJ and PingDirectory know it
	OIDPermissiveModify = "1.2.840.113556.1.4.1413"   // [MS-ADTS], section 3.1.1.3.4.1.8
	OIDRelaxRules       = "1.3.6.1.4.1.4203.666.5.12" // draft-zeilenga-ldap-relax
	OIDTreeDelete       = "1.2.840.113556.1.4.805"    // draft-armijo-ldap-treedelete
	OIDDontUseCopy      = "1.3.6.1.1.22"              // RFC 6171
)

// These are the OIDs of the authorization identity controls (RFC 3829). The request
// control has no value. The value of the response control is an authorization identity.
const (
	OIDAuthzIDRequest  = "2.16.840.1.113730.3.4.16"
	OIDAuthzIDResponse = "2.16.840.1.113730.3.4.15"
)

// These are the OIDs of this project's own controls. The OIDs are made from UUIDs. The
// values of these controls are text.
const (
	// OIDAt is the OID of the control that makes an operation read a past state. The
	// control's value is a point in time: see past.ParsePointInTime.
	OIDAt = "2.25.195980779315780798893398147915016512515"

	// OIDToken is the OID of the token control. With it, a client that has written at
	// one server can read its own writes at another server. A token is a revision as
	// text: see revision.Parse. The token is the value of the request control of a read,
	// and of the response control of an update.
	OIDToken = "2.25.62115083859443682979182002512448271178"
)

// NoValue returns an error if a control that must not have a value has one. An empty
// value is no error, because some clients send an empty value instead of none.
func NoValue(value []byte) error {
	if len(value) > 0 {
		return fmt.Errorf("it has a value of %d octets and takes none", len(value))
	}
	return nil
}

// parse parses a value that is one SEQUENCE.
func parse(value []byte, components func(r *ber.Reader)) error {
	r := ber.NewReader(value)
	outer := r.Enter(ber.Sequence)
	components(&r)
	r.Leave(outer)
	r.End()
	return r.Err()
}

// parseStrings reads strings up to the end of the element last entered.
func parseStrings(r *ber.Reader) []string {
	s := []string{}
	for r.More() {
		s = append(s, string(r.Bytes(ber.OctetString)))
	}
	return s
}

// appendStrings appends a SEQUENCE OF OCTET STRING.
func appendStrings(b []byte, all []string) []byte {
	start := len(b)
	b = ber.Open(b, ber.Sequence)
	for _, s := range all {
		b = ber.AppendString(b, ber.OctetString, s)
	}
	return ber.Close(b, start)
}
