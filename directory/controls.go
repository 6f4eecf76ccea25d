package directory

import (
	"math"

	"github.com/seed-4dac0d86/ldapd/ber"
	"github.com/seed-4dac0d86/ldapd/op"
)

// Controls that work.
const (
	manageDsaIT  = "2.16.840.1.113730.3.4.2" // RFC 3296
	pagedResults = "1.2.840.113556.1.4.319"  // RFC 2696
)

var supportedControls = []string{pagedResults, manageDsaIT}

// controls are a request's, understood.
type controls struct {
	manageDsaIT bool
	paged       *paged
}

// paged is the value of a request's paged results control.
type paged struct {
	size   int
	cookie []byte
}

// parse reads the controls of a request. One that does not go with the operation
// counts as unknown: an error if it is critical, else ignored (RFC 4511, 4.1.11).
func (c *controls) parse(m *op.Message) error {
	for i := range m.Controls {
		ok, err := c.take(m.Request, &m.Controls[i])
		if err != nil {
			return err
		}
		if !ok && m.Controls[i].Critical {
			return unknownControl(m.Controls[i].OID)
		}
	}
	return nil
}

func unknownControl(oid string) error {
	return op.Errorf(op.UnavailableCriticalExtension,
		"control %s is not known here or does not go with this operation", oid)
}

// take reads one control and reports whether it is known.
func (c *controls) take(r op.Request, control *op.Control) (bool, error) {
	switch control.OID {
	case manageDsaIT:
		if _, ok := r.(*op.Extended); ok {
			return false, nil
		}
		c.manageDsaIT = true
		return true, nil
	case pagedResults:
		if _, ok := r.(*op.Search); !ok {
			return false, nil
		}
		if c.paged != nil {
			return true, op.Errorf(op.ProtocolError, "two paged results controls")
		}
		var err error
		c.paged, err = parsePaged(control.Value)
		return true, err
	}
	return false, nil
}

func parsePaged(value []byte) (*paged, error) {
	r := ber.NewReader(value)
	outer := r.Enter(ber.Sequence)
	size := r.IntIn(ber.Integer, 0, math.MaxInt32)
	cookie := r.Bytes(ber.OctetString)
	r.Leave(outer)
	if err := r.Err(); err != nil {
		return nil, op.Errorf(op.ProtocolError, "paged results control: %v", err)
	}
	return &paged{size: int(size), cookie: cookie}, nil
}

// pagedResponse is the control that ends a page. The size of the whole is not
// estimated: 0 (RFC 2696, 3).
func pagedResponse(cookie []byte) op.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, 0)
	b = ber.AppendString(b, ber.OctetString, cookie)
	return op.Control{OID: pagedResults, Value: ber.Close(b, 0)}
}
