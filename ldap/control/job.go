package control

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ldap/ber"
)

// These are the OIDs of the extended operations that start and cancel jobs of the server. The OIDs
// are made from UUIDs.
const (
	OIDStartJob  = "2.25.290278992517420076489212572629138585977"
	OIDCancelJob = "2.25.268718762520545346081217665954547296899"
)

// StartJob is the request value of start job.
//
//	startJobRequestValue ::= SEQUENCE {
//		name            OCTET STRING,
//		arguments       SEQUENCE OF OCTET STRING } -- as on the command line
type StartJob struct {
	Name      string
	Arguments []string
}

// ParseStartJob parses the value of a request.
func ParseStartJob(value []byte) (x StartJob, err error) {
	err = parse(value, func(r *ber.Reader) {
		x.Name = string(r.Bytes(ber.OctetString))
		outer := r.Enter(ber.Sequence)
		x.Arguments = parseStrings(r)
		r.Leave(outer)
	})
	return x, err
}

// Encode returns the value of a request.
func (x StartJob) Encode() []byte {
	b := ber.AppendString(ber.Open(nil, ber.Sequence), ber.OctetString, x.Name)
	return ber.Close(appendStrings(b, x.Arguments), 0)
}

// JobNumber is the response value of start job and the request value of cancel job.
//
//	jobNumber ::= SEQUENCE {
//		number          INTEGER (0..maxInt) }
type JobNumber struct{ Number int }

// ParseJobNumber parses the value of a request or a response.
func ParseJobNumber(value []byte) (x JobNumber, err error) {
	err = parse(value, func(r *ber.Reader) { x.Number = int(r.IntIn(ber.Integer, 0, math.MaxInt32)) })
	return x, err
}

// Encode returns the value of a request or a response.
func (x JobNumber) Encode() []byte {
	return ber.Close(ber.AppendInt(ber.Open(nil, ber.Sequence), ber.Integer, int64(x.Number)), 0)
}
