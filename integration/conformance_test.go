package integration

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/dn"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/ber"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
	"github.com/seed-4dac0d86/ldapd/ldap/wire/wiretest"
)

// A clause is a requirement in a section of an RFC: a request, and the answer that the
// RFC requires, in the notation of rawClient.ask.
type clause struct {
	section  string
	request  op.Request
	controls []op.Control
	want     string
}

// TestConformance sends requests for the sections of the RFCs over raw connections. It opens
// one connection for each RFC, bound as the administrator. The sample directory is not reset
// between RFCs: changes by the requests for one RFC are visible to the requests for later RFCs.
func TestConformance(t *testing.T) {
	t.Parallel()
	p := serveExample(t)
	for _, rfc := range conformance {
		t.Run(rfc.name, func(t *testing.T) {
			c := dialRaw(t, p)
			c.want(t, "bind", administrator, nil, "0")
			for i, clause := range rfc.clauses {
				what := fmt.Sprintf("%s, clause %d: %T", clause.section, i, clause.request)
				c.want(t, what, clause.request, clause.controls, clause.want)
			}
		})
	}
	p.stop()
}

// serveExample serves the sample directory from an embedded store.
func serveExample(t *testing.T) *process {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	importInto(t, store, example)
	return serve(t, store)
}

// A rawClient sends and receives messages of the LDAP protocol without a client
// library.
type rawClient struct {
	net.Conn
	r  *bufio.Reader
	id int32
}

func dialRaw(t *testing.T, p *process) *rawClient {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(p.url(), "ldap://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &rawClient{Conn: nc, r: bufio.NewReader(nc)}
}

func (c *rawClient) want(t *testing.T, what string, r op.Request, controls []op.Control, want string) {
	t.Helper()
	if got := c.ask(t, r, controls...); got != want {
		t.Errorf("%s\n got %s\nwant %s", what, got, want)
	}
}

// ask sends a request and returns its answers as text. The text contains the entries as
// "RDN attribute=value|value ...;" and the references as "ref URL ...;", sorted together, and
// then the result code. If the result has a matchedDN, referrals, a response value or response
// controls, they follow the code.
func (c *rawClient) ask(t *testing.T, r op.Request, controls ...op.Control) string {
	t.Helper()
	c.send(t, r, controls...)
	var parts []string
	for {
		a, err := wiretest.Read(c.r)
		if err != nil {
			t.Fatalf("%T: %v", r, err)
		}
		if a.ID != c.id {
			t.Fatalf("%T: the answer is to message %d, not %d", r, a.ID, c.id)
		}
		switch a.Tag {
		case 0x64:
			parts = append(parts, printEntry(a))
		case 0x73:
			parts = append(parts, "ref "+strings.Join(a.URLs, " ")+";")
		default:
			slices.Sort(parts)
			return strings.Join(append(parts, printResult(&a.Response)), " ")
		}
	}
}

// send sends a request without waiting for the answer.
func (c *rawClient) send(t *testing.T, r op.Request, controls ...op.Control) {
	t.Helper()
	c.id++
	if _, err := c.Write(wiretest.AppendRequest(nil, &op.Message{ID: c.id, Request: r, Controls: controls})); err != nil {
		t.Fatal(err)
	}
}

func printEntry(a *wiretest.Answer) string {
	var b strings.Builder
	if name, err := dn.Parse(a.Name); err != nil {
		fmt.Fprint(&b, err)
	} else if len(name) > 0 {
		b.WriteString(name[:1].String())
	}
	for _, at := range a.Attributes {
		fmt.Fprintf(&b, " %s", at.Description)
		for i, v := range at.Values {
			fmt.Fprintf(&b, "%c%s", "=|"[min(i, 1)], v)
		}
	}
	return b.String() + ";"
}

func printResult(r *op.Response) string {
	s := fmt.Sprint(int(r.Code))
	if r.MatchedDN != "" {
		s += " at " + r.MatchedDN
	}
	for _, u := range r.Referrals {
		s += " " + u
	}
	if r.Value != nil {
		s += fmt.Sprintf(" %q", r.Value)
	}
	for _, c := range r.Controls {
		s += fmt.Sprintf(" [%s %x]", c.OID, c.Value)
	}
	return s
}

// The functions below make requests and controls from short arguments.

var administrator = &op.Bind{Version: 3, Name: adminDN, Password: []byte(adminPassword)}

func find(base string, scope op.Scope, f string, attributes ...string) *op.Search {
	return &op.Search{Base: base, Scope: scope, Filter: filter.MustParse(f), Attributes: attributes}
}

// The function "with" returns the search r after the function change has modified it.
func with(r *op.Search, change func(r *op.Search)) *op.Search {
	change(r)
	return r
}

// add returns an Add request. Each of values is "attribute=value".
func add(dn string, values ...string) *op.Add {
	r := &op.Add{Name: dn}
	for _, x := range values {
		d, v, _ := strings.Cut(x, "=")
		i := slices.IndexFunc(r.Attributes, func(a op.PartialAttribute) bool { return a.Description == d })
		if i < 0 {
			i = len(r.Attributes)
			r.Attributes = append(r.Attributes, op.PartialAttribute{Description: d})
		}
		r.Attributes[i].Values = append(r.Attributes[i].Values, []byte(v))
	}
	return r
}

// modify returns a Modify request. A change begins with "+" to add, "-" to delete, ":"
// to replace or "#" to increment, and continues with "attribute=value". Without
// "=value", the change has no values.
func modify(dn string, changes ...string) *op.Modify {
	r := &op.Modify{Name: dn}
	for _, x := range changes {
		d, v, valued := strings.Cut(x[1:], "=")
		m := op.Modification{Kind: op.ModKind(strings.IndexByte("+-:#", x[0])), PartialAttribute: op.PartialAttribute{Description: d}}
		if valued {
			m.Values = [][]byte{[]byte(v)}
		}
		r.Changes = append(r.Changes, m)
	}
	return r
}

func move(dn, rdn, superior string) *op.ModifyDN {
	r := &op.ModifyDN{Name: dn, NewRDN: rdn, DeleteOldRDN: true}
	if superior != "" {
		r.NewSuperior = &superior
	}
	return r
}

func equals(dn, description, value string) *op.Compare {
	return &op.Compare{Name: dn, Description: description, Value: []byte(value)}
}

func simple(dn, password string) *op.Bind {
	return &op.Bind{Version: 3, Name: dn, Password: []byte(password)}
}

// paged returns a request control for simple paged results (RFC 2696).
func paged(size int64, cookie string) []op.Control {
	b := ber.Open(nil, ber.Sequence)
	b = ber.AppendInt(b, ber.Integer, size)
	b = ber.AppendString(b, ber.OctetString, cookie)
	return []op.Control{{OID: "1.2.840.113556.1.4.319", Critical: true, Value: ber.Close(b, 0)}}
}

// passwd returns a Password Modify request (RFC 3062). "-" means that a field is
// absent.
func passwd(identity, before, after string) *op.Extended {
	b := ber.Open(nil, ber.Sequence)
	for i, f := range []string{identity, before, after} {
		if f != "-" {
			b = ber.AppendString(b, ber.Context(byte(i)), f)
		}
	}
	return &op.Extended{OID: "1.3.6.1.4.1.4203.1.11.1", Value: ber.Close(b, 0)}
}
