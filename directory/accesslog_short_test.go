package directory_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory"
	"github.com/seed-4dac0d86/ldapd/filter"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// TestLogsAreShortAndBlank checks that no line of the access log or of the log of slow operations
// contains a value of a filter, and that no text of a client makes a line long.
func TestLogsAreShortAndBlank(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	d := newDirectory(t, newPartition(t), directory.Options{Access: logger, Log: logger, Slow: time.Nanosecond})
	session := d.NewSession(nil)
	const secret, id = "topsecret", "01234567-89ab-cdef-0123-456789abcdef"
	value := []byte(secret)
	long := strings.Repeat("cn=a,", 20_000) + "dc=example,dc=com"
	requests := []op.Request{&op.Bind{Version: 3, Name: long, Password: value}}
	for _, e := range everyRequest[:4] {
		requests = append(requests, e.request)
	}
	for _, f := range []filter.Filter{&filter.Equal{Attribute: "cn", Value: value}, &filter.Substrings{Attribute: "cn", Initial: value, Any: [][]byte{value}, Final: value},
		&filter.Equal{Attribute: "mail", Value: value}, &filter.GreaterOrEqual{Attribute: "cn", Value: value}, &filter.Approx{Attribute: "cn", Value: value},
		&filter.Extensible{Attribute: "cn", Rule: "2.5.13.2", Value: value}, &filter.Extensible{Rule: "2.5.13.2", Value: value},
		&filter.Equal{Attribute: "entryUUID", Value: []byte(id)}, &filter.Equal{Attribute: "memberOf", Value: []byte("cn=" + secret)}} {
		for _, g := range []filter.Filter{f, &filter.Not{Filter: f}, filter.And{f, &filter.Equal{Attribute: "sn", Value: value}}, filter.Or{f, f}} {
			requests = append(requests, &op.Search{Base: "dc=example,dc=com", Scope: op.WholeSubtree, Filter: g})
		}
	}
	present := &filter.Present{Attribute: "cn"}
	requests = append(requests, &op.Search{Base: long, Filter: present}, &op.Delete{Name: long}, &op.Compare{Name: long, Description: long, Value: value},
		&op.ModifyDN{Name: long, NewRDN: long, NewSuperior: &long}, &op.Extended{OID: long}, &op.Search{Filter: present, Attributes: strings.Split(long, "=")},
		&op.Search{Filter: &filter.Present{Attribute: long}}, &op.Modify{Name: long, Changes: []op.Modification{{PartialAttribute: op.PartialAttribute{Description: long}}}})
	for _, r := range requests {
		session.Serve(t.Context(), &op.Message{ID: 1, Request: r}, discard{})
	}
	if !strings.Contains(log.String(), "plan=") {
		t.Error("no plan is logged")
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, secret) && !strings.Contains(line, "diagnostic=") || strings.Contains(line, id) {
			t.Error(line)
		}
		if len(line) > 12_000 {
			t.Errorf("a line of %d octets: %.100s", len(line), line)
		}
	}
}
